// index_fuzz.cpp: bytes --> parse_index: every row that it returns lies in the file.
#include <cstring>

#include "dsrt/error.h"
#include "dsrt/index.h"
#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dsrt;
  const auto file = std::as_bytes(std::span(data, size));
  // The manifest's count is a number of its own; mostly it is the header's.
  std::uint64_t expected_records = size;
  if (size >= sizeof(IndexHeader) && data[32] == 0) std::memcpy(&expected_records, data + 16, 8);
  try {
    const std::span<const IndexRow> rows = parse_index(file, "index.bin", expected_records);
    fuzz::require(rows.size() == expected_records);
    fuzz::require(sizeof(IndexHeader) + rows.size_bytes() == size);
    fuzz::require(rows.empty() ||
                  reinterpret_cast<const std::uint8_t*>(&rows.back() + 1) == data + size);
  } catch (const CorruptError&) {
  }
  return 0;
}
