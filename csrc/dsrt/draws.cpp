#include "dsrt/draws.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>

#include "dsrt/cycles.h"
#include "dsrt/permutation.h"
#include "dsrt/philox.h"

namespace dsrt {

namespace {

constexpr std::int64_t num_epochs = std::int64_t{1} << 32;
constexpr std::uint64_t num_draws = std::uint64_t{1} << 63;

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument("draws: " + what); }

}  // namespace

Draws::Draws(std::uint64_t num_rows, std::uint64_t epoch_length, std::uint64_t seed)
    : num_rows_(num_rows), epoch_length_(epoch_length), seed_(seed) {
  if (num_rows == 0 || num_rows > num_draws) {
    refuse("the population has " + std::to_string(num_rows) + " rows but [1, 2^63] are needed");
  }
  if (epoch_length == 0 || epoch_length > num_draws) {
    refuse("epoch_length is " + std::to_string(epoch_length) + " but must lie in [1, 2^63]");
  }
}

void Draws::check(std::int64_t epoch, std::int64_t pass, std::int64_t start,
                  std::int64_t count) const {
  if (epoch < 0 || epoch >= num_epochs) {
    refuse("epoch is " + std::to_string(epoch) + " but must lie in [0, 2^32)");
  }
  if (pass < 0 || pass >= num_epochs) {
    refuse("pass is " + std::to_string(pass) + " but must lie in [0, 2^32)");
  }
  const auto first = static_cast<std::uint64_t>(start);
  if (start < 0 || count < 0 || first > epoch_length_ ||
      static_cast<std::uint64_t>(count) > epoch_length_ - first) {
    refuse(std::to_string(count) + " draws from position " + std::to_string(start) +
           " do not lie in the epoch of " + std::to_string(epoch_length_) + " draws");
  }
  if (static_cast<std::uint64_t>(epoch) > num_draws / epoch_length_ - 1) {
    refuse("epoch " + std::to_string(epoch) + " of " + std::to_string(epoch_length_) +
           " draws each goes past draw 2^63; use a shorter epoch_length");
  }
}

void Draws::draw(std::int64_t epoch, std::int64_t pass, std::int64_t start,
                 std::span<std::int64_t> rows) const {
  check(epoch, pass, start, static_cast<std::int64_t>(rows.size()));
  fill(static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(pass),
       static_cast<std::uint64_t>(start), rows);
}

SequentialDraws::SequentialDraws(std::uint64_t num_rows, std::uint64_t epoch_length)
    : Draws(num_rows, epoch_length, 0) {}

void SequentialDraws::fill(std::uint32_t epoch, std::uint32_t, std::uint64_t start,
                           std::span<std::int64_t> rows) const {
  for_each_cycle(epoch * epoch_length() + start, num_rows(), rows,
                 [](std::uint64_t, std::uint64_t place, std::span<std::int64_t> part) {
                   std::iota(part.begin(), part.end(), static_cast<std::int64_t>(place));
                 });
}

ShuffleDraws::ShuffleDraws(std::uint64_t num_rows, std::uint64_t epoch_length, std::uint64_t seed)
    : Draws(num_rows, epoch_length, seed) {}

void ShuffleDraws::fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
                        std::span<std::int64_t> rows) const {
  for_each_cycle(epoch * epoch_length() + start, num_rows(), rows,
                 [&](std::uint64_t cycle, std::uint64_t place, std::span<std::int64_t> part) {
                   std::iota(part.begin(), part.end(), static_cast<std::int64_t>(place));
                   const std::uint64_t key = derive_key(seed(), Purpose::shuffle, cycle, pass);
                   Permutation(num_rows(), key).apply(part);
                 });
}

WeightedDraws::WeightedDraws(std::uint64_t num_rows, std::uint64_t epoch_length, std::uint64_t seed,
                             std::span<const AliasColumn> columns)
    : Draws(num_rows, epoch_length, seed), columns_(columns) {
  if (!columns.empty() && columns.size() != num_rows) {
    refuse("the alias table has " + std::to_string(columns.size()) +
           " columns but the population " + std::to_string(num_rows) +
           " rows; build the table anew");
  }
}

void WeightedDraws::fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
                         std::span<std::int64_t> rows) const {
  const std::uint64_t key = derive_key(seed(), Purpose::weighted, epoch, pass);
  if (columns_.empty()) {
    for (std::int64_t& row : rows) {
      row = static_cast<std::int64_t>(multiply_high(philox(start++, 0, key)[0], num_rows()));
    }
    return;
  }
  // The columns of some draws are asked for before any is looked at: each is a miss in a large
  // table, and together they take half the time.
  constexpr std::size_t group = 32;
  std::array<AliasDraw, group> draws;
  for (; !rows.empty(); rows = rows.subspan(std::min(group, rows.size()))) {
    const std::size_t count = std::min(group, rows.size());
    for (std::size_t i = 0; i < count; ++i) {
      draws[i] = AliasDraw(philox(start++, 0, key), columns_.size());
      __builtin_prefetch(&columns_[draws[i].column]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      rows[i] = static_cast<std::int64_t>(draws[i].row(columns_));
    }
  }
}

}  // namespace dsrt
