// input.h: what a fuzzer made up, taken piece by piece from the front.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace dsrt::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(std::as_bytes(std::span(data, size))) {}

  // The next number; missing bytes are zeros.
  template <typename Number>
  Number number() {
    Number value = 0;
    const std::span<const std::byte> taken = bytes(sizeof value);
    if (!taken.empty()) std::memcpy(&value, taken.data(), taken.size());
    return value;
  }

  // The next number of [0, count).
  std::size_t below(std::size_t count) { return number<std::uint8_t>() % count; }

  // The next `size` bytes, or as many as there are.
  std::span<const std::byte> bytes(std::size_t size) {
    const std::span<const std::byte> taken = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

  std::string text(std::size_t size) {
    const std::span<const std::byte> taken = bytes(size);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  std::span<const std::byte> rest() const { return rest_; }

 private:
  std::span<const std::byte> rest_;
};

// Stops the fuzzer, which keeps the input.
inline void require(bool condition) {
  if (!condition) __builtin_trap();
}

}  // namespace dsrt::fuzz
