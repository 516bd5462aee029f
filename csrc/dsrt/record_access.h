// record_access.h: single records for whoever asks, on the caller's own thread.
//
// Threads  Any number at once, also in a forked child: a call borrows the idle RecordReader, or
//          makes one where another call has it, and takes no lock.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "dsrt/buffer_pool.h"
#include "dsrt/record_reader.h"
#include "dsrt/shard_set.h"

namespace dsrt {

class RecordAccess {
 public:
  explicit RecordAccess(std::shared_ptr<const ShardSet> shards);
  ~RecordAccess();
  RecordAccess(const RecordAccess&) = delete;
  RecordAccess& operator=(const RecordAccess&) = delete;

  const std::shared_ptr<const ShardSet>& shards() const { return shards_; }

  // Throws std::out_of_range for a row that does not exist, before anything is read.
  RawRecords read(std::span<const std::int64_t> rows);

 private:
  std::shared_ptr<const ShardSet> shards_;
  std::shared_ptr<BufferPool> pool_;
  std::atomic<RecordReader*> idle_ = nullptr;  // owned
};

}  // namespace dsrt
