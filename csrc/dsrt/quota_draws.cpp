#include "dsrt/quota_draws.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "dsrt/cycles.h"
#include "dsrt/permutation.h"
#include "dsrt/philox.h"
#include "dsrt/weighted_order.h"

namespace dsrt {

void group_rows(std::span<const std::int32_t> codes, std::uint64_t num_groups,
                std::span<std::int64_t> table) {
  if (table.size() != num_groups + 1 + codes.size()) {
    throw std::invalid_argument("groups: the table has " + std::to_string(table.size()) +
                                " numbers but " + std::to_string(num_groups) + " groups of " +
                                std::to_string(codes.size()) + " rows need one more than both");
  }
  const std::span ends = table.first(num_groups + 1);
  const std::span members = table.subspan(num_groups + 1);
  std::ranges::fill(ends, 0);
  for (std::size_t row = 0; row < codes.size(); ++row) {
    if (codes[row] < 0 || static_cast<std::uint64_t>(codes[row]) >= num_groups) {
      throw std::invalid_argument("groups: row " + std::to_string(row) + " has code " +
                                  std::to_string(codes[row]) + " but there are " +
                                  std::to_string(num_groups) + " groups");
    }
    ++ends[static_cast<std::size_t>(codes[row]) + 1];
  }
  for (std::uint64_t group = 0; group < num_groups; ++group) ends[group + 1] += ends[group];
  std::vector<std::int64_t> next(ends.begin(), ends.end());
  for (std::size_t row = 0; row < codes.size(); ++row) {
    const auto place = next[static_cast<std::size_t>(codes[row])]++;
    members[static_cast<std::size_t>(place)] = static_cast<std::int64_t>(row);
  }
}

QuotaDraws::QuotaDraws(std::uint64_t num_rows, ClassShares shares, std::uint64_t seed,
                       std::vector<std::span<const std::int64_t>> classes,
                       std::span<const double> weights)
    : Draws(num_rows, shares.epoch_length(), seed),
      schedule_(std::move(shares), seed),
      classes_(std::move(classes)),
      weights_(weights),
      orders_(classes_.size()) {
  if (classes_.size() != schedule_.num_classes()) {
    throw std::invalid_argument("draws: there are rows of " + std::to_string(classes_.size()) +
                                " classes but shares of " +
                                std::to_string(schedule_.num_classes()));
  }
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    if (classes_[c].empty()) {
      throw std::invalid_argument("draws: class " + std::to_string(c) + " has 0 rows to draw " +
                                  std::to_string(schedule_.shares().draws_per_epoch(c)) + " times");
    }
    const auto weight = [&](std::int64_t row) { return weights_[static_cast<std::size_t>(row)]; };
    const auto differs = [&](std::int64_t row) { return weight(row) != weight(classes_[c][0]); };
    if (!weights_.empty() && std::ranges::any_of(classes_[c], differs)) {
      orders_[c] = std::make_unique<Order>();
    }
  }
}

void QuotaDraws::fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
                      std::span<std::int64_t> rows) const {
  std::vector<ClassDraw> draws(rows.size());
  schedule_.fill(epoch, pass, start, draws);
  std::vector<std::int64_t> members;
  for_each_class(draws, [&](std::uint32_t number, std::uint64_t occurrence, auto indices) {
    members.resize(indices.size());
    for_each_cycle(occurrence, classes_[number].size(), std::span(members),
                   [&](std::uint64_t cycle, std::uint64_t place, std::span<std::int64_t> part) {
                     fill_cycle(number, cycle, pass, place, part);
                   });
    for (std::size_t i = 0; i < indices.size(); ++i) {
      rows[indices[i]] = classes_[number][static_cast<std::size_t>(members[i])];
    }
  });
}

void QuotaDraws::fill_cycle(std::uint32_t number, std::uint64_t cycle, std::uint32_t pass,
                            std::uint64_t place, std::span<std::int64_t> members) const {
  const std::span rows = classes_[number];
  const std::uint64_t key =
      derive_key(derive_key(seed(), Purpose::quota_rows, cycle, pass), number);
  if (!orders_[number]) {
    std::iota(members.begin(), members.end(), static_cast<std::int64_t>(place));
    Permutation(rows.size(), key).apply(members);
    return;
  }
  const auto order = orders_[number]->get({cycle, pass}, [&] {
    std::vector<double> weights(rows.size());
    std::ranges::transform(rows, weights.begin(), [&](std::int64_t row) {
      return weights_[static_cast<std::size_t>(row)];
    });
    return weighted_order(weights, key, weights.size());
  });
  std::copy_n(order->begin() + static_cast<std::ptrdiff_t>(place), members.size(), members.begin());
}

}  // namespace dsrt
