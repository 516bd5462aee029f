// block_pool.h: the writer's units of work, and those it can use again.
//
// Threads  Any thread takes and gives.
// Memory   Keeps at most `max_spare_bytes`, and no block much larger than what it last held.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dsrt/record_block.h"

namespace dsrt {

struct Block {
  explicit Block(std::size_t alignment) : raw(alignment), packed(alignment) {}

  std::size_t footprint() const { return raw.footprint() + packed.footprint(); }
  std::size_t capacity() const { return raw.capacity() + packed.capacity(); }
  void clear() {
    raw.clear();
    packed.clear();
  }

  RecordBlock raw;
  RecordBlock packed;  // `raw` compressed; empty without compression
};

// Touching fresh memory costs more than copying, checksumming and writing it together.
class BlockPool {
 public:
  BlockPool(std::size_t alignment, std::size_t usual_bytes, std::size_t max_spare_bytes)
      : alignment_(alignment), usual_bytes_(usual_bytes), max_spare_bytes_(max_spare_bytes) {}

  std::unique_ptr<Block> take() {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) return std::make_unique<Block>(alignment_);
    std::unique_ptr<Block> block = std::move(spare_.back());
    spare_.pop_back();
    spare_bytes_ -= block->capacity();
    return block;
  }

  void give(std::unique_ptr<Block> block) {
    const bool oversized = block->capacity() > 4 * std::max(block->footprint(), usual_bytes_);
    block->clear();
    const std::lock_guard lock(mutex_);
    if (oversized || spare_bytes_ + block->capacity() > max_spare_bytes_) return;
    spare_bytes_ += block->capacity();
    spare_.push_back(std::move(block));
  }

 private:
  const std::size_t alignment_;
  const std::size_t usual_bytes_;
  const std::size_t max_spare_bytes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> spare_;
  std::size_t spare_bytes_ = 0;  // their capacities
};

}  // namespace dsrt
