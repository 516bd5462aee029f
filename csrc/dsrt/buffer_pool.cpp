#include "dsrt/buffer_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace dsrt {

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t multiple) {
  if (bytes > std::size_t(-1) - multiple) throw std::bad_alloc();
  return (bytes + multiple - 1) / multiple * multiple;
}

std::byte* allocate(std::size_t bytes) {
  const bool huge = bytes >= huge_page_bytes;
  void* data = ::operator new(bytes, std::align_val_t(huge ? huge_page_bytes : page_bytes));
  if (huge) ::madvise(data, bytes, MADV_HUGEPAGE);  // Only advice: nothing depends on its success.
  return static_cast<std::byte*>(data);
}

void release(std::byte* data, std::size_t bytes) noexcept {
  const bool huge = bytes >= huge_page_bytes;
  ::operator delete(data, std::align_val_t(huge ? huge_page_bytes : page_bytes));
}

}  // namespace

std::size_t BlockPlan::add(std::size_t count, std::size_t row_bytes) {
  const std::size_t offset = bytes_;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, row_bytes, &bytes) ||
      __builtin_add_overflow(offset, round_up(bytes, BufferPool::alignment), &bytes_)) {
    throw std::bad_alloc();
  }
  return offset;
}

std::shared_ptr<BufferPool> BufferPool::create(std::size_t max_free_bytes) {
  return std::shared_ptr<BufferPool>(new BufferPool(max_free_bytes));
}

BufferPool::BufferPool(std::size_t max_free_bytes)
    : max_free_bytes_(max_free_bytes), owner_(::getpid()) {}

BufferPool::~BufferPool() {
  for (const Block& block : free_) release(block.data, block.bytes);
}

std::shared_ptr<std::byte> BufferPool::take(std::size_t bytes) {
  const Block block = reuse_or_allocate(bytes);
  return {block.data, [pool = shared_from_this(), block](std::byte*) { pool->give_back(block); }};
}

std::size_t BufferPool::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return free_bytes_;
}

BufferPool::Block BufferPool::reuse_or_allocate(std::size_t bytes) {
  const std::size_t capacity = round_up(bytes == 0 ? 1 : bytes, page_bytes);
  if (is_usable()) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = free_.size(); i-- > 0;) {
      const Block block = free_[i];
      if (block.bytes < capacity || block.bytes / 2 > capacity) continue;
      free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
      free_bytes_ -= block.bytes;
      return block;
    }
    free_.reserve(++num_blocks_);  // So that giving it back cannot fail.
  }
  return {allocate(capacity), capacity};
}

// In a forked child, a thread of the parent that does not exist here may hold the lock forever.
bool BufferPool::is_usable() const noexcept { return ::getpid() == owner_; }

void BufferPool::give_back(Block block) noexcept {
  if (!is_usable()) return release(block.data, block.bytes);
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(block);
    free_bytes_ += block.bytes;
  }
  while (const auto old = pop_surplus()) release(old->data, old->bytes);
}

std::optional<BufferPool::Block> BufferPool::pop_surplus() noexcept {
  const std::lock_guard lock(mutex_);
  if (free_bytes_ <= max_free_bytes_ || free_.size() <= 1) return std::nullopt;
  const Block oldest = free_.front();
  free_.erase(free_.begin());
  free_bytes_ -= oldest.bytes;
  --num_blocks_;
  return oldest;
}

}  // namespace dsrt
