#include "dsrt/shard_set.h"

#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "dsrt/crc32c.h"
#include "dsrt/error.h"
#include "dsrt/record_access.h"
#include "dsrt/verify_cache.h"
#include "tests/check.h"
#include "tests/tiny_cache.h"

namespace dsrt {
namespace {

using tests::TempDirectory;
using tests::TinyCache;
using tests::to_text;

std::shared_ptr<const ShardSet> open(std::vector<CacheFiles> caches,
                                     Verify verify = Verify::first) {
  return std::make_shared<const ShardSet>(std::move(caches), verify);
}

std::string read(const std::shared_ptr<const ShardSet>& shards, std::int64_t row) {
  RecordAccess access(shards);
  const RawRecords records = access.read(std::vector{row});
  return to_text(records.bytes[0]);
}

// Reads one record of a fresh set; for what a damaged cache says.
std::string read(const CacheFiles& files, std::int64_t row) { return read(open({files}), row); }

void test_rows_run_through_the_caches_in_order() {
  const TempDirectory root;
  const auto shards = open({TinyCache(root.file("a"), {"zero", "one", "two"}, 2).files(),
                            TinyCache(root.file("empty"), {}).files(),
                            TinyCache(root.file("b"), {"three", "", "five"}).files()});
  CHECK_EQ(shards->num_records(), 6);
  CHECK_EQ(shards->bases()[1], 3);
  CHECK_EQ(shards->bases()[2], 3);
  CHECK_EQ(read(shards, 0), "zero");
  CHECK_EQ(read(shards, 2), "two");
  CHECK_EQ(read(shards, 3), "three");
  CHECK_EQ(read(shards, 4), "");
  CHECK_EQ(read(shards, 5), "five");
}

void test_rows_that_do_not_exist_are_refused() {
  const TempDirectory root;
  const auto shards = open({TinyCache(root.file("a"), {"zero", "one"}).files()});
  CHECK_THROWS_WITH(read(shards, 2), std::out_of_range, "row 2 is outside [0, 2)");
  CHECK_THROWS_WITH(read(shards, -1), std::out_of_range, "row -1 is outside [0, 2)");
}

void test_plain_records_are_views_of_the_map() {
  const TempDirectory root;
  const auto shards = open({TinyCache(root.file("a"), {"zero", "one"}).files()});
  const RawRecords records = RecordAccess(shards).read(std::vector<std::int64_t>{1});
  CHECK(records.memory == nullptr);
  CHECK_EQ(records.bytes[0].data(), shards->shard(0, 0).bytes().data() + 4);
}

void test_compressed_records_come_back_raw() {
  const TempDirectory root;
  const std::string large(100000, 'x');
  const auto shards = open({TinyCache(root.file("a"), {large, "", "two"}, 2, true).files()});
  CHECK_EQ(read(shards, 0), large);
  CHECK_EQ(read(shards, 1), "");
  CHECK_EQ(read(shards, 2), "two");
}

void test_an_index_that_was_changed_is_refused_when_it_is_opened() {
  const TempDirectory root;
  const CacheFiles files = TinyCache(root.file("a"), {"zero", "one"}).files();
  tests::flip_byte(root.file("a/index.bin"), 64);
  CHECK_THROWS_WITH(open({files}), CorruptError, "a/index.bin: the file has checksum 0x");
  CHECK_EQ(open({files}, Verify::never)->num_records(), 2);
}

// What of a file's map counts as this process's memory.
std::size_t resident_kib(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  bool is_in_map = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(path)) is_in_map = true;
    if (is_in_map && line.starts_with("Rss:")) return std::stoul(line.substr(4));
  }
  throw std::runtime_error(path + " is not mapped");
}

void test_a_large_index_is_checked_as_a_whole_and_does_not_stay_in_memory() {
  const TempDirectory root;
  constexpr std::size_t num_records = 1'000'000;  // 24 MB, two pieces
  TinyCache cache(root.file("a"), std::vector<std::string>(num_records, "x"), num_records);
  cache.shards[0].back() = 'y';
  cache.rows.back().crc32c = crc32c(tests::as_bytes("y"));
  const CacheFiles files = cache.files();
  const std::string index = files.directory + "/index.bin";
  {
    const auto shards = open({files});
    CHECK(resident_kib(index) < 12'000);
    CHECK_EQ(read(shards, 0), "x");
    CHECK_EQ(read(shards, num_records - 1), "y");
  }
  for (const std::size_t offset : {100, 17'000'000, 24'000'000}) {
    tests::flip_byte(index, offset);
    CHECK_THROWS_WITH(open({files}), CorruptError, "index.bin: the file has checksum 0x");
    tests::flip_byte(index, offset);
  }
  CHECK_EQ(read(files, 0), "x");
}

void test_a_flipped_byte_is_reported_with_shard_and_record() {
  const TempDirectory root;
  const CacheFiles files = TinyCache(root.file("a"), {"zero", "one", "two"}, 2).files();
  tests::flip_byte(root.file("a/shards/000000.bin"), 5);
  const std::string expected = root.file("a/shards/000000.bin") +
                               ": record 1 has checksum 0x8977966a but 0x2a94b2e9 is expected; "
                               "restore or rebuild the cache";
  CHECK_EQ(read(files, 0), "zero");
  CHECK_THROWS_WITH(read(files, 1), CorruptError, expected);
  CHECK_EQ(read(files, 2), "two");
  CHECK_THROWS_WITH(read(open({files}, Verify::always), 1), CorruptError, expected);
  CHECK_EQ(read(open({files}, Verify::never), 1).size(), 3u);
}

void test_first_checks_a_large_record_once_and_always_each_time() {
  const TempDirectory root;
  const CacheFiles files = TinyCache(root.file("a"), {std::string(5000, 'x'), "small"}).files();
  const auto first = open({files}, Verify::first);
  const auto always = open({files}, Verify::always);
  CHECK_EQ(read(first, 0).size(), 5000u);
  CHECK_EQ(read(first, 1), "small");
  CHECK_EQ(read(always, 0).size(), 5000u);
  tests::flip_byte(root.file("a/shards/000000.bin"), 2500);
  tests::flip_byte(root.file("a/shards/000000.bin"), 5001);
  CHECK_EQ(read(first, 0).size(), 5000u);
  CHECK_THROWS_WITH(read(first, 1), CorruptError, "record 1 has checksum");
  CHECK_THROWS_WITH(read(always, 0), CorruptError, "record 0 has checksum");
}

// The cache after `change(row)` of its only record, with an index checksum that fits again.
template <typename Change>
CacheFiles with_row(const TempDirectory& root, Change change) {
  TinyCache cache(root.file("a"), {"0123456789"});
  change(cache.rows[0]);
  return cache.files();
}

void test_index_rows_outside_their_shard_are_refused_with_both_numbers() {
  const TempDirectory root;
  const std::string name = root.file("a/shards/000000.bin") + ": record 0 ";
  const std::string end = " but the shard has 10 bytes; it was truncated, rebuild the cache";
  constexpr std::uint64_t huge = ~std::uint64_t{0};
  CHECK_THROWS_WITH(read(with_row(root, [](IndexRow& row) { row.offset = 3; }), 0), CorruptError,
                    name + "ends at byte 13" + end);
  CHECK_THROWS_WITH(read(with_row(root, [](IndexRow& row) { row.offset = huge; }), 0), CorruptError,
                    name + "begins at byte 18446744073709551615" + end);
  CHECK_THROWS_WITH(read(with_row(root, [](IndexRow& row) { row.stored_bytes = huge; }), 0),
                    CorruptError, name + "has 18446744073709551615 bytes" + end);
  CHECK_THROWS_WITH(read(with_row(root, [](IndexRow& row) { row.shard = 1; }), 0), CorruptError,
                    root.file("a/index.bin") + ": record 0 lies in shard 1 but the cache has 1;");
}

void test_shards_are_opened_at_first_use() {
  const TempDirectory root;
  const CacheFiles files = TinyCache(root.file("a"), {"zero", "one", "two"}, 1).files();
  std::filesystem::remove(root.file("a/shards/000001.bin"));
  std::filesystem::resize_file(root.file("a/shards/000002.bin"), 2);
  const auto shards = open({files});
  CHECK_EQ(read(shards, 0), "zero");
  CHECK_THROWS_WITH(read(shards, 1), SystemError, "a/shards/000001.bin: open failed");
  CHECK_THROWS_WITH(read(shards, 2), CorruptError,
                    "a/shards/000002.bin: has 2 bytes but the manifest says 3;");
}

void test_a_shard_truncated_under_the_map_is_an_error_and_not_a_signal() {
  const TempDirectory root;
  const std::string page(4096, 'p');
  const CacheFiles files = TinyCache(root.file("a"), {page, page, "end"}).files();
  const auto shards = open({files});
  CHECK_EQ(read(shards, 2), "end");
  std::filesystem::resize_file(root.file("a/shards/000000.bin"), 4096);
  CHECK_EQ(read(shards, 0), page);
  CHECK_THROWS_WITH(read(shards, 1), CorruptError,
                    root.file("a/shards/000000.bin") +
                        ": record 1 cannot be read, the file has 4096 bytes but had 8195 when it "
                        "was opened; it was truncated, restore or rebuild the cache");
  CHECK_EQ(read(shards, 0), page);
}

void test_an_index_truncated_under_the_map_is_an_error_and_not_a_signal() {
  const TempDirectory root;
  const auto shards = open({TinyCache(root.file("a"), std::vector<std::string>(500, "r")).files()});
  std::filesystem::resize_file(root.file("a/index.bin"), 64);
  CHECK_THROWS_WITH(read(shards, 499), CorruptError,
                    "a/index.bin: cannot be read, the file has 64 bytes but had 12064 when");
}

void test_a_removed_file_stays_readable_while_it_is_mapped() {
  const TempDirectory root;
  const auto shards = open({TinyCache(root.file("a"), {"zero", "one"}).files()});
  CHECK_EQ(read(shards, 0), "zero");
  std::filesystem::remove_all(root.file("a"));
  CHECK_EQ(read(shards, 1), "one");
}

void test_a_frame_that_claims_too_much_is_refused_before_memory_is_taken() {
  const TempDirectory root;
  TinyCache cache(root.file("a"), {std::string(1000, 'x')}, 1, true);
  cache.max_record_bytes = 999;
  CHECK_THROWS_WITH(read(cache.files(), 0), CorruptError,
                    "record 0 claims 1000 bytes but the largest record of the cache has 999;");

  // Four bytes magic, a descriptor for an eight-byte size, and a size of 2^50.
  const std::string bomb("\x28\xB5\x2F\xFD\xE0\0\0\0\0\0\0\x04\0\x01\0\0", 16);
  TinyCache bombed(root.file("b"), {bomb});
  CacheFiles files = bombed.files();
  files.compressed = true;
  files.max_record_bytes = ~std::uint64_t{0};
  CHECK_THROWS_WITH(read(files, 0), CorruptError,
                    "record 0 claims 1125899906842624 bytes in a frame of 16;");
}

void test_a_frame_that_does_not_decompress_is_named() {
  const TempDirectory root;
  CacheFiles files = TinyCache(root.file("a"), {"no frame at all"}).files();
  files.compressed = true;
  CHECK_THROWS_WITH(read(files, 0), CorruptError,
                    root.file("a/shards/000000.bin") + ": record 0 is not a zstd frame");
}

void test_verifying_names_every_broken_record_and_shard() {
  const TempDirectory root;
  const std::vector<std::string> records = {"zero", "one", "two", "three", "four", "five"};
  const CacheFiles files = TinyCache(root.file("a"), records, 2).files();
  const CacheFiles sound = TinyCache(root.file("b"), records).files();
  tests::flip_byte(root.file("a/shards/000000.bin"), 0);
  tests::flip_byte(root.file("a/shards/000000.bin"), 6);
  std::filesystem::remove(root.file("a/shards/000001.bin"));
  const auto shards = open({sound, files});

  std::uint64_t done = 0;
  const auto problems =
      verify_cache(*shards, 1, [&](std::uint64_t records_done) { done = records_done; });
  CHECK_EQ(done, 6u);
  CHECK_EQ(problems.size(), 3u);
  CHECK_EQ(problems[0],
           root.file("a/shards/000001.bin") + ": open failed: No such file or directory");
  CHECK(problems[1].starts_with(root.file("a/shards/000000.bin") + ": record 0 has checksum"));
  CHECK(problems[2].starts_with(root.file("a/shards/000000.bin") + ": record 1 has checksum"));
  CHECK(verify_cache(*shards, 0, [](std::uint64_t) {}).empty());
}

void test_many_threads_may_open_and_read_the_same_shards() {
  const TempDirectory root;
  std::vector<std::string> records;
  for (int i = 0; i < 200; ++i) records.push_back("record " + std::to_string(i));
  const auto shards = open({TinyCache(root.file("a"), records, 20).files()});
  RecordAccess access(shards);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::int64_t row = 0; row < 200; ++row) {
        const RawRecords found = access.read(std::vector{row});
        CHECK_EQ(to_text(found.bytes[0]), records[static_cast<std::size_t>(row)]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace dsrt

int main() {
  dsrt::test_rows_run_through_the_caches_in_order();
  dsrt::test_rows_that_do_not_exist_are_refused();
  dsrt::test_plain_records_are_views_of_the_map();
  dsrt::test_compressed_records_come_back_raw();
  dsrt::test_an_index_that_was_changed_is_refused_when_it_is_opened();
  dsrt::test_a_large_index_is_checked_as_a_whole_and_does_not_stay_in_memory();
  dsrt::test_a_flipped_byte_is_reported_with_shard_and_record();
  dsrt::test_first_checks_a_large_record_once_and_always_each_time();
  dsrt::test_index_rows_outside_their_shard_are_refused_with_both_numbers();
  dsrt::test_shards_are_opened_at_first_use();
  dsrt::test_a_shard_truncated_under_the_map_is_an_error_and_not_a_signal();
  dsrt::test_an_index_truncated_under_the_map_is_an_error_and_not_a_signal();
  dsrt::test_a_removed_file_stays_readable_while_it_is_mapped();
  dsrt::test_a_frame_that_claims_too_much_is_refused_before_memory_is_taken();
  dsrt::test_a_frame_that_does_not_decompress_is_named();
  dsrt::test_verifying_names_every_broken_record_and_shard();
  dsrt::test_many_threads_may_open_and_read_the_same_shards();
}
