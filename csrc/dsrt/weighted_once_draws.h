// weighted_once_draws.h: weighted order without replacement.
//
// Each (epoch, pass) has a weighted order of its own over the whole population, of which an epoch
// is the first epoch_length rows. No exact order of this kind is known that gives one position
// without the others, so the order is made at the first draw of an (epoch, pass) and kept for the
// following.
//
// Memory     4 bytes a draw of the epoch; 32 bytes a row while an order is made.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "dsrt/draws.h"
#include "dsrt/last_value.h"

namespace dsrt {

class WeightedOnceDraws : public Draws {
 public:
  // One weight a row. Throws unless epoch_length <= number of rows <= 2^32.
  WeightedOnceDraws(std::span<const double> weights, std::uint64_t epoch_length,
                    std::uint64_t seed);

 private:
  void fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
            std::span<std::int64_t> rows) const override;

  std::span<const double> weights_;
  mutable LastValue<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> order_;
};

}  // namespace dsrt
