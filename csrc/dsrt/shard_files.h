// shard_files.h: index.bin and the shards of one cache while they are written.
//
//   directory/index.bin            one row a record (index.h)
//   directory/shards/000000.bin    aligned records, zeros between them, no header
//   directory/shards/000001.bin    begun when the next record would take a shard that is not
//                                  empty past `shard_bytes`; a larger record stays whole
//
// Ownership  Owns the files it created; destroyed unfinished, it closes and leaves them.
// Threads    One thread. A full shard is made durable in the background while the next one fills.
// Memory     One block of index rows.
// Errors     SystemError with the path, also for a shard that failed in the background.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "dsrt/file.h"
#include "dsrt/index.h"
#include "dsrt/record_block.h"

namespace dsrt {

struct WrittenFile {
  std::string path;  // relative to the cache
  std::uint64_t bytes;
  std::uint32_t crc32c;
};

class ShardFiles {
 public:
  // `directory`/shards must exist, the files must not. `alignment` is a power of two.
  ShardFiles(std::string directory, std::uint64_t shard_bytes, std::uint64_t alignment);

  // Writes the records of a block whose checksums are filled in.
  void append(const RecordBlock& block);
  // Makes all files and both directories durable. Returns the index, then the shards in order.
  std::vector<WrittenFile> finish();

 private:
  void begin_shard();
  void end_shard();
  void write_run(const RecordBlock& block, std::size_t first, std::size_t last,
                 std::uint64_t offset);
  void write_rows();

  const std::string directory_;
  const std::uint64_t shard_bytes_;
  const std::uint64_t alignment_;
  OutputFile index_;
  std::vector<IndexRow> rows_;  // not yet in the file
  std::uint64_t num_records_ = 0;
  std::optional<OutputFile> shard_;
  std::uint32_t shard_crc32c_ = 0;
  std::vector<WrittenFile> full_shards_;
  std::future<void> syncing_;  // the shard before this one
};

}  // namespace dsrt
