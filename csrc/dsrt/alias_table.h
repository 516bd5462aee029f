// alias_table.h: weighted draws with replacement in constant time (Walker 1977), in integers only.
// *Part of the format of draws.*
//
// The n weights become whole numbers W_i = max(1, floor(w_i * 2^shift)) of sum S near 2^62. Row i
// has the mass n * W_i, and n columns of capacity S each are filled with it: a column holds mass of
// its own row up to a threshold, and of one other row, its alias, above it.
//
//   column = multiply_high(word 0, n);  row = word 1 < threshold[column] ? column : alias[column]
//
// A row's probability is its exact share to within n * 2^-60 of it, or 2^-60 if that is more. With
// equal weights every column is its own alias: the draw is multiply_high(word 0, n), and a table is
// not needed.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "dsrt/philox.h"

namespace dsrt {

struct AliasColumn {
  std::uint64_t threshold;  // in units of 2^-64 of the column
  std::uint64_t alias;
};
static_assert(sizeof(AliasColumn) == 16);

// Fills `columns`, one a weight. O(n) time, no memory of its own, exact: the table depends on
// nothing but the weights. Throws std::invalid_argument, naming the row, unless every weight is
// finite and above 0.
void build_alias_table(std::span<const double> weights, std::span<AliasColumn> columns);

// One draw from a table of `num_columns`, before the table is looked at.
struct AliasDraw {
  AliasDraw() = default;
  AliasDraw(const std::array<std::uint64_t, 2>& words, std::uint64_t num_columns)
      : column(multiply_high(words[0], num_columns)), height(words[1]) {}

  std::uint64_t row(std::span<const AliasColumn> columns) const {
    const AliasColumn content = columns[column];  // whole, so that no branch waits on memory
    return height < content.threshold ? column : content.alias;
  }

  std::uint64_t column = 0;
  std::uint64_t height = 0;
};

}  // namespace dsrt
