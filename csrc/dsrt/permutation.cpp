#include "dsrt/permutation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "dsrt/philox.h"

namespace dsrt {

namespace {

std::uint64_t floor_sqrt(std::uint64_t value) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(value)));
  while (uint128{root} * root > value) --root;
  while (uint128{root + 1} * (root + 1) <= value) ++root;
  return root;
}

std::uint64_t add_modulo(std::uint64_t a, std::uint64_t b, std::uint64_t modulus) {
  const std::uint64_t sum = a + b;
  return sum >= modulus ? sum - modulus : sum;
}

std::uint64_t turn(std::uint64_t line, std::uint64_t round, std::uint64_t key,
                   std::uint64_t length) {
  return multiply_high(philox(line, round, key)[0], length);
}

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t key) : size_(size), key_(key) {
  if (size == 0 || size > std::uint64_t{1} << 63) {
    throw std::invalid_argument("permutation: the size is " + std::to_string(size) +
                                " but must lie in [1, 2^63]");
  }
  a_ = std::max<std::uint64_t>(2, floor_sqrt(size) & ~std::uint64_t{1});
  b_ = (size - 1) / a_ + 1;
  const auto bits = static_cast<std::uint64_t>(std::bit_width(a_)) - 1;
  rounds_ = std::max<std::uint64_t>(8, 2 * ((32 + bits - 1) / bits));
}

// Several independent indices in step keep the multiplier busy: one Philox waits on itself.
template <std::size_t lanes>
static void pass_network(std::uint64_t (&index)[lanes], std::uint64_t key, std::uint64_t a,
                         std::uint64_t b, std::uint64_t rounds) {
  std::uint64_t x[lanes];
  std::uint64_t y[lanes];
  for (std::size_t i = 0; i < lanes; ++i) {
    x[i] = index[i] / b;
    y[i] = index[i] % b;
  }
  for (std::uint64_t round = 0; round < rounds; round += 2) {
    for (std::size_t i = 0; i < lanes; ++i) x[i] = add_modulo(x[i], turn(y[i], round, key, a), a);
    for (std::size_t i = 0; i < lanes; ++i) {
      y[i] = add_modulo(y[i], turn(x[i], round + 1, key, b), b);
    }
  }
  for (std::size_t i = 0; i < lanes; ++i) index[i] = x[i] * b + y[i];
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  std::uint64_t image[1] = {index};
  do {
    pass_network(image, key_, a_, b_, rounds_);
  } while (image[0] >= size_);
  return image[0];
}

std::uint64_t Permutation::inverse(std::uint64_t image) const {
  do {
    std::uint64_t x = image / b_;
    std::uint64_t y = image % b_;
    for (std::uint64_t round = rounds_; round > 0; round -= 2) {
      y = add_modulo(y, b_ - turn(x, round - 1, key_, b_), b_);
      x = add_modulo(x, a_ - turn(y, round - 2, key_, a_), a_);
    }
    image = x * b_ + y;
  } while (image >= size_);
  return image;
}

void Permutation::apply(std::span<std::int64_t> indices) const {
  constexpr std::size_t lanes = 4;
  std::size_t done = 0;
  for (; indices.size() - done >= lanes; done += lanes) {
    std::uint64_t images[lanes];
    for (std::size_t i = 0; i < lanes; ++i) {
      images[i] = static_cast<std::uint64_t>(indices[done + i]);
    }
    pass_network(images, key_, a_, b_, rounds_);
    for (std::size_t i = 0; i < lanes; ++i) {
      const std::uint64_t image = images[i] < size_ ? images[i] : (*this)(images[i]);
      indices[done + i] = static_cast<std::int64_t>(image);
    }
  }
  for (; done < indices.size(); ++done) {
    indices[done] = static_cast<std::int64_t>((*this)(static_cast<std::uint64_t>(indices[done])));
  }
}

}  // namespace dsrt
