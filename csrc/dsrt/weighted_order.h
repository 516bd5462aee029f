// weighted_order.h: a random order in which heavier rows tend to come first.
// *Part of the format of draws.*
//
// An exponential race (Efraimidis and Spirakis 2006): row i arrives at time E_i / w_i, where E_i is
// exponentially distributed. The order of arrival is that of drawing rows one by one without
// replacement, each time in proportion to the weights of the rows that are left, exactly.
//
//   u_i = (2 * (philox(i, 0, key)[0] >> 12) + 1) / 2^53
//   E_i = -ln(u_i), by exponential_time() in plain IEEE 754 double arithmetic, so the same
//   everywhere order = rows by (E_i / (w_i / 2^e), i), where 2^e <= largest weight < 2^(e + 1)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dsrt {

// -ln of a uniform number in (0, 1) made from `word`; within a few units in the last place.
double exponential_time(std::uint64_t word);

// The first `count` of the order of all rows; O(n + count log count) time, 32 bytes a row
// meanwhile. Throws std::invalid_argument unless count <= n <= 2^32 and all weights are finite and
// above 0.
std::vector<std::uint32_t> weighted_order(std::span<const double> weights, std::uint64_t key,
                                          std::size_t count);

}  // namespace dsrt
