// permutation.h: a keyed random permutation of [0, size) without an index array.
// *Part of the format of draws.*
//
// An alternating numeric Feistel network: index x * b + y is the cell (x, y) of a grid of a times b
// cells, where a is the largest even number <= sqrt(size), at least 2, and b = ceil(size / a). Each
// round turns every column, or every row, of the grid by an amount of its own:
//
//   even round r:  x = (x + multiply_high(philox(y, r, key)[0], a)) mod a
//   odd  round r:  y = (y + multiply_high(philox(x, r, key)[0], b)) mod b
//
// An image in [size, a * b) is sent through the network again until it lies below `size`. An even a
// makes both even and odd permutations occur. The distance from a uniform permutation falls about
// as a^(-rounds / 2): rounds = max(8, 2 * ceil(32 / floor(log2(a)))) brings it to 2^-32 for small
// sizes.
#pragma once

#include <cstdint>
#include <span>

namespace dsrt {

class Permutation {
 public:
  // `size` in [1, 2^63].
  Permutation(std::uint64_t size, std::uint64_t key);

  std::uint64_t size() const { return size_; }
  // Both for arguments in [0, size); each undoes the other.
  std::uint64_t operator()(std::uint64_t index) const;
  std::uint64_t inverse(std::uint64_t image) const;
  // Replaces each index by its image; about three times as fast as one at a time.
  void apply(std::span<std::int64_t> indices) const;

 private:
  std::uint64_t size_;
  std::uint64_t key_;
  std::uint64_t a_;
  std::uint64_t b_;
  std::uint64_t rounds_;
};

}  // namespace dsrt
