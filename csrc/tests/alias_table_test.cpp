// alias_table_test.cpp: the columns hold every row's exact share.
#include "dsrt/alias_table.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "tests/check.h"

namespace {

std::vector<dsrt::AliasColumn> table_of(const std::vector<double>& weights) {
  std::vector<dsrt::AliasColumn> columns(weights.size());
  dsrt::build_alias_table(weights, columns);
  return columns;
}

void check_shares(const std::vector<double>& weights) {
  std::vector<long double> shares(weights.size());
  const auto columns = table_of(weights);
  for (std::size_t column = 0; column < columns.size(); ++column) {
    const long double own = static_cast<long double>(columns[column].threshold) * 0x1p-64L;
    shares[column] += own;
    CHECK(columns[column].alias < weights.size());
    shares[columns[column].alias] += 1 - own;
  }
  const long double sum = std::accumulate(weights.begin(), weights.end(), 0.0L);
  for (std::size_t row = 0; row < weights.size(); ++row) {
    const long double share = shares[row] / static_cast<long double>(weights.size());
    CHECK(std::abs(share - weights[row] / sum) < 1e-15L);
  }
}

void test_every_row_gets_its_share() {
  check_shares({3});
  check_shares({1, 2, 4, 8});
  check_shares({8, 4, 2, 1});
  check_shares({1e-300, 1e300});
  check_shares({5e-324, 1e-323, 1.5e-323});
  std::vector<double> weights;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    weights.push_back(std::ldexp(1.0, static_cast<int>(dsrt::philox(i, 0, 1)[0] % 40)));
  }
  check_shares(weights);
}

void test_equal_weights_make_every_column_its_own() {
  const auto columns = table_of({0.1, 0.1, 0.1});
  for (std::size_t column = 0; column < 3; ++column) CHECK_EQ(columns[column].alias, column);
}

void test_weights_that_cannot_be_drawn_are_refused() {
  CHECK_THROWS(table_of({1, 0}), std::invalid_argument);
  CHECK_THROWS(table_of({1, -1}), std::invalid_argument);
  CHECK_THROWS(table_of({1, std::numeric_limits<double>::quiet_NaN()}), std::invalid_argument);
  CHECK_THROWS(table_of({1, std::numeric_limits<double>::infinity()}), std::invalid_argument);
}

}  // namespace

int main() {
  test_every_row_gets_its_share();
  test_equal_weights_make_every_column_its_own();
  test_weights_that_cannot_be_drawn_are_refused();
}
