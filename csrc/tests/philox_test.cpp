// philox_test.cpp: the generator gives the published words.
#include "dsrt/philox.h"

#include "tests/check.h"

namespace {

// Known answers of the authors' Random123 (tests/kat_vectors, philox2x64 with 10 rounds).
void test_known_answers() {
  using Words = std::array<std::uint64_t, 2>;
  constexpr std::uint64_t ones = ~std::uint64_t{0};
  CHECK((dsrt::philox(0, 0, 0) == Words{0xca00a0459843d731, 0x66c24222c9a845b5}));
  CHECK((dsrt::philox(ones, ones, ones) == Words{0x65b021d60cd8310f, 0x4d02f3222f86df20}));
  CHECK((dsrt::philox(0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0) ==
         Words{0x0a5e742c2997341c, 0xb0f883d38000de5d}));
}

void test_multiply_high_maps_to_the_range() {
  CHECK_EQ(dsrt::multiply_high(0, 10), 0u);
  CHECK_EQ(dsrt::multiply_high(~std::uint64_t{0}, 10), 9u);
  CHECK_EQ(dsrt::multiply_high(std::uint64_t{1} << 63, 10), 5u);
}

void test_keys_of_another_purpose_period_or_pass_differ() {
  const std::uint64_t key = dsrt::derive_key(7, dsrt::Purpose::shuffle, 3, 1);
  CHECK(key != dsrt::derive_key(8, dsrt::Purpose::shuffle, 3, 1));
  CHECK(key != dsrt::derive_key(7, dsrt::Purpose::weighted, 3, 1));
  CHECK(key != dsrt::derive_key(7, dsrt::Purpose::shuffle, 4, 1));
  CHECK(key != dsrt::derive_key(7, dsrt::Purpose::shuffle, 3, 2));
  CHECK(dsrt::derive_key(key, 0) != dsrt::derive_key(key, 1));
}

}  // namespace

int main() {
  test_known_answers();
  test_multiply_high_maps_to_the_range();
  test_keys_of_another_purpose_period_or_pass_differ();
}
