#include "dsrt/string_views.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/check.h"

namespace dsrt {
namespace {

// A view of `length` whose other twelve bytes are `rest`, filled up with zeros.
std::vector<std::byte> view_of(std::uint32_t length, const std::string& rest) {
  std::vector<std::byte> view(16);
  std::memcpy(view.data(), &length, sizeof length);
  std::memcpy(view.data() + sizeof length, rest.data(), rest.size());
  return view;
}

std::vector<std::byte> view_of(const std::string& text) {
  return view_of(static_cast<std::uint32_t>(text.size()), text);
}

void test_texts_of_up_to_twelve_bytes_are_short() {
  for (std::size_t length = 0; length <= 12; ++length) {
    CHECK(are_short_ascii(view_of(std::string(length, '\x7F'))));
    CHECK(are_short_ascii(view_of(std::string(length, '\0'))));
  }
}

void test_longer_ones_are_not() {
  for (const std::uint32_t length : {13u, 14u, 255u, 256u, 1u << 31, ~0u}) {
    CHECK(!are_short_ascii(view_of(length, "")));
  }
}

void test_every_byte_of_the_text_must_be_ascii() {
  for (std::size_t place = 0; place < 12; ++place) {
    std::string text(12, 'a');
    text[place] = '\x80';
    CHECK(!are_short_ascii(view_of(text)));
  }
}

void test_every_byte_after_the_text_must_be_zero() {
  for (std::uint32_t length = 0; length < 12; ++length) {
    for (std::size_t place = length; place < 12; ++place) {
      std::string rest(12, '\0');
      rest[place] = '\x01';
      CHECK(!are_short_ascii(view_of(length, rest)));
    }
  }
}

void test_each_of_many_views_counts() {
  constexpr std::size_t count = 1000;
  std::vector<std::byte> views;
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<std::byte> view = view_of("train");
    views.insert(views.end(), view.begin(), view.end());
  }
  CHECK(are_short_ascii(views));
  for (std::size_t i = 0; i < count; ++i) {
    views[i * 16 + 5] ^= std::byte{0x80};
    CHECK(!are_short_ascii(views));
    views[i * 16 + 5] ^= std::byte{0x80};
  }
}

void test_what_is_no_whole_view_is_not_looked_at() {
  std::vector<std::byte> views = view_of("val");
  views.resize(31, std::byte{0xFF});
  CHECK(are_short_ascii(views));
  CHECK(are_short_ascii({}));
}

}  // namespace
}  // namespace dsrt

int main() {
  dsrt::test_texts_of_up_to_twelve_bytes_are_short();
  dsrt::test_longer_ones_are_not();
  dsrt::test_every_byte_of_the_text_must_be_ascii();
  dsrt::test_every_byte_after_the_text_must_be_zero();
  dsrt::test_each_of_many_views_counts();
  dsrt::test_what_is_no_whole_view_is_not_looked_at();
}
