// buffer_pool.h: blocks of memory that go round, so that few are touched and they stay in cache.
//
// Ownership  A block belongs to whoever holds its pointer and returns when the last copy is
//            dropped, even after everyone else let go of the pool.
// Threads    Blocks may be taken and dropped on any thread, also in a forked child, where none is
//            kept.
// Memory     At most `max_free_bytes` lie idle, but the block returned last is always kept.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace dsrt {

// Places arrays one after another in one block, each aligned to a cache line. Throws
// std::bad_alloc where the sizes overflow.
class BlockPlan {
 public:
  // Returns the offset of an array of `count` rows of `row_bytes` bytes.
  std::size_t add(std::size_t count, std::size_t row_bytes);
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  static constexpr std::size_t alignment = 64;

  static std::shared_ptr<BufferPool> create(std::size_t max_free_bytes);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // At least `bytes` bytes of undefined content, aligned to a cache line. Prefers the block that
  // came back last. Throws std::bad_alloc.
  std::shared_ptr<std::byte> take(std::size_t bytes);

  std::size_t free_bytes() const;

 private:
  struct Block {
    std::byte* data;
    std::size_t bytes;
  };

  explicit BufferPool(std::size_t max_free_bytes);
  bool is_usable() const noexcept;
  Block reuse_or_allocate(std::size_t bytes);
  void give_back(Block block) noexcept;
  std::optional<Block> pop_surplus() noexcept;

  const std::size_t max_free_bytes_;
  const pid_t owner_;
  mutable std::mutex mutex_;
  std::vector<Block> free_;  // oldest first
  std::size_t free_bytes_ = 0;
  std::size_t num_blocks_ = 0;  // free or lent; `free_` has room for all of them
};

}  // namespace dsrt
