#include "dsrt/read_ahead.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "dsrt/crc32c.h"
#include "tests/check.h"
#include "tests/tiny_cache.h"

namespace dsrt {
namespace {

using tests::TempDirectory;
using tests::TinyCache;

constexpr std::size_t record_bytes = 64 << 10;

// Records that nothing else in the file reads ahead: each is checked on its own.
std::vector<std::string> large_records() {
  std::vector<std::string> records;
  for (char c = 'a'; c <= 'z'; ++c) records.emplace_back(record_bytes, c);
  return records;
}

void drop_from_memory(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  CHECK(file >= 0);
  CHECK(::fsync(file) == 0);
  CHECK(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
  ::close(file);
}

long waits_for_the_disk() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_majflt;
}

// Returns how often this thread waited for the disk while it read `rows`.
long read(const ShardSet& shards, std::span<const std::int64_t> rows) {
  const long before = waits_for_the_disk();
  for (const std::int64_t row : rows) {
    Record record = shards.find(row);
    shards.guarded([&] {
      shards.locate(record);
      shards.check(record, crc32c(record.stored()));
    });
  }
  return waits_for_the_disk() - before;
}

void test_records_that_were_asked_for_are_read_without_waiting_for_each_page() {
  const TempDirectory root;
  const CacheFiles files = TinyCache(root.file("a"), large_records()).files();
  const std::string shard = files.directory + "/" + files.shards[0].path;
  const std::vector<std::int64_t> rows = {20, 3, 11, 7};
  drop_from_memory(shard);
  if (read(ShardSet({files}, Verify::first), rows) == 0) {
    std::puts("skipped: this file system keeps its files in memory");
    return;
  }
  drop_from_memory(shard);
  const ShardSet shards({files}, Verify::first);
  ReadAhead ahead;
  ahead.before_reading(shards, rows);
  CHECK(read(shards, rows) == 0);
}

void test_what_cannot_be_read_is_left_to_those_who_read_it() {
  const TempDirectory root;
  TinyCache cache(root.file("a"), {"one", "", "three"});
  cache.rows[2].offset = 1 << 20;
  const ShardSet shards({cache.files()}, Verify::first);
  ReadAhead().before_reading(shards, std::vector<std::int64_t>{0, 1, 2});
  ReadAhead().before_reading(shards, std::vector<std::int64_t>{1});
  ReadAhead().before_reading(shards, {});
}

}  // namespace
}  // namespace dsrt

int main() {
  using namespace dsrt;
  test_records_that_were_asked_for_are_read_without_waiting_for_each_page();
  test_what_cannot_be_read_is_left_to_those_who_read_it();
}
