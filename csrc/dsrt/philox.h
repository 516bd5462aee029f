// philox.h: the counter-based generator behind every draw. *Part of the format of draws.*
//
// Philox2x64-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
// (2011): a keyed bijection of 128-bit counters. It has no state, so random number i costs the
// same wherever i lies, and integer arithmetic alone gives the same words on every machine.
#pragma once

#include <array>
#include <cstdint>

namespace dsrt {

__extension__ using uint128 = unsigned __int128;

// The high word of a * b: maps a uniform 64-bit word `a` to [0, b), each value at a probability
// within 2^-64 of 1/b.
inline std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>((uint128{a} * b) >> 64);
}

// Two random words for a counter under a key.
inline std::array<std::uint64_t, 2> philox(std::uint64_t counter0, std::uint64_t counter1,
                                           std::uint64_t key) {
  constexpr std::uint64_t multiplier = 0xD2B74407B1CE6E93;
  constexpr std::uint64_t weyl = 0x9E3779B97F4A7C15;
  for (int round = 0; round < 10; ++round, key += weyl) {
    const uint128 product = uint128{multiplier} * counter0;
    counter0 = static_cast<std::uint64_t>(product >> 64) ^ key ^ counter1;
    counter1 = static_cast<std::uint64_t>(product);
  }
  return {counter0, counter1};
}

// What a key is for. Streams of different purpose share no key.
enum class Purpose : std::uint32_t {
  shuffle = 1,
  weighted = 2,
  weighted_once = 3,
  quota_shift = 4,
  quota_classes = 5,
  quota_batch = 6,
  quota_rows = 7,
  blocks = 8,
  window = 9,
  mix = 10,
};

// The key of one purpose in one period (an epoch, or a cycle through the population) and pass.
inline std::uint64_t derive_key(std::uint64_t seed, Purpose purpose, std::uint64_t period,
                                std::uint32_t pass) {
  return philox(period, std::uint64_t{static_cast<std::uint32_t>(purpose)} << 32 | pass, seed)[0];
}

// The key of part `part` (a class, a window, a batch) of what `key` is for.
inline std::uint64_t derive_key(std::uint64_t key, std::uint64_t part) {
  return philox(part, ~std::uint64_t{0}, key)[0];
}

}  // namespace dsrt
