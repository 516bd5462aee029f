// quota_draws.h: fixed class shares in every global batch, without repeating a row too early.
//
// A ClassSchedule says which class a position draws, and how often it was drawn before. The rows of
// a class are drawn in cycles: each holds every row of the class once, in an order of its own.
// Where the weights within the class are equal that is a keyed permutation; otherwise a weighted
// order without replacement, so that heavier rows come early in the cycle.
//
// Memory     4 bytes a row of the classes with unequal weights, for the cycle they are in.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dsrt/class_schedule.h"
#include "dsrt/draws.h"
#include "dsrt/last_value.h"

namespace dsrt {

// Writes the table of a population's classes: the ends of the groups in `members`, from 0 on, then
// the rows of group 0, group 1, ..., ascending in each. `table` has num_groups + 1 + codes.size()
// numbers. Throws std::invalid_argument, naming the row, if a code is not in [0, num_groups).
void group_rows(std::span<const std::int32_t> codes, std::uint64_t num_groups,
                std::span<std::int64_t> table);

class QuotaDraws : public Draws {
 public:
  // `classes` holds the rows of each class of the schedule, `weights` the population's, or nothing
  // if all are equal.
  QuotaDraws(std::uint64_t num_rows, ClassShares shares, std::uint64_t seed,
             std::vector<std::span<const std::int64_t>> classes, std::span<const double> weights);

 private:
  using Order = LastValue<std::pair<std::uint64_t, std::uint32_t>, std::vector<std::uint32_t>>;

  void fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
            std::span<std::int64_t> rows) const override;
  // The places [place, place + members.size()) of a cycle, as indices into the class's rows.
  void fill_cycle(std::uint32_t number, std::uint64_t cycle, std::uint32_t pass,
                  std::uint64_t place, std::span<std::int64_t> members) const;

  ClassSchedule schedule_;
  std::vector<std::span<const std::int64_t>> classes_;
  std::span<const double> weights_;
  std::vector<std::unique_ptr<Order>> orders_;  // null for a class of equal weights
};

}  // namespace dsrt
