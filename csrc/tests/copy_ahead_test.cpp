#include "dsrt/copy_ahead.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/check.h"

namespace dsrt {
namespace {

void test_every_size_is_copied_and_nothing_else() {
  for (const std::size_t bytes : {0, 1, 63, 256, 2047, 2303, 2304, 2305, 2560, 4096, 196608}) {
    std::vector<std::byte> source(bytes);
    for (std::size_t i = 0; i < bytes; ++i) source[i] = static_cast<std::byte>(i * 31 + 7);
    constexpr std::byte untouched{0xee};
    std::vector<std::byte> target(bytes + 512, untouched);
    copy_ahead(target.data(), source.data(), bytes);
    CHECK(std::equal(source.begin(), source.end(), target.begin()));
    CHECK_EQ(
        std::count(target.begin() + static_cast<std::ptrdiff_t>(bytes), target.end(), untouched),
        512);
  }
}

}  // namespace
}  // namespace dsrt

int main() { dsrt::test_every_size_is_copied_and_nothing_else(); }
