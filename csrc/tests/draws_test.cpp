// draws_test.cpp: pieces equal the whole in every mode, and numbers out of range are refused.
#include "dsrt/draws.h"

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "dsrt/block_draws.h"
#include "dsrt/mix_draws.h"
#include "dsrt/quota_draws.h"
#include "dsrt/weighted_once_draws.h"
#include "tests/check.h"

namespace {

std::vector<std::int64_t> draw(const dsrt::Draws& draws, std::int64_t start, std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  draws.draw(3, 1, start, rows);
  return rows;
}

void check_pieces(const dsrt::Draws& draws) {
  const auto length = static_cast<std::int64_t>(draws.epoch_length());
  const std::vector<std::int64_t> whole = draw(draws, 0, length);
  for (const std::int64_t row : whole) {
    CHECK(row >= 0);
    CHECK(static_cast<std::uint64_t>(row) < draws.num_rows());
  }
  for (std::int64_t start = 0; start < length; ++start) {
    const std::int64_t count = std::min<std::int64_t>(7, length - start);
    const auto expected = std::vector(whole.begin() + start, whole.begin() + start + count);
    CHECK(draw(draws, start, count) == expected);
  }
}

void test_pieces_equal_the_whole_in_every_mode() {
  std::vector<double> weights;
  for (int row = 0; row < 23; ++row) weights.push_back(1 + row % 5);
  std::vector<dsrt::AliasColumn> columns(weights.size());
  dsrt::build_alias_table(weights, columns);
  const dsrt::SequentialDraws sequential(23, 30);
  const dsrt::ShuffleDraws shuffle(23, 60, 7);
  check_pieces(sequential);
  check_pieces(shuffle);
  check_pieces(dsrt::WeightedDraws(23, 100, 7, columns));
  check_pieces(dsrt::WeightedDraws(23, 100, 7, {}));
  check_pieces(dsrt::WeightedOnceDraws(weights, 20, 7));
  check_pieces(dsrt::BlockDraws(23, 60, 7, 4, 8));

  // Two classes of 11 and 12 rows by 1 : 2, in 6 batches of 8 and a tail of 3.
  const dsrt::ClassShares shares{8, 6, {2, 5}, {4, 2}, {1, 2}};
  std::vector<std::int64_t> first, second;
  for (std::int64_t row = 0; row < 23; ++row) (row % 2 == 1 ? first : second).push_back(row);
  check_pieces(dsrt::QuotaDraws(23, shares, 7, {first, second}, {}));
  check_pieces(dsrt::QuotaDraws(23, shares, 7, {first, second}, weights));
  check_pieces(dsrt::MixDraws(shares, 7, {&sequential, &shuffle}));
}

void test_numbers_out_of_range_are_refused() {
  const dsrt::ShuffleDraws draws(10, 20, 7);
  std::vector<std::int64_t> rows(5);
  draws.draw((std::int64_t{1} << 32) - 1, 0, 15, rows);
  CHECK_THROWS(draws.check(std::int64_t{1} << 32, 0, 0, 1), std::invalid_argument);
  CHECK_THROWS(draws.check(-1, 0, 0, 1), std::invalid_argument);
  CHECK_THROWS(draws.check(0, -1, 0, 1), std::invalid_argument);
  CHECK_THROWS(draws.check(0, 0, 16, 5), std::invalid_argument);
  CHECK_THROWS(draws.check(0, 0, -1, 5), std::invalid_argument);
  CHECK_THROWS(draws.check(0, 0, 0, -5), std::invalid_argument);
  CHECK_THROWS(dsrt::ShuffleDraws(0, 20, 7), std::invalid_argument);
  CHECK_THROWS(dsrt::ShuffleDraws(10, 0, 7), std::invalid_argument);
}

void test_what_does_not_fit_together_is_refused() {
  std::vector<dsrt::AliasColumn> columns(3);
  CHECK_THROWS(dsrt::WeightedDraws(4, 4, 7, columns), std::invalid_argument);
  CHECK_THROWS(dsrt::BlockDraws(10, 10, 7, 4, 6), std::invalid_argument);
  const std::vector<std::int64_t> class_rows{0, 1};
  using Shares = dsrt::ClassShares;
  CHECK_THROWS(dsrt::ClassSchedule(Shares{4, 2, {2}, {0}, {0}}, 7), std::invalid_argument);
  CHECK_THROWS(dsrt::ClassSchedule(Shares{4, 2, {3}, {3}, {0}}, 7), std::invalid_argument);
  CHECK_THROWS(dsrt::ClassSchedule(Shares{4, 2, {4}, {0}, {4}}, 7), std::invalid_argument);
  CHECK_THROWS(dsrt::ClassSchedule(Shares{4, 2, {4}, {0}, {}}, 7), std::invalid_argument);
  const Shares two{4, 1, {2, 2}, {0, 0}, {0, 0}};
  CHECK_THROWS(dsrt::QuotaDraws(2, two, 7, {class_rows}, {}), std::invalid_argument);
  CHECK_THROWS(dsrt::QuotaDraws(2, two, 7, {class_rows, {}}, {}), std::invalid_argument);
  CHECK_THROWS(dsrt::MixDraws(two, 7, {}), std::invalid_argument);
}

void test_group_rows_lists_each_group_in_order() {
  const std::vector<std::int32_t> codes{2, 0, 2, 0, 0};
  std::vector<std::int64_t> table(4 + codes.size());
  dsrt::group_rows(codes, 3, table);
  CHECK((table == std::vector<std::int64_t>{0, 3, 3, 5, 1, 3, 4, 0, 2}));
  std::vector<std::int64_t> small(3 + codes.size());
  CHECK_THROWS(dsrt::group_rows(codes, 2, small), std::invalid_argument);
}

}  // namespace

int main() {
  test_pieces_equal_the_whole_in_every_mode();
  test_numbers_out_of_range_are_refused();
  test_what_does_not_fit_together_is_refused();
  test_group_rows_lists_each_group_in_order();
}
