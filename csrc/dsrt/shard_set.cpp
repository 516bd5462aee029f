#include "dsrt/shard_set.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <future>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include "dsrt/crc32c.h"
#include "dsrt/error.h"

namespace dsrt {

namespace {

// Below this a checksum costs less than looking up whether it was done.
constexpr std::uint64_t always_checked_bytes = 1024;

constexpr std::size_t bits_per_word = 64;

// Indexes of so much are checked by two threads; less takes no longer than starting one.
constexpr std::uint64_t shared_index_bytes = std::uint64_t{4} << 20;

// From here on an index does not stay mapped after it was checked.
constexpr std::size_t large_index_bytes = std::size_t{16} << 20;

std::string hex(std::uint32_t value) {
  char text[11];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

[[noreturn]] void throw_checksum(const std::string& what, std::uint32_t found,
                                 std::uint32_t expected) {
  throw CorruptError(what + " has checksum " + hex(found) + " but " + hex(expected) +
                     " is expected; restore or rebuild the cache");
}

// The page at `offset` of a map could not be read: the file has shrunk, or its disk failed.
[[noreturn]] void throw_unreadable(const MappedFile& file, std::uint64_t offset,
                                   const std::string& record) {
  struct stat status {};
  const std::uint64_t mapped_bytes = file.bytes().size();
  const bool is_there = ::stat(file.path().c_str(), &status) == 0;
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (is_there && bytes < mapped_bytes) {
    throw CorruptError(file.path() + ": " + record + "cannot be read, the file has " +
                       std::to_string(bytes) + " bytes but had " + std::to_string(mapped_bytes) +
                       " when it was opened; it was truncated, restore or rebuild the cache");
  }
  throw SystemError(EIO, file.path(), record + "read at byte " + std::to_string(offset));
}

// Piece by piece, and each is let go of: of a large index few rows are needed soon, and all that is
// mapped counts as this process's memory.
std::uint32_t checksum_of_index(const MappedFile& index) {
  if (index.bytes().size() < large_index_bytes) return crc32c(index.bytes());
  std::uint32_t checksum = 0;
  for (std::size_t begin = 0; begin < index.bytes().size(); begin += large_index_bytes) {
    const std::size_t bytes = std::min(large_index_bytes, index.bytes().size() - begin);
    checksum = crc32c(index.bytes().subspan(begin, bytes), checksum);
    index.let_go(begin, bytes);
  }
  return checksum;
}

}  // namespace

ShardSet::Cache::Cache(CacheFiles description, Verify verify)
    : files(std::move(description)),
      index(files.directory + "/index.bin", files.index_bytes),
      shards(std::make_unique<Lazy<MappedFile>[]>(files.shards.size())) {
  require_directory(files.directory + "/shards");
  std::uint32_t found = files.index_crc32c;
  const auto failed = read_guarded([&] {
    rows = parse_index(index.bytes(), index.path(), files.num_records);
    if (verify != Verify::never) found = checksum_of_index(index);
  });
  if (failed) {
    throw_unreadable(index, *failed - reinterpret_cast<std::uintptr_t>(index.bytes().data()), "");
  }
  if (found != files.index_crc32c) {
    throw_checksum(index.path() + ": the file", found, files.index_crc32c);
  }
}

ShardSet::ShardSet(std::vector<CacheFiles> caches, Verify verify) : verify_(verify) {
  ensure_map_guard();
  open(std::move(caches));
  bases_.push_back(0);
  std::uint64_t stored_bytes = 0;
  for (const std::unique_ptr<const Cache>& cache : caches_) {
    const CacheFiles& opened = cache->files;
    bases_.push_back(bases_.back() + static_cast<std::int64_t>(opened.num_records));
    for (const ShardFile& shard : opened.shards) stored_bytes += shard.bytes;
    has_compressed_ |= opened.compressed;
  }
  const auto records = static_cast<std::uint64_t>(num_records());
  if (records == 0) return;
  mean_record_bytes_ = std::max<std::uint64_t>(1, stored_bytes / records);
  if (verify_ == Verify::first) {
    // calloc: pages of records that nobody reads never exist.
    const std::size_t words = records / bits_per_word + 1;
    verified_.reset(static_cast<std::uint64_t*>(std::calloc(words, sizeof(std::uint64_t))));
    if (!verified_) throw std::bad_alloc();
  }
}

void ShardSet::open(std::vector<CacheFiles> caches) {
  caches_.resize(caches.size());
  std::vector<std::exception_ptr> errors(caches.size());
  std::atomic<std::size_t> next = 0;
  const auto open_some = [&] {
    for (std::size_t i = next++; i < caches.size(); i = next++) {
      try {
        caches_[i] = std::make_unique<const Cache>(std::move(caches[i]), verify_);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  std::uint64_t index_bytes = 0;
  for (const CacheFiles& files : caches) index_bytes += files.index_bytes;
  std::future<void> other;  // Checking the indexes is all that takes time.
  if (caches.size() > 1 && verify_ != Verify::never && index_bytes >= shared_index_bytes) {
    other = std::async(std::launch::async, open_some);
  }
  open_some();
  if (other.valid()) other.get();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void ShardSet::check_row(std::int64_t row) const {
  if (row >= 0 && row < num_records()) return;
  throw std::out_of_range("row " + std::to_string(row) + " is outside [0, " +
                          std::to_string(num_records()) + ")");
}

Record ShardSet::find(std::int64_t row) const {
  const auto after = std::upper_bound(bases_.begin() + 1, bases_.end() - 1, row);
  const auto cache = static_cast<std::size_t>(after - bases_.begin()) - 1;
  Record record;
  record.cache = static_cast<std::uint32_t>(cache);
  record.sample_id = static_cast<std::uint64_t>(row - bases_[cache]);
  __builtin_prefetch(&caches_[cache]->rows[record.sample_id]);
  return record;
}

const IndexRow& ShardSet::index_row(const Record& record) const {
  return caches_[record.cache]->rows[record.sample_id];
}

void ShardSet::locate(Record& record) const {
  const Cache& cache = *caches_[record.cache];
  const IndexRow row = index_row(record);
  if (row.shard >= cache.files.shards.size()) {
    throw CorruptError(cache.index.path() + ": record " + std::to_string(record.sample_id) +
                       " lies in shard " + std::to_string(row.shard) + " but the cache has " +
                       std::to_string(cache.files.shards.size()) +
                       "; restore or rebuild the cache");
  }
  record.shard = row.shard;
  record.stored_bytes = row.stored_bytes;
  record.crc32c = row.crc32c;
  const std::span<const std::byte> bytes = shard(record.cache, row.shard).bytes();
  if (row.offset <= bytes.size() && row.stored_bytes <= bytes.size() - row.offset) {
    record.data = bytes.data() + row.offset;
    return;
  }
  // Of the three ways to be outside, each names a number that did not overflow.
  std::string claim = " ends at byte " + std::to_string(row.offset + row.stored_bytes);
  if (row.stored_bytes > bytes.size())
    claim = " has " + std::to_string(row.stored_bytes) + " bytes";
  if (row.offset > bytes.size()) claim = " begins at byte " + std::to_string(row.offset);
  throw CorruptError(name(record) + claim + " but the shard has " + std::to_string(bytes.size()) +
                     " bytes; it was truncated, rebuild the cache");
}

std::size_t ShardSet::row_of(const Record& record) const {
  return static_cast<std::size_t>(bases_[record.cache]) + record.sample_id;
}

bool ShardSet::must_check(const Record& record) const {
  if (verify_ != Verify::first) return verify_ == Verify::always;
  if (record.stored_bytes <= always_checked_bytes) return true;
  const std::size_t row = row_of(record);
  const std::atomic_ref<std::uint64_t> word(verified_[row / bits_per_word]);
  return (word.load(std::memory_order_relaxed) >> (row % bits_per_word) & 1) == 0;
}

void ShardSet::check(const Record& record, std::uint32_t found) const {
  if (found != record.crc32c) throw_checksum(name(record), found, record.crc32c);
  if (verify_ != Verify::first || record.stored_bytes <= always_checked_bytes) return;
  const std::size_t row = row_of(record);
  const std::atomic_ref<std::uint64_t> word(verified_[row / bits_per_word]);
  word.fetch_or(std::uint64_t{1} << (row % bits_per_word), std::memory_order_relaxed);
}

std::shared_ptr<const Dictionary> ShardSet::dictionary(std::size_t cache) const {
  const CacheFiles& files = caches_[cache]->files;
  if (files.dictionary.empty()) return nullptr;
  return caches_[cache]->dictionary.get([&] {
    try {
      return std::make_shared<const Dictionary>(std::as_bytes(std::span(files.dictionary)));
    } catch (const std::invalid_argument& error) {
      throw CorruptError(files.directory + ": " + error.what() + "; restore or rebuild the cache");
    }
  });
}

const MappedFile& ShardSet::shard(std::size_t cache, std::size_t shard) const {
  return caches_[cache]->shards[shard].get([&] {
    const CacheFiles& files = caches_[cache]->files;
    const ShardFile& file = files.shards[shard];
    MappedFile mapped(files.directory + "/" + file.path, file.bytes);
    mapped.expect_random_reads();  // Batches ask for what they need (read_ahead.h).
    return mapped;
  });
}

std::string ShardSet::name(const Record& record) const {
  const CacheFiles& files = caches_[record.cache]->files;
  return files.directory + "/" + files.shards[record.shard].path + ": record " +
         std::to_string(record.sample_id);
}

std::string ShardSet::name(std::int64_t row) const {
  Record record = find(row);
  guarded([&] { locate(record); });
  return name(record);
}

void ShardSet::throw_fault(std::uintptr_t address) const {
  const auto offset_in = [&](const MappedFile& file) -> std::optional<std::uint64_t> {
    const auto first = reinterpret_cast<std::uintptr_t>(file.bytes().data());
    if (address < first || address - first >= file.bytes().size()) return std::nullopt;
    return address - first;
  };
  for (std::size_t cache = 0; cache < num_caches(); ++cache) {
    const MappedFile& index = caches_[cache]->index;
    if (const auto offset = offset_in(index)) throw_unreadable(index, *offset, "");
    for (std::uint32_t shard = 0; shard < files(cache).shards.size(); ++shard) {
      const MappedFile* file = caches_[cache]->shards[shard].peek();
      if (file == nullptr) continue;
      if (const auto offset = offset_in(*file)) {
        throw_unreadable(*file, *offset, record_at(cache, shard, *offset));
      }
    }
  }
  throw std::runtime_error("memory outside the caches' files could not be provided (SIGBUS)");
}

std::string ShardSet::record_at(std::size_t cache, std::uint32_t shard,
                                std::uint64_t offset) const {
  std::string found;
  const std::span<const IndexRow> rows = caches_[cache]->rows;
  std::size_t sample = 0;
  const auto failed = read_guarded([&] {
    const auto covers = [&](const IndexRow& row) {
      return row.shard == shard && row.offset <= offset && offset - row.offset < row.stored_bytes;
    };
    sample =
        static_cast<std::size_t>(std::find_if(rows.begin(), rows.end(), covers) - rows.begin());
  });
  return failed || sample == rows.size() ? "" : "record " + std::to_string(sample) + " ";
}

}  // namespace dsrt
