#include "dsrt/index.h"

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "dsrt/error.h"
#include "tests/check.h"

namespace dsrt {
namespace {

const std::vector<IndexRow> two_rows = {{0x10, 0x20, 0, 0xAABBCCDD}, {0x30, 0x40, 1, 0x11223344}};

// index.bin with `two_rows`, byte by byte.
std::vector<std::byte> index_file() {
  const unsigned char bytes[] = {
      'D',  'S', 'R', 'T', 'I',  'N',  'D',  'X',                           // magic
      1,    0,   0,   0,   24,   0,    0,    0,                             // version, row bytes
      2,    0,   0,   0,   0,    0,    0,    0,                             // records
      0,    0,   0,   0,   0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0,  // reserved
      0,    0,   0,   0,   0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0,  //
      0,    0,   0,   0,   0,    0,    0,    0,                             //
      0x10, 0,   0,   0,   0,    0,    0,    0,                             // row 0: offset
      0x20, 0,   0,   0,   0,    0,    0,    0,                             // stored bytes
      0,    0,   0,   0,   0xDD, 0xCC, 0xBB, 0xAA,                          // shard, CRC32C
      0x30, 0,   0,   0,   0,    0,    0,    0,                             // row 1
      0x40, 0,   0,   0,   0,    0,    0,    0,                             //
      1,    0,   0,   0,   0x44, 0x33, 0x22, 0x11,
  };
  const auto span = std::as_bytes(std::span(bytes));
  return {span.begin(), span.end()};
}

template <typename Number>
std::vector<std::byte> with(std::size_t offset, Number value) {
  std::vector<std::byte> file = index_file();
  std::memcpy(file.data() + offset, &value, sizeof value);
  return file;
}

void refused(const std::vector<std::byte>& file, std::uint64_t records, const std::string& why) {
  CHECK_THROWS_WITH(parse_index(file, "caches/a/index.bin", records), CorruptError,
                    "caches/a/index.bin: " + why);
}

void test_the_layout_is_part_of_the_format() {
  const std::vector<std::byte> file = index_file();
  const std::span<const IndexRow> rows = parse_index(file, "index.bin", 2);
  CHECK_EQ(rows.size(), 2u);
  CHECK_EQ(std::memcmp(rows.data(), two_rows.data(), rows.size_bytes()), 0);

  IndexHeader header;
  header.num_records = 2;
  CHECK_EQ(std::memcmp(&header, file.data(), sizeof header), 0);
}

void test_an_index_without_rows_is_its_header() {
  const IndexHeader header;
  CHECK(parse_index(std::as_bytes(std::span(&header, 1)), "index.bin", 0).empty());
}

void test_files_that_do_not_fit_are_refused() {
  std::vector<std::byte> file = index_file();
  file.resize(63);
  refused(file, 2, "the file size is 63 but 64 is expected");
  refused(with(0, 'X'), 2, "does not begin with DSRTINDX");
  refused(with(8, std::uint32_t{2}), 2, "the version is 2 but 1 is expected");
  refused(with(12, std::uint32_t{32}), 2, "the row size is 32 but 24 is expected");
  refused(index_file(), 3, "the record count is 2 but 3 is expected");
}

void test_rows_that_do_not_fit_the_count_are_refused() {
  std::vector<std::byte> file = index_file();
  file.resize(file.size() - 24);
  refused(file, 2, "the number of whole rows is 1 but 2 is expected");
  file.resize(file.size() + 23);
  refused(file, 2, "the number of whole rows is 1 but 2 is expected");

  // Times 24 this count would wrap around to the size of two rows.
  const std::uint64_t wraps = std::numeric_limits<std::uint64_t>::max() / 8 + 1 + 2;
  refused(with(16, wraps), wraps, "the number of whole rows is 2 but");
}

}  // namespace
}  // namespace dsrt

int main() {
  dsrt::test_the_layout_is_part_of_the_format();
  dsrt::test_an_index_without_rows_is_its_header();
  dsrt::test_files_that_do_not_fit_are_refused();
  dsrt::test_rows_that_do_not_fit_the_count_are_refused();
}
