// index.h: index.bin, which says where record i lies. *Part of the format.*
//
//   byte  0  "DSRTINDX"          8 bytes
//   byte  8  format version      u32, 1
//   byte 12  row bytes           u32, 24
//   byte 16  number of records   u64
//   byte 24  zeros               to byte 64
//   byte 64  row 0, row 1, ...   24 bytes each: offset u64, stored bytes u64, shard u32, CRC32C u32
//
// All numbers are little-endian. The file's size is exactly 64 + 24 * records.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dsrt {

static_assert(std::endian::native == std::endian::little, "index rows are mapped, not decoded");

struct IndexRow {
  std::uint64_t offset;        // first byte of the record in its shard
  std::uint64_t stored_bytes;  // after compression
  std::uint32_t shard;
  std::uint32_t crc32c;  // of the stored bytes
};
static_assert(sizeof(IndexRow) == 24);

struct IndexHeader {
  char magic[8] = {'D', 'S', 'R', 'T', 'I', 'N', 'D', 'X'};
  std::uint32_t version = 1;
  std::uint32_t row_bytes = sizeof(IndexRow);
  std::uint64_t num_records = 0;
  std::byte reserved[40] = {};
};
static_assert(sizeof(IndexHeader) == 64);

// Returns the rows inside a mapped index. Throws CorruptError, naming `path` and both numbers, if
// magic, version, row size, record count (against `expected_records`) or file size do not fit.
std::span<const IndexRow> parse_index(std::span<const std::byte> file, const std::string& path,
                                      std::uint64_t expected_records);

}  // namespace dsrt
