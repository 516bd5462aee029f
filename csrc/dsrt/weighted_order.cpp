#include "dsrt/weighted_order.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "dsrt/philox.h"
#include "dsrt/weights.h"

namespace dsrt {

static_assert(FLT_EVAL_METHOD == 0, "doubles must be computed as doubles");

namespace {

struct Arrival {
  double time;
  std::uint32_t row;

  bool operator<(const Arrival& other) const {
    return time < other.time || (time == other.time && row < other.row);
  }
};

// The first `count` arrivals in order. One pass cuts the range of times into buckets, so that what
// std::sort sees fits a cache. The bits of times, which are not negative, sort as the times.
std::vector<Arrival> first_arrivals(const std::vector<Arrival>& all, std::size_t count) {
  const int bucket_bits = std::min(16, static_cast<int>(std::bit_width(all.size())));
  const auto bits = [](const Arrival& arrival) {
    return std::bit_cast<std::uint64_t>(arrival.time);
  };
  const auto [earliest, latest] = std::minmax_element(all.begin(), all.end());
  const std::uint64_t low = bits(*earliest);
  const int shift =
      std::max(0, static_cast<int>(std::bit_width(bits(*latest) - low)) - bucket_bits);
  const auto bucket = [&](const Arrival& arrival) { return (bits(arrival) - low) >> shift; };

  std::vector<std::size_t> ends((std::size_t{1} << bucket_bits) +
                                1);  // of bucket b at b + 1, until scattered
  for (const Arrival& arrival : all) ++ends[bucket(arrival) + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  const std::uint64_t num_buckets =
      static_cast<std::uint64_t>(std::lower_bound(ends.begin(), ends.end(), count) - ends.begin());
  std::vector<Arrival> sorted(ends[num_buckets]);
  for (const Arrival& arrival : all) {
    if (bucket(arrival) < num_buckets) sorted[ends[bucket(arrival)]++] = arrival;
  }
  std::size_t begin = 0;
  for (std::size_t b = 0; b < num_buckets; begin = ends[b++]) {
    std::sort(sorted.begin() + static_cast<std::ptrdiff_t>(begin),
              sorted.begin() + static_cast<std::ptrdiff_t>(ends[b]));
  }
  sorted.resize(count);
  return sorted;
}

}  // namespace

double exponential_time(std::uint64_t word) {
  constexpr double ln2 = 0x1.62e42fefa39efp-1;
  constexpr double sqrt_half = 0x1.6a09e667f3bcdp-1;
  int exponent = 0;
  double mantissa =
      std::frexp(static_cast<double>(2 * (word >> 12) + 1) * 0x1p-53, &exponent);  // exact
  if (mantissa < sqrt_half) {
    mantissa *= 2;
    --exponent;
  }
  // ln(m) = 2 artanh((m - 1) / (m + 1)), whose series to s^21 leaves less than 2^-55 of it out.
  const double s = (mantissa - 1) / (mantissa + 1);
  const double square = s * s;
  double sum = 0;
  for (int power = 21; power >= 1; power -= 2) sum = sum * square + 1.0 / power;
  return -exponent * ln2 - 2 * s * sum;
}

std::vector<std::uint32_t> weighted_order(std::span<const double> weights, std::uint64_t key,
                                          std::size_t count) {
  if (count > weights.size() || weights.size() > std::size_t{1} << 32) {
    throw std::invalid_argument("weighted order: " + std::to_string(count) + " of " +
                                std::to_string(weights.size()) +
                                " rows; at most all and at most 2^32 rows can be ordered");
  }
  std::vector<std::uint32_t> order(count);
  if (count == 0) return order;
  const int scale = -std::ilogb(largest_weight(weights));
  std::vector<Arrival> arrivals(weights.size());
  for (std::size_t row = 0; row < weights.size(); ++row) {
    const double time = exponential_time(philox(row, 0, key)[0]) / std::ldexp(weights[row], scale);
    arrivals[row] = {time, static_cast<std::uint32_t>(row)};
  }
  const std::vector<Arrival> first = first_arrivals(arrivals, count);
  std::transform(first.begin(), first.end(), order.begin(), [](const Arrival& a) { return a.row; });
  return order;
}

}  // namespace dsrt
