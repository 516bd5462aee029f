// shard_set.h: the opened payload files of many caches, numbered as one sequence of records.
//
//   row = base[c] + sample_id  -->  index row of cache c  -->  bytes inside a mapped shard
//
// Ownership  Owns the maps; a Record points into them and lives as long as the ShardSet.
// Threads    Immutable to the caller: all methods may run on any thread and take no lock.
// Memory     The maps, and one bit a record of private memory to remember what was verified.
// Errors     A record that the files do not bear out is a CorruptError naming file and record. An
//            index row is checked when it is used, so a wrong one costs nobody else.
// Faults     locate() and a Record's bytes are map reads: use them inside guarded().
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dsrt/compression.h"
#include "dsrt/file.h"
#include "dsrt/index.h"
#include "dsrt/lazy.h"
#include "dsrt/map_guard.h"

namespace dsrt {

// When a record's bytes are compared with its checksum. `first`: once a process, or on every read
// of a record so small that it is nearly free.
enum class Verify { first, always, never };

struct ShardFile {
  std::string path;  // relative to the cache
  std::uint64_t bytes = 0;
};

// What a manifest says about the files of one cache.
struct CacheFiles {
  std::string directory;
  std::uint64_t num_records = 0;
  std::uint64_t index_bytes = 0;
  std::uint32_t index_crc32c = 0;
  std::vector<ShardFile> shards;
  bool compressed = false;
  std::string dictionary;              // empty if there is none
  std::uint64_t max_record_bytes = 0;  // of the raw records
};

// One record's place: which it is, and where its stored bytes lie.
struct Record {
  std::uint32_t cache = 0;  // ordinal in the set
  std::uint32_t shard = 0;
  std::uint64_t sample_id = 0;
  const std::byte* data = nullptr;
  std::uint64_t stored_bytes = 0;
  std::uint32_t crc32c = 0;

  std::span<const std::byte> stored() const { return {data, stored_bytes}; }
};

class ShardSet {
 public:
  // Maps every index and, unless `verify` is never, checks its checksum. Shards wait for their
  // first use. Descriptors are closed at once.
  ShardSet(std::vector<CacheFiles> caches, Verify verify);

  std::int64_t num_records() const { return bases_.back(); }
  std::size_t num_caches() const { return caches_.size(); }
  // Cache c holds the rows [bases()[c], bases()[c + 1]); one more entry than caches.
  std::span<const std::int64_t> bases() const { return bases_; }
  const CacheFiles& files(std::size_t cache) const { return caches_[cache]->files; }
  bool has_compressed() const { return has_compressed_; }
  // Mean stored bytes of a record, at least 1.
  std::uint64_t mean_record_bytes() const { return mean_record_bytes_; }

  // Throws std::out_of_range unless `row` is in [0, num_records()).
  void check_row(std::int64_t row) const;
  // Names the record of `row`, without reading anything; its index row is on the way to the cache.
  Record find(std::int64_t row) const;
  // The index row of a record from find(), as stored.
  const IndexRow& index_row(const Record& record) const;
  // Completes a record from find() by its index row, checked against the shard's real size. Maps
  // the shard at first use.
  void locate(Record& record) const;

  // Whether the policy asks for a checksum of `record` now.
  bool must_check(const Record& record) const;
  // Compares `found`, the checksum of the stored bytes, and remembers a match.
  void check(const Record& record, std::uint32_t found) const;

  // The dictionary of a cache, or null.
  std::shared_ptr<const Dictionary> dictionary(std::size_t cache) const;
  // Maps shard `shard` of a cache if nobody did; throws what opening it throws.
  const MappedFile& shard(std::size_t cache, std::size_t shard) const;

  // "caches/digits/shards/000003.bin: record 41", how messages begin.
  std::string name(const Record& record) const;
  std::string name(std::int64_t row) const;

  // Runs `body`, the only place where maps are read. A page that cannot be read is a CorruptError
  // if its file has shrunk, otherwise a SystemError (EIO).
  template <typename Body>
  void guarded(Body&& body) const {
    if (const auto address = read_guarded(body)) throw_fault(*address);
  }

 private:
  struct Cache {
    CacheFiles files;
    MappedFile index;
    std::span<const IndexRow> rows;
    std::unique_ptr<Lazy<MappedFile>[]> shards;
    Lazy<std::shared_ptr<const Dictionary>> dictionary;

    Cache(CacheFiles description, Verify verify);
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  void open(std::vector<CacheFiles> caches);
  std::size_t row_of(const Record& record) const;
  [[noreturn]] void throw_fault(std::uintptr_t address) const;
  std::string record_at(std::size_t cache, std::uint32_t shard, std::uint64_t offset) const;

  Verify verify_;
  std::vector<std::unique_ptr<const Cache>> caches_;
  std::vector<std::int64_t> bases_;
  bool has_compressed_ = false;
  std::uint64_t mean_record_bytes_ = 1;
  std::unique_ptr<std::uint64_t[], Free> verified_;  // one bit a row, set atomically
};

}  // namespace dsrt
