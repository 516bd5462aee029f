// reader_bench.h: a reader of one tiny cache, and records whose fields tell which they are.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "dsrt/bounded_reader.h"
#include "dsrt/record_batch.h"
#include "tests/check.h"
#include "tests/tiny_cache.h"

namespace dsrt::tests {

inline constexpr std::chrono::milliseconds patience{10000};
// One value's bytes as they lie in memory.
template <typename Value>
std::string bytes_of(Value value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <typename Value>
Value value_at(const std::byte* data) {
  Value value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

// Record i: an image of 5 x 3 bytes, all i, a padding byte, and the number i.
inline const RecordLayout fixed_layout({{"image", 1, {5, 3}}, {"label", 4, {}}});

inline std::string fixed_record(std::uint32_t i) {
  return std::string(15, static_cast<char>(i)) + '\0' + bytes_of(i);
}

inline std::vector<std::string> fixed_records(std::uint32_t count) {
  std::vector<std::string> records;
  for (std::uint32_t i = 0; i < count; ++i) records.push_back(fixed_record(i));
  return records;
}

inline std::vector<std::int64_t> range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

// A reader of one opened set and the batches that it is given.
struct Bench {
  std::shared_ptr<const ShardSet> shards;
  std::shared_ptr<BufferPool> pool = BufferPool::create(std::size_t{1} << 20);
  std::shared_ptr<const GatherPlan> plan;
  BoundedReader reader;

  Bench(const CacheFiles& files, const RecordLayout& layout, std::vector<std::size_t> fields,
        const ReaderOptions& options = {})
      : shards(std::make_shared<const ShardSet>(std::vector{files}, Verify::first)),
        plan(std::make_shared<const GatherPlan>(shards, layout, std::move(fields), pool)),
        reader(shards, options) {}

  void submit(std::vector<std::int64_t> rows) {
    reader.submit(make_array_batch(plan, std::move(rows)));
  }
  void submit_whole(std::vector<std::int64_t> rows) {
    reader.submit(std::make_unique<RecordBatch>(*shards, pool, std::move(rows)));
  }
  std::unique_ptr<ArrayBatch> next() {
    return std::unique_ptr<ArrayBatch>(static_cast<ArrayBatch*>(reader.next(patience).release()));
  }
};

// Checks a batch of fields {1, 0} of the fixed layout.
inline void check_fixed(const ArrayBatch& batch, const std::vector<std::int64_t>& rows) {
  const FieldArray& label = batch.fields()[0];
  const FieldArray& image = batch.fields()[1];
  CHECK_EQ(image.row_bytes, 15u);
  CHECK(image.shape == (std::vector<std::int64_t>{5, 3}));
  CHECK(label.shape.empty());
  CHECK_EQ(batch.num_records(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK_EQ(value_at<std::uint32_t>(label.data.get() + 4 * i),
             static_cast<std::uint32_t>(rows[i]));
    const std::string expected(15, static_cast<char>(rows[i]));
    CHECK_EQ(to_text({image.data.get() + 15 * i, 15}), expected);
  }
}

}  // namespace dsrt::tests
