#include "dsrt/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <limits>

namespace dsrt {

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
  return ~state;
}

}  // namespace dsrt
