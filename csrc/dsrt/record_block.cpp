#include "dsrt/record_block.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace dsrt {

RecordBlock::RecordBlock(std::size_t alignment) : alignment_(alignment) { clear(); }

std::byte* RecordBlock::reserve(std::size_t max_bytes) {
  const std::size_t begin = align_up(size_, alignment_);
  if (capacity_ - begin < max_bytes || capacity_ < begin) {
    const std::size_t capacity = std::max(begin + max_bytes, capacity_ + capacity_ / 2);
    // realloc moves the pages of a large block instead of copying it.
    auto* data = static_cast<std::byte*>(std::realloc(data_.get(), capacity));
    if (data == nullptr) throw std::bad_alloc();
    (void)data_.release();
    data_.reset(data);
    capacity_ = capacity;
  }
  std::memset(data_.get() + size_, 0, begin - size_);
  return data_.get() + begin;
}

void RecordBlock::commit(std::size_t bytes) {
  const std::size_t begin = align_up(size_, alignment_);
  records_.push_back({begin, bytes, 0});
  size_ = begin + bytes;
}

void RecordBlock::clear() {
  records_.clear();
  size_ = 0;
  std::memset(reserve(alignment_), 0, alignment_);
  size_ = alignment_;
}

}  // namespace dsrt
