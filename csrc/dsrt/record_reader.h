// record_reader.h: one thread's way to records: located ahead of use, verified, decompressed.
//
// Ownership  Shares the ShardSet; owns its decompressor and scratch memory.
// Threads    One thread at a time. Every map read happens inside ShardSet::guarded().
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dsrt/buffer_pool.h"
#include "dsrt/compression.h"
#include "dsrt/read_ahead.h"
#include "dsrt/shard_set.h"

namespace dsrt {

// Raw records that stay readable while `memory` or the ShardSet lives.
struct RawRecords {
  std::vector<std::span<const std::byte>> bytes;
  std::shared_ptr<std::byte> memory;  // null where all bytes lie in the maps
  std::size_t memory_bytes = 0;
};

class RecordReader {
 public:
  explicit RecordReader(std::shared_ptr<const ShardSet> shards);

  const ShardSet& shards() const { return *shards_; }
  bool is_compressed(const Record& record) const { return shards_->files(record.cache).compressed; }

  // Calls `use(i, record)` for each rows[i] in order, inside the guard, with the index rows and
  // the first bytes of the records some rows ahead already on their way to the cache.
  template <typename Use>
  void visit(std::span<const std::int64_t> rows, Use use) const {
    shards_->guarded([&] {
      std::array<Record, 2 * rows_ahead> ring;
      for (std::size_t i = 0; i < rows.size() + 2 * rows_ahead; ++i) {
        if (i >= 2 * rows_ahead) use(i - 2 * rows_ahead, std::as_const(ring[i % ring.size()]));
        if (i < rows.size()) ring[i % ring.size()] = shards_->find(rows[i]);
        if (i < rows_ahead || i - rows_ahead >= rows.size()) continue;
        Record& next = ring[(i - rows_ahead) % ring.size()];
        shards_->locate(next);
        prefetch(next.stored());
      }
    });
  }

  // Asks the disk for records that will be read next, where they are not in memory.
  void read_ahead(std::span<const std::int64_t> rows) {
    read_ahead_.before_reading(*shards_, rows);
  }

  // Verifies `record` in place where the policy asks for it, and else makes its pages resident.
  void verify_in_place(const Record& record) const;
  // Appends the stored bytes of a compressed record to `frames` and verifies that copy, so that
  // what is decompressed is what was verified. A record that needs no check is decompressed from
  // its map, inside guarded().
  void append_frame(const Record& record, std::vector<std::byte>& frames) const;

  // The raw size of a compressed record by its verified frame, believed only within what the
  // manifest and the frame's own size allow.
  std::uint64_t raw_bytes(const Record& record, std::span<const std::byte> frame) const;
  void decompress(const Record& record, std::span<const std::byte> frame, std::span<std::byte> raw);

  // Scratch memory for one record, with what its last use left. It stays from slice to slice: new
  // pages cost more than decompressing into them.
  std::vector<std::byte>& frame() { return frame_; }
  std::vector<std::byte>& raw() { return raw_; }

  // Whole records, verified: views of the maps, or of one new block of `pool` if compressed.
  RawRecords read(std::span<const std::int64_t> rows, BufferPool& pool);

 private:
  // How far records are located ahead of their use, and how much of each is prefetched: together
  // about as many cache lines as a core can have outstanding.
  static constexpr std::size_t rows_ahead = 8;
  static constexpr std::size_t prefetched_bytes = 256;
  static constexpr std::size_t line_bytes = 64;

  static void prefetch(std::span<const std::byte> bytes) {
    const std::size_t size = std::min(bytes.size(), prefetched_bytes);
    for (std::size_t i = 0; i < size; i += line_bytes) __builtin_prefetch(bytes.data() + i);
  }

  std::shared_ptr<const ShardSet> shards_;
  ReadAhead read_ahead_;
  std::optional<Decompressor> decompressor_;  // made for the first compressed record
  std::size_t decompressor_cache_ = 0;        // whose dictionary it uses
  std::vector<std::byte> frame_;
  std::vector<std::byte> raw_;
};

}  // namespace dsrt
