#include "dsrt/batch.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "dsrt/error.h"
#include "tests/check.h"
#include "tests/reader_bench.h"

namespace dsrt {
namespace {

using namespace tests;

constexpr std::int64_t ragged = ArrayField::ragged;

void test_a_batch_larger_than_a_slice_is_whole() {
  const TempDirectory root;
  Bench bench(TinyCache(root.file("a"), fixed_records(100)).files(), fixed_layout, {1, 0});
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < 50000; ++i) rows.push_back(i * 7 % 100);
  bench.submit(rows);
  check_fixed(*bench.next(), rows);
}

void test_an_empty_batch_is_a_batch() {
  const TempDirectory root;
  Bench bench(TinyCache(root.file("a"), fixed_records(3)).files(), fixed_layout, {1, 0});
  bench.submit({});
  check_fixed(*bench.next(), {});
}

void test_a_record_larger_than_a_chunk_is_checked_and_copied_in_pieces() {
  const TempDirectory root;
  std::string large(100003, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31);
  const RecordLayout layout({{"head", 1, {20000}}, {"gap", 1, {60000}}, {"tail", 1, {20003}}});
  const CacheFiles files = TinyCache(root.file("a"), {large, large}).files();
  Bench bench(files, layout, {2, 0});
  for (int pass = 0; pass < 2; ++pass) {  // Checked the first time, only copied the second.
    bench.submit({1, 0});
    const auto batch = bench.next();
    CHECK_EQ(to_text({batch->fields()[0].data.get() + 20003, 20003}), large.substr(80000));
    CHECK_EQ(to_text({batch->fields()[1].data.get(), 20000}), large.substr(0, 20000));
  }
  tests::flip_byte(root.file("a/shards/000000.bin"), 50000);  // in the gap, which nobody asked for
  Bench again(files, layout, {2, 0});
  again.submit({0});
  CHECK_THROWS_WITH(again.next(), CorruptError, "record 0 has checksum");
}

void test_compressed_records_arrive_in_any_selection_of_fields() {
  const TempDirectory root;
  const RecordLayout layout({{"image", 1, {3000}}, {"label", 4, {}}, {"id", 8, {}}});
  std::vector<std::string> records;
  for (std::uint32_t i = 0; i < 50; ++i) {
    const std::string record = std::string(3000, static_cast<char>(i)) + bytes_of(i * 3);
    records.push_back(record + std::string(4, '\0') + bytes_of(std::uint64_t{i} * 5));
  }
  const CacheFiles files = TinyCache(root.file("a"), records, 50, true).files();
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < 1000; ++i) rows.push_back(i * 7 % 50);
  const std::vector<std::vector<std::size_t>> selections = {{0}, {1}, {0, 2}, {2, 0}, {0, 1, 2}};
  for (const std::vector<std::size_t>& selection : selections) {
    Bench bench(files, layout, selection, {2, 4, 1 << 24});
    for (int pass = 0; pass < 2; ++pass) {  // Checked the first time, then straight from the map.
      bench.submit(rows);
      const auto batch = bench.next();
      for (std::size_t k = 0; k < selection.size(); ++k) {
        const FieldArray& field = batch->fields()[k];
        const std::size_t offset = layout.place(selection[k]).offset;
        for (std::size_t i = 0; i < rows.size(); ++i) {
          const std::string& record = records[static_cast<std::size_t>(rows[i])];
          CHECK(to_text({field.data.get() + i * field.row_bytes, field.row_bytes}) ==
                record.substr(offset, field.row_bytes));
        }
      }
    }
  }
}

// Record i: tokens [i % 4] of value i, grid [i % 3, 2, i % 2] of 1, 2, 3 ..., and the number i.
const RecordLayout ragged_layout({{"tokens", 2, {ragged}},
                                  {"grid", 1, {ragged, 2, ragged}},
                                  {"y", 8, {}}});

std::string ragged_record(std::uint64_t i) {
  std::string record = bytes_of(i % 4) + bytes_of(i % 3) + bytes_of(i % 2);
  for (std::uint64_t k = 0; k < i % 4; ++k) record += bytes_of(static_cast<std::uint16_t>(i));
  for (std::uint64_t k = 0; k < i % 3 * 2 * (i % 2); ++k) record += static_cast<char>(k + 1);
  record.resize((record.size() + 7) / 8 * 8);
  return record + bytes_of(i);
}

void test_ragged_fields_are_padded_with_zeros_to_the_longest() {
  const TempDirectory root;
  std::vector<std::string> records;
  for (std::uint64_t i = 0; i < 60; ++i) records.push_back(ragged_record(i));
  for (const bool compressed : {false, true}) {
    const auto files = TinyCache(root.file("a"), records, 20, compressed).files();
    Bench bench(files, ragged_layout, {1, 2, 0}, {2, 4, 1 << 20});
    bench.pool->take(1 << 16).reset();  // Blocks are used again: what they held must not show.
    const std::vector<std::int64_t> rows = {5, 59, 0, 3};
    bench.submit(rows);
    const auto batch = bench.next();
    const FieldArray& grid = batch->fields()[0];
    CHECK(grid.shape == (std::vector<std::int64_t>{2, 2, 1}));
    CHECK_EQ(to_text({grid.data.get(), 16}), std::string("\1\2\3\4\1\2\3\4\0\0\0\0\0\0\0\0", 16));
    CHECK_EQ(grid.num_ragged_axes, 2u);
    CHECK_EQ(value_at<std::int64_t>(grid.extents.get() + 0), 2);
    CHECK_EQ(value_at<std::int64_t>(grid.extents.get() + 8), 1);
    CHECK_EQ(value_at<std::int64_t>(grid.extents.get() + 32), 0);
    CHECK(batch->fields()[1].extents == nullptr);
    const FieldArray& tokens = batch->fields()[2];
    CHECK(tokens.shape == std::vector<std::int64_t>{3});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<std::uint64_t>(rows[i]);
      CHECK_EQ(value_at<std::uint64_t>(batch->fields()[1].data.get() + 8 * i), row);
      for (std::uint64_t k = 0; k < 3; ++k) {
        const auto token = value_at<std::uint16_t>(tokens.data.get() + 6 * i + 2 * k);
        CHECK_EQ(token, k < row % 4 ? row : 0);
      }
    }
  }
}

void test_axes_are_padded_inside_an_array_too() {
  const TempDirectory root;
  const RecordLayout layout({{"grid", 1, {ragged, ragged}}});
  const auto grid = [](std::uint64_t rows, std::uint64_t columns, const char* items) {
    return bytes_of(rows) + bytes_of(columns) + items;
  };
  Bench bench(TinyCache(root.file("a"), {grid(2, 2, "abcd"), grid(1, 3, "xyz")}).files(), layout,
              {0});
  bench.submit({0, 1});
  const auto batch = bench.next();
  CHECK_EQ(to_text({batch->fields()[0].data.get(), 12}), std::string("ab\0cd\0xyz\0\0\0", 12));
}

void test_records_that_do_not_fit_the_layout_are_refused() {
  const TempDirectory root;
  const std::string name = root.file("a/shards/000000.bin") + ": record ";
  Bench fixed(TinyCache(root.file("a"), {fixed_record(0), "short"}).files(), fixed_layout, {0});
  fixed.submit({0, 1});
  CHECK_THROWS_WITH(fixed.next(), CorruptError, name + "1 has 5 bytes but the schema says 20;");
  fixed.submit({1});
  CHECK_THROWS_WITH(fixed.next(), CorruptError, name + "1 has 5 bytes but the schema says 20;");

  const std::string sound = ragged_record(3);
  const auto refused = [&](const std::string& record, const std::string& why) {
    Bench bench(TinyCache(root.file("a"), {sound, record}).files(), ragged_layout, {0, 1, 2});
    bench.submit({0, 1});
    CHECK_THROWS_WITH(bench.next(), CorruptError, name + "1 has " + why);
  };
  refused("short", "5 bytes but its extents alone take 24;");
  refused(sound + "!", "41 bytes but its arrays end at byte 40;");
  refused(sound.substr(0, 39), "39 bytes but field 'y' ends at byte 40;");
  refused(bytes_of(~std::uint64_t{0}) + sound.substr(8), "40 bytes but field 'tokens' has more;");
}

void test_whole_records_come_in_order() {
  const TempDirectory root;
  for (const bool compressed : {false, true}) {
    const auto records = fixed_records(3000);
    Bench bench(TinyCache(root.file("a"), records, 1000, compressed).files(), fixed_layout, {0});
    bench.submit_whole(range(100, 2900));
    const auto batch = bench.reader.next(patience);
    std::size_t row = 100;
    for (const RawRecords& slice : static_cast<const RecordBatch&>(*batch).slices()) {
      CHECK_EQ(slice.memory != nullptr, compressed);
      for (const auto bytes : slice.bytes) CHECK_EQ(to_text(bytes), records[row++]);
    }
    CHECK_EQ(row, 2900u);
  }
}

void test_padding_that_the_records_do_not_account_for_is_refused() {
  const TempDirectory root;
  const RecordLayout layout({{"grid", 4, {ragged, ragged}}});
  const auto empty = [](std::uint64_t rows, std::uint64_t columns) {
    return bytes_of(rows) + bytes_of(columns);
  };
  const TinyCache cache(root.file("a"), {empty(0, 3), empty(std::uint64_t{1} << 40, 0)});
  Bench bench(cache.files(), layout, {0});
  bench.submit({0, 1});
  CHECK_THROWS_WITH(bench.next(), std::length_error,
                    "field 'grid' padded to [1099511627776, 3], the longest of the batch, takes "
                    "more than 1024 times the 32 bytes of its records");
  bench.submit({0, 0});
  CHECK_EQ(bench.next()->fields()[0].shape[1], 3);
}

}  // namespace
}  // namespace dsrt

int main() {
  dsrt::test_a_batch_larger_than_a_slice_is_whole();
  dsrt::test_an_empty_batch_is_a_batch();
  dsrt::test_a_record_larger_than_a_chunk_is_checked_and_copied_in_pieces();
  dsrt::test_compressed_records_arrive_in_any_selection_of_fields();
  dsrt::test_ragged_fields_are_padded_with_zeros_to_the_longest();
  dsrt::test_axes_are_padded_inside_an_array_too();
  dsrt::test_records_that_do_not_fit_the_layout_are_refused();
  dsrt::test_padding_that_the_records_do_not_account_for_is_refused();
  dsrt::test_whole_records_come_in_order();
}
