#include "dsrt/record_layout.h"

#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "dsrt/error.h"
#include "tests/check.h"

namespace dsrt {
namespace {

constexpr std::int64_t ragged = ArrayField::ragged;
constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();

// tokens [null], mask [null, 3] and a scalar: three extents in front.
const RecordLayout ragged_layout({{"tokens", 4, {ragged}}, {"mask", 1, {ragged, 3}}, {"y", 8, {}}});

// A record of 100 bytes with these extents of tokens and mask.
std::uint64_t locate(std::vector<std::uint64_t> extents) {
  std::vector<RecordLayout::Place> places(3);
  return ragged_layout.locate(extents, 100, places);
}

void test_fields_start_at_multiples_of_their_item_size() {
  const RecordLayout layout({{"a", 1, {3}}, {"b", 2, {}}, {"c", 8, {2}}, {"d", 1, {}}});
  CHECK(layout.is_fixed());
  CHECK_EQ(layout.place(0).offset, 0u);
  CHECK_EQ(layout.place(1).offset, 4u);
  CHECK_EQ(layout.place(2).offset, 8u);
  CHECK_EQ(layout.place(2).bytes, 16u);
  CHECK_EQ(layout.place(3).offset, 24u);
  CHECK_EQ(layout.record_bytes(), 25u);
}

void test_extents_stand_in_front_of_ragged_records() {
  CHECK(!ragged_layout.is_fixed());
  CHECK_EQ(ragged_layout.header_bytes(), 16u);
  CHECK_EQ(ragged_layout.first_ragged_axis(1), 1u);
  std::vector<RecordLayout::Place> places(3);
  const std::vector<std::uint64_t> extents = {5, 2};
  CHECK_EQ(ragged_layout.locate(extents, 100, places), 56u);
  CHECK_EQ(places[0].offset, 16u);
  CHECK_EQ(places[0].bytes, 20u);
  CHECK_EQ(places[1].offset, 36u);
  CHECK_EQ(places[1].bytes, 6u);
  CHECK_EQ(places[2].offset, 48u);
}

void test_an_array_without_items_takes_no_bytes_whatever_its_other_extents() {
  const RecordLayout layout({{"a", 8, {ragged, ragged}}});
  std::vector<RecordLayout::Place> places(1);
  for (const auto& extents : std::vector<std::vector<std::uint64_t>>{{0, huge}, {huge, 0}}) {
    CHECK_EQ(layout.locate(extents, 16, places), 16u);
    CHECK_EQ(places[0].bytes, 0u);
  }
}

void test_extents_beyond_the_record_are_refused_and_do_not_overflow() {
  CHECK_EQ(locate({10, 9}), 96u);
  CHECK_THROWS_WITH(locate({10, 12}), CorruptError,
                    " has 100 bytes but field 'y' ends at byte 104;");
  CHECK_THROWS_WITH(locate({22, 0}), CorruptError, "field 'tokens' ends at byte 104;");
  CHECK_THROWS_WITH(locate({huge, 0}), CorruptError, "field 'tokens' has more;");
  CHECK_THROWS_WITH(locate({huge / 4 + 2, 0}), CorruptError, "field 'tokens' has more;");
  CHECK_THROWS_WITH(locate({0, huge}), CorruptError, "field 'mask' has more;");
}

void test_nonsense_fields_are_refused_by_name() {
  using Fields = std::vector<ArrayField>;
  CHECK_THROWS_WITH(RecordLayout(Fields{{"a", 3, {}}}), std::invalid_argument,
                    "field 'a' has items of 3 bytes; choose 1, 2, 4, 8 or 16");
  CHECK_THROWS_WITH(RecordLayout(Fields{{"a", 0, {}}}), std::invalid_argument, "of 0 bytes");
  CHECK_THROWS_WITH(RecordLayout(Fields{{"a", 1, {-2}}}), std::invalid_argument,
                    "field 'a' has an axis of -2 items");
  const std::int64_t large = std::int64_t{1} << 40;
  CHECK_THROWS_WITH(RecordLayout(Fields{{"a", 1, {large, large}}}), std::invalid_argument,
                    "field 'a'");
}

}  // namespace
}  // namespace dsrt

int main() {
  dsrt::test_fields_start_at_multiples_of_their_item_size();
  dsrt::test_extents_stand_in_front_of_ragged_records();
  dsrt::test_an_array_without_items_takes_no_bytes_whatever_its_other_extents();
  dsrt::test_extents_beyond_the_record_are_refused_and_do_not_overflow();
  dsrt::test_nonsense_fields_are_refused_by_name();
}
