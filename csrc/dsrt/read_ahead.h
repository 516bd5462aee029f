// read_ahead.h: asks the disk for the records of a batch at once, where they are not in memory.
//
// A page fault brings in one page while its thread waits, or a window around it that shuffled reads
// do not need. So a batch asks for all its records before it reads the first, neighbours together,
// in the order in which they lie in their files; the maps themselves read nothing ahead.
//
// Where everything is in memory that costs one system call a batch: a thread begins to ask when it
// has waited for a disk, and stops some batches after the last record that was missing.
//
// Threads  One thread at a time. Its own waits are counted; those of another only make it look in
//          vain.
// Errors   None: what cannot be read is for those who read it to report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dsrt/shard_set.h"

namespace dsrt {

class ReadAhead {
 public:
  // To be called before `rows` are read.
  void before_reading(const ShardSet& shards, std::span<const std::int64_t> rows);

 private:
  bool must_look();
  bool locate(const ShardSet& shards, std::span<const std::int64_t> rows);
  bool is_missing() const;
  void ask();

  long waits_ = 0;        // of this thread for a disk
  int batches_left_ = 1;  // to look at
  std::vector<std::span<const std::byte>> records_;
};

}  // namespace dsrt
