#include "dsrt/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dsrt {

namespace {

// ISA-L leaves the upper halves of the vector registers dirty, and then every SSE instruction of
// the code after it waits for them: gathering small records ran at half its speed.
#if defined(__x86_64__)
__attribute__((target("avx"))) void zero_upper_halves() { _mm256_zeroupper(); }
const bool has_upper_halves = __builtin_cpu_supports("avx");
#else
void zero_upper_halves() {}
constexpr bool has_upper_halves = false;
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  // ISA-L takes an int length and neither inverts its input nor its output. Its signature lacks
  // const, yet it only reads.
  constexpr std::size_t most = std::numeric_limits<int>::max() / 2;
  std::uint32_t state = ~before;
  while (!bytes.empty()) {
    const std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), most));
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(piece.data()));
    state = crc32_iscsi(data, static_cast<int>(piece.size()), state);
    bytes = bytes.subspan(piece.size());
  }
  if (has_upper_halves) zero_upper_halves();
  return ~state;
}

}  // namespace dsrt
