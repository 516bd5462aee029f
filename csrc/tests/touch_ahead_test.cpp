#include "dsrt/touch_ahead.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/check.h"
#include "tests/tiny_cache.h"

namespace dsrt {
namespace {

using tests::TempDirectory;
using tests::TinyCache;

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t record_bytes = 64 << 10;
constexpr std::size_t num_records = 128;
constexpr std::size_t records_in_window = TouchAhead::window_bytes / record_bytes;

// A cache whose pages are on the disk alone, and its records where they are mapped.
struct ColdCache {
  explicit ColdCache(std::size_t bytes = record_bytes) {
    const std::vector<std::string> contents(num_records, std::string(bytes, 'x'));
    const CacheFiles files = TinyCache(root.file("a"), contents, num_records).files();
    path = root.file("a") + "/shards/000000.bin";
    shards = std::make_shared<const ShardSet>(std::vector{files}, Verify::first);
    for (std::size_t row = 0; row < num_records; ++row) {
      Record record = shards->find(static_cast<std::int64_t>(row));
      shards->locate(record);
      records.push_back(record.stored());
    }
    const int file = ::open(path.c_str(), O_RDONLY);
    CHECK(file >= 0);
    CHECK(::fsync(file) == 0);
    CHECK(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
    ::close(file);
  }

  // Whether the last page of a record is in memory.
  bool is_resident(std::size_t record) const {
    const auto last = reinterpret_cast<std::uintptr_t>(&records[record].back());
    unsigned char state = 0;
    CHECK(::mincore(reinterpret_cast<void*>(last / page_bytes * page_bytes), 1, &state) == 0);
    return (state & 1) != 0;
  }

  // Waits until it is; false after ten seconds.
  bool becomes_resident(std::size_t record) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!is_resident(record)) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  TempDirectory root;
  std::string path;
  std::shared_ptr<const ShardSet> shards;
  std::vector<std::span<const std::byte>> records;
};

void sleep_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

void test_touches_what_comes_next_and_no_more_than_a_window() {
  const ColdCache cache;
  TouchAhead ahead(cache.shards);
  ahead.add(cache.records);
  CHECK(cache.becomes_resident(records_in_window - 2));
  sleep_a_little();
  CHECK(!cache.is_resident(records_in_window + 1));
}

void test_goes_on_as_the_caller_does() {
  const ColdCache cache;
  TouchAhead ahead(cache.shards);
  const std::uint64_t begin = ahead.add(std::span(cache.records).first(num_records / 2));
  const std::uint64_t half = ahead.add(std::span(cache.records).subspan(num_records / 2));
  CHECK(half == begin + num_records / 2 * record_bytes);
  CHECK(cache.becomes_resident(records_in_window - 2));
  sleep_a_little();  // As the thread does by now.
  for (std::size_t i = 0; i < num_records - 1; ++i) {
    ahead.at(begin + i * record_bytes);
    CHECK(cache.becomes_resident(i + 1));
  }
}

void test_leaves_out_what_the_caller_has_passed() {
  const ColdCache cache;
  TouchAhead ahead(cache.shards);
  const std::uint64_t begin = ahead.add(cache.records);
  CHECK(cache.becomes_resident(records_in_window - 2));
  ahead.at(begin + 100 * record_bytes);
  CHECK(cache.becomes_resident(101));
  CHECK(!cache.is_resident(records_in_window + 10));
}

void test_small_records_are_left_alone() {
  const ColdCache cache(page_bytes);
  TouchAhead ahead(cache.shards);
  ahead.at(ahead.add(cache.records));
  sleep_a_little();
  CHECK(!cache.is_resident(2));
}

void test_file_that_shrank_is_left_to_the_reader() {
  const ColdCache cache;
  std::filesystem::resize_file(cache.path, record_bytes);
  TouchAhead ahead(cache.shards);
  ahead.at(ahead.add(cache.records));
  sleep_a_little();
  ahead.add(cache.records);
}

void test_child_of_a_fork_can_use_and_drop_it() {
  const ColdCache cache;
  auto ahead = std::make_unique<TouchAhead>(cache.shards);
  const std::uint64_t begin = ahead->add(cache.records);
  CHECK(cache.becomes_resident(1));
  const pid_t child = ::fork();
  CHECK(child >= 0);
  if (child == 0) {
    ::alarm(10);  // Waiting for a thread that is not there would be forever.
    ahead->at(begin + (num_records - 1) * record_bytes);
    ahead->add(cache.records);
    ahead.reset();
    ::_exit(0);
  }
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace
}  // namespace dsrt

int main() {
  if (std::thread::hardware_concurrency() < 2) return 0;  // Nothing is touched there.
  dsrt::test_touches_what_comes_next_and_no_more_than_a_window();
  dsrt::test_goes_on_as_the_caller_does();
  dsrt::test_leaves_out_what_the_caller_has_passed();
  dsrt::test_small_records_are_left_alone();
  dsrt::test_file_that_shrank_is_left_to_the_reader();
  dsrt::test_child_of_a_fork_can_use_and_drop_it();
}
