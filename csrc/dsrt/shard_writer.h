// shard_writer.h: writes the records of one cache: packed, compressed and checksummed in parallel.
//
//   append(parts) --> block of >= 256 KiB --> threads: compress, CRC --> one thread: shards, index
//
// Ownership  Owns its files and threads. Destroyed before finish(), it leaves partial files, whose
//            removal is the caller's.
// Threads    One thread at a time calls append, finish and abort; a second one is refused, not
//            delayed. The counts may be read from any thread.
// Memory     At most `max_pending_bytes` of records and one block wait, beside their compressed
//            form; `max_pending_bytes` more are kept to be used again.
// Order      Records lie in the order of append(). The bytes depend on the records and options
//            alone, not on `threads` or timing.
// Errors     A failure on a thread is rethrown by the next append() or finish(), and from then on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dsrt/shard_files.h"

namespace dsrt {

struct ShardWriterOptions {
  std::uint64_t shard_bytes = std::uint64_t{256} << 20;
  std::size_t alignment = 1;          // of a record's start, a power of two up to 4096
  std::optional<int> level;           // zstd's; none stores records as they are
  std::vector<std::byte> dictionary;  // zstd's; empty for none
  int threads = 2;                    // besides the one that writes
  std::size_t max_pending_bytes = std::size_t{64} << 20;
};

struct WriteSummary {
  std::uint64_t num_records;
  std::uint64_t raw_bytes;         // before compression
  std::uint64_t stored_bytes;      // after it, without the padding between records
  std::uint64_t max_record_bytes;  // of the largest raw record
  std::vector<WrittenFile> files;  // the index, then the shards in order
};

class ShardWriter {
 public:
  // Creates index.bin and the first shard; `directory`/shards must exist. Throws
  // std::invalid_argument for an option out of range.
  ShardWriter(const std::string& directory, const ShardWriterOptions& options);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // The parts one after the other are the next record. They are copied. Blocks while more than
  // `max_pending_bytes` wait.
  void append(std::span<const std::span<const std::byte>> parts);
  // The next append() may block.
  bool is_full() const;

  // For callers that have something else to look after: wait at most for `patience`, and return
  // whether append(), or finish(), will find nothing to wait for but the disk.
  bool wait_for_room(std::chrono::milliseconds patience);
  bool wait_until_written(std::chrono::milliseconds patience);

  // Writes what waits and makes all files durable. Afterwards the writer is closed, also when
  // this throws.
  WriteSummary finish();
  // Stops the threads and closes the files. Idempotent; nothing happens after finish().
  void abort();

  std::uint64_t num_records() const;
  std::uint64_t raw_bytes() const;
  std::uint64_t stored_bytes() const;  // Of the records written so far.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dsrt
