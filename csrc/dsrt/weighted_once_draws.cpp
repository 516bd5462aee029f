#include "dsrt/weighted_once_draws.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "dsrt/philox.h"
#include "dsrt/weighted_order.h"

namespace dsrt {

WeightedOnceDraws::WeightedOnceDraws(std::span<const double> weights, std::uint64_t epoch_length,
                                     std::uint64_t seed)
    : Draws(weights.size(), epoch_length, seed), weights_(weights) {
  if (epoch_length > weights.size()) {
    throw std::invalid_argument(
        "draws: epoch_length is " + std::to_string(epoch_length) + " but the population has " +
        std::to_string(weights.size()) +
        " rows, each drawn at most once in an epoch; lower epoch_length or draw with replacement");
  }
  if (weights.size() > std::uint64_t{1} << 32) {
    throw std::invalid_argument(
        "draws: the population has " + std::to_string(weights.size()) +
        " rows but weighted_once orders at most 2^32; draw with replacement");
  }
}

void WeightedOnceDraws::fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
                             std::span<std::int64_t> rows) const {
  const auto order = order_.get({epoch, pass}, [&] {
    const std::uint64_t key = derive_key(seed(), Purpose::weighted_once, epoch, pass);
    return weighted_order(weights_, key, epoch_length());
  });
  std::copy_n(order->begin() + static_cast<std::ptrdiff_t>(start), rows.size(), rows.begin());
}

}  // namespace dsrt
