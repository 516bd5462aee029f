// weights.h: what every use of weights requires of them.
#pragma once

#include <span>

namespace dsrt {

// The largest weight. Throws std::invalid_argument, naming the row, unless all weights are finite
// and above 0.
double largest_weight(std::span<const double> weights);

}  // namespace dsrt
