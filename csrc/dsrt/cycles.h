// cycles.h: the draws of a run counted through, epoch after epoch, and cut into cycles.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dsrt {

// Cuts the draws [first, first + out.size()) of a run where one cycle of `length` draws ends and
// the next begins. Calls part(cycle, place in the cycle, the slice of `out`) for each, in order.
template <typename Value, typename Part>
void for_each_cycle(std::uint64_t first, std::uint64_t length, std::span<Value> out, Part part) {
  while (!out.empty()) {
    const std::uint64_t place = first % length;
    const std::size_t size = std::min<std::uint64_t>(out.size(), length - place);
    part(first / length, place, out.first(size));
    out = out.subspan(size);
    first += size;
  }
}

}  // namespace dsrt
