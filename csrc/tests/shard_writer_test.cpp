#include "dsrt/shard_writer.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dsrt/compression.h"
#include "dsrt/crc32c.h"
#include "dsrt/error.h"
#include "dsrt/index.h"
#include "tests/check.h"
#include "tests/temp_directory.h"

namespace dsrt {
namespace {

using tests::read_file;
using tests::TempDirectory;

// A directory that a writer can be made for.
class CacheDirectory : public TempDirectory {
 public:
  CacheDirectory() { std::filesystem::create_directory(file("shards")); }
  std::string shard(const char* name) const { return file("shards/") + name; }
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

void append(ShardWriter& writer, std::string_view record) {
  const std::span<const std::byte> part = bytes_of(record);
  writer.append(std::span(&part, 1));
}

WriteSummary write(const std::string& directory, const ShardWriterOptions& options,
                   const std::vector<std::string>& records) {
  ShardWriter writer(directory, options);
  for (const std::string& record : records) append(writer, record);
  return writer.finish();
}

// Records of all sizes, empty ones and ones larger than a block among them.
std::vector<std::string> mixed_records(std::size_t count) {
  std::mt19937 random(1);
  std::vector<std::string> records;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = i % 97 == 0 ? 300'000 : i % 11 == 0 ? 0 : random() % 5000;
    std::string record(size, '\0');
    for (char& byte : record) byte = static_cast<char>(random() % 7);
    records.push_back(std::move(record));
  }
  return records;
}

std::vector<IndexRow> read_rows(const std::string& directory, std::uint64_t num_records) {
  const std::string file = read_file(directory + "/index.bin");
  const auto rows = parse_index(bytes_of(file), "index.bin", num_records);
  return {rows.begin(), rows.end()};
}

void test_write_then_read_is_identity() {
  const std::vector<std::string> records = mixed_records(500);
  for (const std::size_t alignment : {1, 16, 4096}) {
    const CacheDirectory directory;
    ShardWriterOptions options;
    options.alignment = alignment;
    options.shard_bytes = 200'000;
    const WriteSummary summary = write(directory.path(), options, records);
    CHECK_EQ(summary.num_records, 500u);
    CHECK_EQ(summary.raw_bytes, summary.stored_bytes);
    CHECK_EQ(summary.max_record_bytes, 300'000u);

    std::vector<std::string> shards;
    for (std::size_t i = 1; i < summary.files.size(); ++i) {
      shards.push_back(read_file(directory.file(summary.files[i].path)));
    }
    const std::vector<IndexRow> rows = read_rows(directory.path(), records.size());
    for (std::size_t i = 0; i < records.size(); ++i) {
      CHECK_EQ(rows[i].offset % alignment, 0u);
      CHECK_EQ(rows[i].crc32c, crc32c(bytes_of(records[i])));
      CHECK(shards[rows[i].shard].substr(rows[i].offset, rows[i].stored_bytes) == records[i]);
    }
  }
}

void test_compressed_records_are_frames_with_the_checksum_of_the_frame() {
  const CacheDirectory directory;
  ShardWriterOptions options;
  options.level = 3;
  const std::string dictionary(1000, 'd');
  options.dictionary.assign(bytes_of(dictionary).begin(), bytes_of(dictionary).end());
  const std::vector<std::string> records = {std::string(5000, 'd'), "", "short"};
  const WriteSummary summary = write(directory.path(), options, records);
  CHECK_EQ(summary.raw_bytes, 5005u);
  CHECK_EQ(summary.max_record_bytes, 5000u);

  const std::string shard = read_file(directory.shard("000000.bin"));
  Decompressor decompressor(std::make_shared<Dictionary>(options.dictionary));
  std::uint64_t stored_bytes = 0;
  for (std::size_t i = 0; const IndexRow& row : read_rows(directory.path(), 3)) {
    const auto frame = bytes_of(shard).subspan(row.offset, row.stored_bytes);
    CHECK_EQ(crc32c(frame), row.crc32c);
    CHECK_EQ(Decompressor::raw_bytes(frame, 5000, "record"), records[i].size());
    std::string raw(records[i].size(), '\0');
    decompressor.decompress(frame, std::as_writable_bytes(std::span(raw)), "record");
    CHECK(raw == records[i++]);
    stored_bytes += row.stored_bytes;
  }
  CHECK_EQ(summary.stored_bytes, stored_bytes);
  CHECK_EQ(shard.size(), stored_bytes);
}

void test_a_record_is_its_parts_one_after_the_other() {
  const CacheDirectory directory;
  ShardWriter writer(directory.path(), {});
  const std::vector<std::span<const std::byte>> parts = {bytes_of("ab"), {}, bytes_of("cd")};
  writer.append(parts);
  writer.append({});
  CHECK_EQ(writer.finish().num_records, 2u);
  CHECK_EQ(read_file(directory.shard("000000.bin")), "abcd");
}

void test_zeros_lie_between_aligned_records_and_not_after_the_last() {
  const CacheDirectory directory;
  ShardWriterOptions options;
  options.alignment = 4;
  write(directory.path(), options, {"a", "bcde", "", "fg"});
  CHECK_EQ(read_file(directory.shard("000000.bin")), std::string("a\0\0\0bcdefg", 10));
}

void test_a_shard_ends_before_the_record_that_would_take_it_past_its_size() {
  const CacheDirectory directory;
  ShardWriterOptions options;
  options.alignment = 4;
  options.shard_bytes = 10;
  const WriteSummary summary = write(directory.path(), options,
                                     {"aaaa", "bbbbbb", "cc", "dddddddddddddddd", "ee", "ffffff"});
  CHECK_EQ(summary.files.size(), 5u);
  CHECK_EQ(read_file(directory.shard("000000.bin")), "aaaabbbbbb");        // exactly full
  CHECK_EQ(read_file(directory.shard("000001.bin")), "cc");                // the next is larger
  CHECK_EQ(read_file(directory.shard("000002.bin")), "dddddddddddddddd");  // than any shard
  CHECK_EQ(read_file(directory.shard("000003.bin")), std::string("ee\0\0ffffff", 10));
}

void test_the_file_list_has_every_file_with_its_size_and_checksum() {
  const CacheDirectory directory;
  ShardWriterOptions options;
  options.alignment = 16;
  options.shard_bytes = 100'000;
  const WriteSummary summary = write(directory.path(), options, mixed_records(300));
  CHECK_EQ(summary.files[0].path, "index.bin");
  CHECK_EQ(summary.files[1].path, "shards/000000.bin");
  CHECK_EQ(summary.files.back().path.size(), summary.files[1].path.size());
  std::size_t num_files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory.path())) {
    num_files += entry.is_regular_file() ? 1 : 0;
  }
  CHECK_EQ(summary.files.size(), num_files);
  for (const WrittenFile& file : summary.files) {
    const std::string content = read_file(directory.file(file.path));
    CHECK_EQ(file.bytes, content.size());
    CHECK_EQ(file.crc32c, crc32c(bytes_of(content)));
  }
}

void test_the_bytes_do_not_depend_on_threads_or_pending_bytes() {
  const std::vector<std::string> records = mixed_records(800);
  for (const std::optional<int> level :
       {std::optional<int>(), std::optional(1), std::optional(6)}) {
    ShardWriterOptions options;
    options.alignment = 16;
    options.shard_bytes = 400'000;
    options.level = level;
    const auto checksums = [&](int threads, std::size_t max_pending_bytes) {
      const CacheDirectory directory;
      options.threads = threads;
      options.max_pending_bytes = max_pending_bytes;
      std::vector<std::uint32_t> values;
      for (const WrittenFile& file : write(directory.path(), options, records).files) {
        values.push_back(file.crc32c);
      }
      return values;
    };
    const std::vector<std::uint32_t> expected = checksums(1, std::size_t{64} << 20);
    CHECK(expected.size() > 2);
    CHECK(checksums(2, 1) == expected);
    CHECK(checksums(7, 500'000) == expected);
  }
}

void test_no_record_gives_an_empty_shard_and_an_index_without_rows() {
  const CacheDirectory directory;
  const WriteSummary summary = write(directory.path(), {}, {});
  CHECK_EQ(summary.files.size(), 2u);
  CHECK_EQ(summary.files[1].bytes, 0u);
  CHECK(read_rows(directory.path(), 0).empty());
}

// From here on no file of this process grows past `bytes`, until this goes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit = {bytes, before_.rlim_max};
    CHECK_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_;
};

void test_a_failed_write_is_rethrown_by_append_and_finish() {
  const CacheDirectory directory;
  ShardWriter writer(directory.path(), {});
  const FileSizeLimit limit(1 << 20);
  const std::string record(200'000, 'x');
  const std::string path = directory.shard("000000.bin");
  const auto append_forever = [&] {
    while (true) append(writer, record);
  };
  CHECK_THROWS_WITH(append_forever(), SystemError, path + ": write failed");
  CHECK_THROWS_WITH(append(writer, "more"), SystemError, path + ": write failed");
  CHECK_THROWS_WITH(writer.finish(), SystemError, path + ": write failed");
  CHECK_THROWS_WITH(append(writer, "more"), std::invalid_argument,
                    "ShardWriter.append: the writer of " + directory.path() + " is closed");
}

void test_files_that_exist_and_directories_that_do_not_are_refused() {
  const CacheDirectory directory;
  write(directory.path(), {}, {"a"});
  CHECK_THROWS_WITH(ShardWriter(directory.path(), {}), SystemError,
                    directory.file("index.bin") + ": create failed");
  const TempDirectory without_shards;
  CHECK_THROWS_WITH(ShardWriter(without_shards.path(), {}), SystemError,
                    without_shards.file("shards/000000.bin") + ": create failed");
}

void test_options_out_of_range_are_refused_before_any_file_is_made() {
  const CacheDirectory directory;
  const auto refused = [&](auto change, const std::string& why) {
    ShardWriterOptions options;
    change(options);
    CHECK_THROWS_WITH(ShardWriter(directory.path(), options), std::invalid_argument, why);
    CHECK(!std::filesystem::exists(directory.file("index.bin")));
  };
  refused([](auto& options) { options.shard_bytes = 0; }, "shard_bytes is 0 but must be in [1, ");
  refused([](auto& options) { options.max_pending_bytes = 0; }, "max_pending_bytes is 0 but");
  refused([](auto& options) { options.alignment = 0; }, "alignment is 0 but must be in [1, 4096]");
  refused([](auto& options) { options.alignment = 8192; }, "alignment is 8192 but must be in");
  refused([](auto& options) { options.alignment = 24; }, "alignment is 24 but must be a power of");
  refused([](auto& options) { options.threads = 0; }, "threads is 0 but must be in [1, 256]");
  refused([](auto& options) { options.threads = 257; }, "threads is 257 but must be in [1, 256]");
  refused([](auto& options) { options.level = 99; }, "compression level 99 is outside");
  refused([](auto& options) { options.dictionary.resize(10); }, "a dictionary of 10 bytes needs");
}

void test_a_closed_writer_keeps_its_counts_and_refuses_calls() {
  const CacheDirectory directory;
  ShardWriter writer(directory.path(), {});
  append(writer, "abc");
  writer.finish();
  writer.abort();
  CHECK_EQ(writer.num_records(), 1u);
  CHECK_EQ(writer.raw_bytes(), 3u);
  CHECK_EQ(writer.stored_bytes(), 3u);
  CHECK_THROWS_WITH(append(writer, "d"), std::invalid_argument, "ShardWriter.append");
  CHECK_THROWS_WITH(writer.finish(), std::invalid_argument, "ShardWriter.finish");
}

void test_abort_and_destruction_end_in_the_middle() {
  const std::string record(100'000, 'x');
  for (const bool abort : {true, false}) {
    const CacheDirectory directory;
    ShardWriterOptions options;
    options.level = 19;
    options.max_pending_bytes = 1 << 20;
    ShardWriter writer(directory.path(), options);
    for (int i = 0; i < 60; ++i) append(writer, record);
    if (!abort) continue;
    writer.abort();
    writer.abort();
    CHECK_THROWS_WITH(writer.finish(), std::invalid_argument, "is closed");
  }
}

void test_two_threads_at_once_are_refused_and_never_mixed() {
  const CacheDirectory directory;
  ShardWriter writer(directory.path(), {});
  std::atomic<std::uint64_t> num_taken = 0;
  const auto append_many = [&](char letter) {
    const std::string record(100, letter);
    for (int i = 0; i < 2000; ++i) {
      try {
        append(writer, record);
        ++num_taken;
      } catch (const std::logic_error& error) {
        CHECK(std::string(error.what()).find("is in a call of another thread") !=
              std::string::npos);
      }
    }
  };
  std::thread other(append_many, 'a');
  append_many('b');
  other.join();
  CHECK_EQ(writer.finish().num_records, num_taken.load());
  const std::string shard = read_file(directory.shard("000000.bin"));
  CHECK_EQ(shard.size(), num_taken * 100);
  for (std::size_t i = 0; i < shard.size(); ++i) CHECK_EQ(shard[i], shard[i / 100 * 100]);
}

void test_a_forked_child_is_refused_and_does_not_hang() {
  const CacheDirectory directory;
  auto writer = std::make_unique<ShardWriter>(directory.path(), ShardWriterOptions{});
  append(*writer, "before");
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    CHECK_THROWS_WITH(writer->finish(), std::logic_error, "was made before fork");
    CHECK_THROWS_WITH(writer->abort(), std::logic_error, "was made before fork");
    CHECK_THROWS_WITH(append(*writer, std::string(1 << 20, 'x')), std::logic_error,
                      directory.path() + " was made before fork");
    writer.reset();
    ::_exit(0);
  }
  int status = -1;
  CHECK_EQ(::waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  append(*writer, " and after");
  CHECK_EQ(writer->finish().num_records, 2u);
  CHECK_EQ(read_file(directory.shard("000000.bin")), "before and after");
}

}  // namespace
}  // namespace dsrt

int main() {
  dsrt::test_write_then_read_is_identity();
  dsrt::test_compressed_records_are_frames_with_the_checksum_of_the_frame();
  dsrt::test_a_record_is_its_parts_one_after_the_other();
  dsrt::test_zeros_lie_between_aligned_records_and_not_after_the_last();
  dsrt::test_a_shard_ends_before_the_record_that_would_take_it_past_its_size();
  dsrt::test_the_file_list_has_every_file_with_its_size_and_checksum();
  dsrt::test_the_bytes_do_not_depend_on_threads_or_pending_bytes();
  dsrt::test_no_record_gives_an_empty_shard_and_an_index_without_rows();
  dsrt::test_a_failed_write_is_rethrown_by_append_and_finish();
  dsrt::test_files_that_exist_and_directories_that_do_not_are_refused();
  dsrt::test_options_out_of_range_are_refused_before_any_file_is_made();
  dsrt::test_a_closed_writer_keeps_its_counts_and_refuses_calls();
  dsrt::test_abort_and_destruction_end_in_the_middle();
  dsrt::test_two_threads_at_once_are_refused_and_never_mixed();
  dsrt::test_a_forked_child_is_refused_and_does_not_hang();
}
