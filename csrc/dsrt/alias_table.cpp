#include "dsrt/alias_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "dsrt/weights.h"

namespace dsrt {

namespace {

// The weights as whole numbers: w * 2^shift rounded down, but at least 1 so that no row is lost.
class WholeWeights {
 public:
  explicit WholeWeights(std::span<const double> weights) : weights_(weights) {
    // The largest weight takes 62 bits; then the sum is brought to 62 bits too.
    shift_ = 61 - std::ilogb(largest_weight(weights));
    uint128 sum = 0;
    for (const double weight : weights) sum += scaled(weight);
    while (sum >> 62 != 0) {
      sum >>= 1;
      --shift_;
    }
    for (std::size_t row = 0; row < weights.size(); ++row) sum_ += (*this)[row];
  }

  std::uint64_t operator[](std::size_t row) const {
    return std::max<std::uint64_t>(1, scaled(weights_[row]));
  }
  std::uint64_t sum() const { return sum_; }

 private:
  // Exact: scaling by a power of two does not round, and the conversion cuts off.
  std::uint64_t scaled(double weight) const {
    return static_cast<std::uint64_t>(std::ldexp(weight, shift_));
  }

  std::span<const double> weights_;
  int shift_;
  std::uint64_t sum_ = 0;
};

}  // namespace

// Two cursors sweep over the rows: `light` over those that do not fill their own column and `heavy`
// over those that overflow it. What the current heavy row has left fills the light columns; once it
// no longer overflows, its own column is topped up by the next heavy row.
void build_alias_table(std::span<const double> weights, std::span<AliasColumn> columns) {
  const std::size_t n = weights.size();
  if (columns.size() != n) {
    throw std::invalid_argument("alias table: " + std::to_string(columns.size()) + " columns for " +
                                std::to_string(n) + " weights; make one a weight");
  }
  if (n == 0) return;
  const WholeWeights whole(weights);
  const uint128 capacity = whole.sum();
  const auto mass = [&](std::size_t row) { return uint128{whole[row]} * n; };
  const auto next = [&](std::size_t row, bool overflowing) {
    while (row < n && (mass(row) > capacity) != overflowing) ++row;
    return row;
  };
  const auto fill = [&](std::size_t column, uint128 own, std::size_t alias) {
    columns[column] = own == capacity
                          ? AliasColumn{0, column}
                          : AliasColumn{static_cast<std::uint64_t>((own << 64) / capacity), alias};
  };

  std::size_t light = next(0, false);
  std::size_t heavy = next(0, true);
  uint128 left = heavy < n ? mass(heavy) : 0;
  while (heavy < n) {
    if (left > capacity) {
      fill(light, mass(light), heavy);
      left -= capacity - mass(light);
      light = next(light + 1, false);
    } else {
      const std::size_t topping = next(heavy + 1, true);
      fill(heavy, left, topping);
      if (topping < n) left += mass(topping) - capacity;
      heavy = topping;
    }
  }
  // The masses add up to n columns exactly, so what is left fills its own columns.
  for (; light < n; light = next(light + 1, false)) fill(light, mass(light), light);
}

}  // namespace dsrt
