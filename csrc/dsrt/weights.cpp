#include "dsrt/weights.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace dsrt {

double largest_weight(std::span<const double> weights) {
  double largest = 0;
  for (std::size_t row = 0; row < weights.size(); ++row) {
    if (!(std::isfinite(weights[row]) && weights[row] > 0)) {
      throw std::invalid_argument("weights[" + std::to_string(row) + "] is " +
                                  std::to_string(weights[row]) +
                                  " but must be finite and above 0; drop the row");
    }
    largest = std::max(largest, weights[row]);
  }
  return largest;
}

}  // namespace dsrt
