#include "dsrt/index.h"

#include <cstring>

#include "dsrt/error.h"

namespace dsrt {

namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what, std::uint64_t found,
                         std::uint64_t expected) {
  throw CorruptError(path + ": " + what + " is " + std::to_string(found) + " but " +
                     std::to_string(expected) + " is expected; restore or rebuild the cache");
}

}  // namespace

std::span<const IndexRow> parse_index(std::span<const std::byte> file, const std::string& path,
                                      std::uint64_t expected_records) {
  const IndexHeader expected;
  IndexHeader header;
  if (file.size() < sizeof header) refuse(path, "the file size", file.size(), sizeof header);
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0) {
    throw CorruptError(path +
                       ": does not begin with DSRTINDX; it is not an index, restore or "
                       "rebuild the cache");
  }
  if (header.version != expected.version)
    refuse(path, "the version", header.version, expected.version);
  if (header.row_bytes != expected.row_bytes) {
    refuse(path, "the row size", header.row_bytes, expected.row_bytes);
  }
  if (header.num_records != expected_records) {
    refuse(path, "the record count", header.num_records, expected_records);
  }
  // Divides instead of multiplying, so that a huge count cannot overflow.
  const std::size_t row_area = file.size() - sizeof header;
  if (row_area % sizeof(IndexRow) != 0 || row_area / sizeof(IndexRow) != header.num_records) {
    refuse(path, "the number of whole rows", row_area / sizeof(IndexRow), header.num_records);
  }
  return {reinterpret_cast<const IndexRow*>(file.data() + sizeof header),
          static_cast<std::size_t>(header.num_records)};
}

}  // namespace dsrt
