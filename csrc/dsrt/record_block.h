// record_block.h: records side by side in memory exactly as they will lie in a shard.
//
//   [A zeros][record 0][zeros][record 1][zeros]...[record n-1]      A = alignment
//
// Every record starts at a multiple of A. The zeros in front leave room for the padding between
// the end of a shard and the block, so that both go to the file in one write.
//
// Memory  Grows without touching new bytes, and keeps its capacity when cleared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

namespace dsrt {

// The next multiple of `alignment`, a power of two.
constexpr std::uint64_t align_up(std::uint64_t offset, std::uint64_t alignment) {
  return (offset + alignment - 1) & ~(alignment - 1);
}

class RecordBlock {
 public:
  struct Record {
    std::size_t begin;
    std::size_t bytes;
    std::uint32_t crc32c;
  };

  explicit RecordBlock(std::size_t alignment);

  // Room for a record of at most `max_bytes`, valid until the next call.
  std::byte* reserve(std::size_t max_bytes);
  // The first `bytes` of the room are the next record.
  void commit(std::size_t bytes);
  void clear();

  std::vector<Record>& records() { return records_; }
  const std::vector<Record>& records() const { return records_; }
  std::span<const std::byte> bytes(const Record& record) const {
    return {data_.get() + record.begin, record.bytes};
  }
  // The bytes [begin, end) of the drawing above.
  std::span<const std::byte> bytes(std::size_t begin, std::size_t end) const {
    return {data_.get() + begin, end - begin};
  }

  // What holding the records takes: also many empty ones take memory.
  std::size_t footprint() const { return size_ + records_.size() * sizeof(Record); }
  std::size_t capacity() const { return capacity_ + records_.capacity() * sizeof(Record); }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };

  const std::size_t alignment_;
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  std::vector<Record> records_;
};

}  // namespace dsrt
