// cache_fuzz.cpp: the files of a cache --> records one by one, in batches, and verified: whatever
// the files say, what comes out was inside them, or it is a CorruptError.
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "dsrt/batch.h"
#include "dsrt/error.h"
#include "dsrt/record_access.h"
#include "dsrt/verify_cache.h"
#include "fuzz/input.h"
#include "tests/tiny_cache.h"

namespace dsrt::fuzz {

namespace {

constexpr std::uint64_t max_record_bytes = std::uint64_t{1} << 16;

// A directory in memory, removed when the fuzzer ends.
const std::string& directory() {
  struct Directory {
    std::string path = "/dev/shm/dsrt-fuzz-" + std::to_string(::getpid());
    ~Directory() { std::filesystem::remove_all(path); }
  };
  static const Directory directory;
  return directory.path;
}

// A cache whose records are compressed or not, with the checksums that the fuzzer chose or, so that
// it gets further, the right ones.
CacheFiles make_cache(Input& input) {
  const bool is_compressed = input.below(2) == 1;
  const bool is_signed = input.below(4) != 0;
  tests::TinyCache cache(directory(), {}, 1, is_compressed);
  cache.max_record_bytes = input.number<std::uint64_t>() % max_record_bytes;
  cache.rows.resize(input.below(6));
  for (IndexRow& row : cache.rows) {
    row.offset = input.number<std::uint64_t>();
    row.stored_bytes = input.number<std::uint64_t>();
    row.shard = static_cast<std::uint32_t>(input.below(3));
    row.crc32c = input.number<std::uint32_t>();
  }
  cache.shards = {input.text(input.number<std::uint8_t>()), input.text(input.rest().size())};
  for (IndexRow& row : cache.rows) {
    if (!is_signed || row.shard >= cache.shards.size()) continue;
    const std::string& shard = cache.shards[row.shard];
    if (row.offset > shard.size() || row.stored_bytes > shard.size() - row.offset) continue;
    row.crc32c = crc32c(tests::as_bytes(shard).subspan(row.offset, row.stored_bytes));
  }
  return cache.files();
}

RecordLayout make_layout(Input& input) {
  constexpr std::int64_t ragged = ArrayField::ragged;
  const std::vector<std::vector<ArrayField>> choices = {
      {{"a", 1, {4}}, {"b", 4, {2, 2}}},
      {{"a", 1, {ragged}}},
      {{"a", 8, {}}, {"b", 2, {ragged, 2}}, {"c", 1, {ragged, ragged}}},
  };
  return RecordLayout(choices[input.below(choices.size())]);
}

// Runs `use` on all threads' behalf; only what says that the files are wrong may come out.
template <typename Use>
void refusing(Use use) {
  try {
    use();
  } catch (const CorruptError&) {
  } catch (const std::length_error&) {  // a batch that padding would blow up
  }
}

void touch(std::span<const std::byte> bytes) {
  volatile std::byte sum{};
  for (const std::byte byte : bytes) sum = sum ^ byte;
}

void read_batch(const std::shared_ptr<const ShardSet>& shards, const RecordLayout& layout,
                std::vector<std::int64_t> rows) {
  std::vector<std::size_t> fields(layout.fields().size());
  std::iota(fields.begin(), fields.end(), 0);
  const auto plan =
      std::make_shared<const GatherPlan>(shards, layout, std::move(fields), BufferPool::create(0));
  const std::unique_ptr<ArrayBatch> batch = make_array_batch(plan, std::move(rows));
  RecordReader reader(shards);
  for (std::size_t stage = 0; stage < batch->num_stages(); ++stage) {
    batch->prepare(stage, reader);
    for (std::size_t begin = 0; begin < batch->num_records(); begin += batch->records_per_slice()) {
      const std::size_t end = std::min(batch->num_records(), begin + batch->records_per_slice());
      batch->run(stage, begin, end, reader);
    }
  }
  for (const FieldArray& field : batch->fields()) {
    touch({field.data.get(), batch->num_records() * field.row_bytes});
  }
}

}  // namespace

}  // namespace dsrt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dsrt;
  fuzz::Input input(data, size);
  constexpr Verify policies[] = {Verify::first, Verify::always, Verify::never};
  const Verify verify = policies[input.below(3)];
  const RecordLayout layout = fuzz::make_layout(input);
  const CacheFiles files = fuzz::make_cache(input);
  const auto shards = std::make_shared<const ShardSet>(std::vector{files}, verify);
  std::vector<std::int64_t> rows(files.num_records);
  std::iota(rows.begin(), rows.end(), 0);
  RecordAccess access(shards);
  for (const std::int64_t row : rows) {
    fuzz::refusing([&] {
      for (const auto bytes : access.read(std::vector{row}).bytes) fuzz::touch(bytes);
    });
  }
  fuzz::refusing([&] { fuzz::read_batch(shards, layout, rows); });
  verify_cache(*shards, 0, [](std::uint64_t) {});
  return 0;
}
