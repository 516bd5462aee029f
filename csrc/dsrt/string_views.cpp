#include "dsrt/string_views.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace dsrt {

namespace {

static_assert(std::endian::native == std::endian::little, "views are mapped, not decoded");

struct View {
  std::uint64_t words[2];
};

constexpr std::size_t length_bytes = 4;
constexpr std::size_t longest = sizeof(View) - length_bytes;

// The bits that are zero in a view of each length; of a longer one no bit may be set, but its
// length is.
constexpr std::array<View, longest + 2> forbidden_bits = [] {
  std::array<View, longest + 2> forbidden{};
  for (std::size_t length = 0; length <= longest; ++length) {
    for (std::size_t byte = length_bytes; byte < sizeof(View); ++byte) {
      const std::uint64_t bits = byte < length_bytes + length ? 0x80 : 0xFF;
      forbidden[length].words[byte / 8] |= bits << (byte % 8 * 8);
    }
  }
  forbidden.back() = {~std::uint64_t{0}, ~std::uint64_t{0}};
  return forbidden;
}();

// So many are looked at before an answer, without a branch for each.
constexpr std::size_t views_at_once = 256;

}  // namespace

bool are_short_ascii(std::span<const std::byte> views) {
  const std::size_t count = views.size() / sizeof(View);
  for (std::size_t begin = 0; begin < count; begin += views_at_once) {
    const std::size_t end = std::min(begin + views_at_once, count);
    std::uint64_t wrong = 0;
    for (std::size_t i = begin; i < end; ++i) {
      View view;
      std::memcpy(&view, views.data() + i * sizeof view, sizeof view);
      const auto length = static_cast<std::uint32_t>(view.words[0]);
      const View& forbidden = forbidden_bits[std::min<std::size_t>(length, longest + 1)];
      wrong |= (view.words[0] & forbidden.words[0]) | (view.words[1] & forbidden.words[1]);
    }
    if (wrong != 0) return false;
  }
  return true;
}

}  // namespace dsrt
