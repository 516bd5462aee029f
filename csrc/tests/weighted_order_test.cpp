// weighted_order_test.cpp: exponential times to the last bit, and the order they make.
#include "dsrt/weighted_order.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "dsrt/philox.h"
#include "tests/check.h"

namespace {

// The same bits on every machine and at every optimisation: a build that contracts into fused
// multiply-adds, or takes another logarithm, fails here.
void test_exponential_times_have_these_bits() {
  CHECK_EQ(dsrt::exponential_time(0), 0x1.25e4f7b2737fap+5);
  CHECK_EQ(dsrt::exponential_time(~std::uint64_t{0}), 0x1p-53);
  CHECK_EQ(dsrt::exponential_time(std::uint64_t{1} << 63), 0x1.62e42fefa39edp-1);
  CHECK_EQ(dsrt::exponential_time(0xca00a0459843d731), 0x1.e52a9711bdb76p-3);
  CHECK_EQ(dsrt::exponential_time(0x268b107f7aef5856), 0x1.e4b5ae2dfd895p+0);
}

void test_the_order_sorts_times_over_weights() {
  constexpr std::size_t size = 100000;  // more than one bucket of the sort
  std::vector<double> weights(size);
  for (std::size_t row = 0; row < size; ++row) {
    weights[row] = 1 + static_cast<double>(row % 1000) / 1024;  // below 2: scaling changes nothing
  }
  std::vector<double> times(size);
  for (std::size_t row = 0; row < size; ++row) {
    times[row] = dsrt::exponential_time(dsrt::philox(row, 0, 9)[0]) / weights[row];
  }
  std::vector<std::uint32_t> expected(size);
  std::iota(expected.begin(), expected.end(), 0);
  std::ranges::sort(expected, {}, [&](std::uint32_t row) { return times[row]; });
  CHECK(dsrt::weighted_order(weights, 9, size) == expected);
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, size / 3, size - 1}) {
    const auto first = dsrt::weighted_order(weights, 9, count);
    CHECK_EQ(first.size(), count);
    CHECK(std::equal(first.begin(), first.end(), expected.begin()));
  }
}

void test_what_cannot_be_ordered_is_refused() {
  const std::vector<double> weights{1, 2};
  CHECK_THROWS(dsrt::weighted_order(weights, 9, 3), std::invalid_argument);
  CHECK_THROWS(dsrt::weighted_order(std::vector<double>{1, 0}, 9, 1), std::invalid_argument);
  CHECK_THROWS(dsrt::weighted_order(std::vector<double>{1, std::nan("")}, 9, 1),
               std::invalid_argument);
}

}  // namespace

int main() {
  test_exponential_times_have_these_bits();
  test_the_order_sorts_times_over_weights();
  test_what_cannot_be_ordered_is_refused();
}
