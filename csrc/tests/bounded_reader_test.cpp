#include "dsrt/bounded_reader.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dsrt/error.h"
#include "tests/check.h"
#include "tests/reader_bench.h"

namespace dsrt {
namespace {

using namespace tests;

void test_batches_come_in_submission_order_with_the_fields_asked_for() {
  const TempDirectory root;
  for (const bool compressed : {false, true}) {
    for (const int threads : {1, 3}) {
      const auto files = TinyCache(root.file("a"), fixed_records(500), 70, compressed).files();
      Bench bench(files, fixed_layout, {1, 0}, {threads, 8, 1 << 20});
      std::vector<std::vector<std::int64_t>> submitted;
      for (std::int64_t k = 0; k < 40; ++k) {
        submitted.push_back(range(k, 10 * k + 50));
        bench.submit(submitted.back());
        if (bench.reader.can_submit()) continue;
        check_fixed(*bench.next(), submitted.front());
        submitted.erase(submitted.begin());
      }
      for (const auto& rows : submitted) check_fixed(*bench.next(), rows);
      CHECK_EQ(bench.reader.pending(), 0u);
      CHECK_EQ(bench.reader.stats().batches, 40u);
    }
  }
}

void test_a_failed_batch_is_rethrown_in_its_turn_and_later_ones_stay_readable() {
  const TempDirectory root;
  const CacheFiles files = TinyCache(root.file("a"), fixed_records(100)).files();
  tests::flip_byte(root.file("a/shards/000000.bin"), 42 * 20 + 1);
  tests::flip_byte(root.file("a/shards/000000.bin"), 77 * 20 + 1);
  Bench bench(files, fixed_layout, {1, 0});
  bench.submit(range(0, 40));
  bench.submit(range(40, 100));
  bench.submit(range(43, 77));
  check_fixed(*bench.next(), range(0, 40));
  CHECK_THROWS_WITH(bench.next(), CorruptError, "record 42 has checksum");
  check_fixed(*bench.next(), range(43, 77));
}

void test_of_several_broken_records_the_first_slice_is_reported() {
  const TempDirectory root;
  const std::string page(100000, 'x');
  const CacheFiles files = TinyCache(root.file("a"), std::vector<std::string>(40, page)).files();
  for (const std::size_t record : {30, 20, 7}) {
    tests::flip_byte(root.file("a/shards/000000.bin"), record * page.size());
  }
  const RecordLayout layout({{"x", 1, {100000}}});
  for (int trial = 0; trial < 10; ++trial) {
    Bench bench(files, layout, {0}, {4, 4, 1 << 20});
    bench.submit(range(0, 40));
    CHECK_THROWS_WITH(bench.next(), CorruptError, "record 7 has checksum");
  }
}

void test_a_shard_truncated_while_reading_fails_the_batch_and_not_the_process() {
  const TempDirectory root;
  const std::string page(4096, 'p');
  const CacheFiles files = TinyCache(root.file("a"), std::vector<std::string>(64, page)).files();
  Bench bench(files, RecordLayout({{"x", 1, {4096}}}), {0});
  bench.submit(range(0, 64));
  CHECK_EQ(bench.next()->num_records(), 64u);
  std::filesystem::resize_file(root.file("a/shards/000000.bin"), 32 * 4096);
  bench.submit(range(0, 64));
  bench.submit(range(0, 32));
  CHECK_THROWS_WITH(bench.next(), CorruptError,
                    "record 32 cannot be read, the file has 131072 bytes but had 262144 when");
  CHECK_EQ(bench.next()->num_records(), 32u);
}

// Batches that do nothing but tell what the reader did with them.
class ProbeBatch : public Batch {
 public:
  ProbeBatch(const ShardSet& shards, std::uint64_t bytes, std::function<void()> work)
      : Batch(shards, {0}, 1), bytes_(bytes), work_(std::move(work)) {}

  std::size_t num_stages() const override { return 1; }
  std::uint64_t bytes() const override { return bytes_; }
  void prepare(std::size_t, RecordReader&) override {}
  void run(std::size_t, std::size_t, std::size_t, RecordReader&) override { work_(); }

 private:
  std::uint64_t bytes_;
  std::function<void()> work_;
};

void test_batches_beyond_max_bytes_wait_until_they_are_next() {
  const TempDirectory root;
  Bench bench(TinyCache(root.file("a"), {"r"}).files(), fixed_layout, {0}, {2, 8, 100});
  std::atomic<int> num_begun = 0;
  const auto submit = [&](std::uint64_t bytes) {
    bench.reader.submit(
        std::make_unique<ProbeBatch>(*bench.shards, bytes, [&num_begun] { ++num_begun; }));
  };
  submit(500);  // Larger than allowed, but the head is always read.
  submit(60);
  submit(60);
  while (num_begun == 0) std::this_thread::yield();
  CHECK_EQ(num_begun.load(), 1);
  CHECK(bench.reader.next(patience) != nullptr);
  CHECK(num_begun <= 2);
  CHECK(bench.reader.next(patience) != nullptr);
  CHECK(bench.reader.next(patience) != nullptr);
  CHECK_EQ(num_begun.load(), 3);
}

void test_misuse_is_refused() {
  const TempDirectory root;
  const CacheFiles files = TinyCache(root.file("a"), fixed_records(3)).files();
  Bench bench(files, fixed_layout, {0}, {1, 2, 100});
  CHECK_THROWS_WITH(bench.next(), std::invalid_argument, "no batch is pending");
  bench.submit({0});
  bench.submit({1});
  CHECK(!bench.reader.can_submit());
  CHECK_THROWS_WITH(bench.submit({2}), std::invalid_argument,
                    "2 batches are pending and max_batches is 2; take one first");
  bench.reader.close();
  bench.reader.close();
  CHECK_THROWS_WITH(bench.next(), std::invalid_argument, "the reader is closed");
  CHECK_THROWS_WITH(bench.submit({0}), std::invalid_argument, "the reader is closed");
  CHECK_THROWS_WITH(Bench(files, fixed_layout, {0}, {0, 2, 100}), std::invalid_argument,
                    "threads is 0, max_batches is 2, max_bytes is 100; each must be at least 1");
  CHECK_THROWS_WITH(Bench(files, fixed_layout, {2}), std::invalid_argument,
                    "field 2 is outside [0, 2)");
}

void test_next_gives_up_after_its_patience() {
  const TempDirectory root;
  Bench bench(TinyCache(root.file("a"), {"r"}).files(), fixed_layout, {0});
  std::atomic<bool> may_end = false;
  bench.reader.submit(std::make_unique<ProbeBatch>(*bench.shards, 1, [&] { may_end.wait(false); }));
  CHECK(bench.reader.next(std::chrono::milliseconds(1)) == nullptr);
  CHECK_EQ(bench.reader.pending(), 1u);
  may_end = true;
  may_end.notify_all();
  CHECK(bench.reader.next(patience) != nullptr);
}

void test_readers_dropped_at_any_time_leave_nothing_behind() {
  const TempDirectory root;
  const CacheFiles files = TinyCache(root.file("a"), fixed_records(100)).files();
  const auto num_threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = num_threads();
  for (int k = 0; k < 300; ++k) {
    Bench bench(files, fixed_layout, {1, 0}, {2, 4, 1 << 20});
    for (int i = 0; i < k % 5; ++i) bench.submit(range(0, 100));
    if (k % 5 > 2) bench.next();
  }
  CHECK_EQ(num_threads(), before);
}

void test_a_reader_in_a_forked_child_refuses_at_once() {
  const TempDirectory root;
  Bench bench(TinyCache(root.file("a"), fixed_records(100)).files(), fixed_layout, {1, 0});
  bench.submit(range(0, 100));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);  // Instead of hanging, die.
    CHECK_THROWS_WITH(bench.next(), ForkedError, "opened before a fork");
    CHECK_THROWS(bench.submit({0}), ForkedError);
    CHECK_THROWS(bench.reader.pending(), ForkedError);
    bench.reader.close();
    RecordReader reader(bench.shards);
    CHECK_EQ(reader.read(range(3, 4), *BufferPool::create(0)).bytes[0].size(), 20u);
    ::_exit(7);
  }
  int status = 0;
  CHECK_EQ(::waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 7);
  check_fixed(*bench.next(), range(0, 100));
}

void test_a_forked_child_may_drop_the_reader() {
  const TempDirectory root;
  auto bench = std::make_unique<Bench>(TinyCache(root.file("a"), fixed_records(100)).files(),
                                       fixed_layout, std::vector<std::size_t>{1, 0});
  bench->submit(range(0, 100));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    bench.reset();
    ::_exit(7);
  }
  int status = 0;
  CHECK_EQ(::waitpid(child, &status, 0), child);
  CHECK_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace dsrt

int main() {
  dsrt::test_batches_come_in_submission_order_with_the_fields_asked_for();
  dsrt::test_a_failed_batch_is_rethrown_in_its_turn_and_later_ones_stay_readable();
  dsrt::test_of_several_broken_records_the_first_slice_is_reported();
  dsrt::test_a_shard_truncated_while_reading_fails_the_batch_and_not_the_process();
  dsrt::test_batches_beyond_max_bytes_wait_until_they_are_next();
  dsrt::test_misuse_is_refused();
  dsrt::test_next_gives_up_after_its_patience();
  dsrt::test_readers_dropped_at_any_time_leave_nothing_behind();
  dsrt::test_a_reader_in_a_forked_child_refuses_at_once();
  dsrt::test_a_forked_child_may_drop_the_reader();
}
