// permutation_test.cpp: a bijection of every size, undone by its inverse.
#include "dsrt/permutation.h"

#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "tests/check.h"

namespace {

void test_every_small_size_is_a_bijection_and_inverse_undoes_it() {
  for (std::uint64_t size = 1; size < 300; ++size) {
    const dsrt::Permutation permutation(size, size * 77);
    std::vector<bool> seen(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t image = permutation(i);
      CHECK(image < size);
      CHECK(!seen[image]);
      seen[image] = true;
      CHECK_EQ(permutation.inverse(image), i);
    }
  }
}

void test_apply_equals_one_at_a_time() {
  for (const std::uint64_t size : {1u, 3u, 5u, 17u, 1000u}) {
    const dsrt::Permutation permutation(size, 5);
    std::vector<std::int64_t> indices(size);
    std::iota(indices.begin(), indices.end(), 0);
    permutation.apply(indices);
    for (std::uint64_t i = 0; i < size; ++i) {
      CHECK_EQ(static_cast<std::uint64_t>(indices[i]), permutation(i));
    }
  }
}

void test_the_largest_sizes_stay_inside() {
  constexpr std::uint64_t largest = std::uint64_t{1} << 63;
  for (const std::uint64_t size : {largest, largest - 1, (std::uint64_t{1} << 32) + 1}) {
    const dsrt::Permutation permutation(size, 9);
    for (const std::uint64_t i : {std::uint64_t{0}, size / 2, size - 1}) {
      CHECK(permutation(i) < size);
      CHECK_EQ(permutation.inverse(permutation(i)), i);
    }
  }
}

void test_sizes_out_of_range_are_refused() {
  CHECK_THROWS(dsrt::Permutation(0, 1), std::invalid_argument);
  CHECK_THROWS(dsrt::Permutation((std::uint64_t{1} << 63) + 1, 1), std::invalid_argument);
}

}  // namespace

int main() {
  test_every_small_size_is_a_bijection_and_inverse_undoes_it();
  test_apply_equals_one_at_a_time();
  test_the_largest_sizes_stay_inside();
  test_sizes_out_of_range_are_refused();
}
