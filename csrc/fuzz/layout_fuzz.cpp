// layout_fuzz.cpp: a schema and a record's extents --> RecordLayout: every array that it places
// lies in the record, aligned, after the one before.
#include <stdexcept>
#include <vector>

#include "dsrt/error.h"
#include "dsrt/record_layout.h"
#include "fuzz/input.h"

namespace dsrt::fuzz {

namespace {

RecordLayout make_layout(Input& input) {
  std::vector<ArrayField> fields(input.below(5));
  for (ArrayField& field : fields) {
    field.item_bytes = std::uint64_t{1} << input.below(6);
    field.shape.resize(input.below(5));
    for (std::int64_t& axis : field.shape) {
      const std::size_t kind = input.below(4);
      axis = ArrayField::ragged;
      if (kind == 1) axis = input.number<std::uint8_t>();
      if (kind == 2) axis = input.number<std::int64_t>();
    }
  }
  return RecordLayout(std::move(fields));
}

void check_places(const RecordLayout& layout, std::span<const RecordLayout::Place> places,
                  std::uint64_t record_bytes) {
  std::uint64_t end = layout.header_bytes();
  for (std::size_t i = 0; i < places.size(); ++i) {
    require(places[i].offset >= end);
    require(places[i].offset % layout.fields()[i].item_bytes == 0);
    require(places[i].offset <= record_bytes && places[i].bytes <= record_bytes - places[i].offset);
    end = places[i].offset + places[i].bytes;
  }
}

}  // namespace

}  // namespace dsrt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dsrt;
  fuzz::Input input(data, size);
  try {
    const RecordLayout layout = fuzz::make_layout(input);
    const auto record_bytes = layout.header_bytes() + input.number<std::uint64_t>() % (1u << 20);
    std::vector<std::uint64_t> extents(layout.num_ragged_axes());
    for (std::uint64_t& extent : extents) {
      extent = input.below(2) == 0 ? input.number<std::uint8_t>() : input.number<std::uint64_t>();
    }
    std::vector<RecordLayout::Place> places(layout.fields().size());
    const std::uint64_t end = layout.locate(extents, record_bytes, places);
    fuzz::require(end <= record_bytes);
    fuzz::check_places(layout, places, record_bytes);
  } catch (const CorruptError&) {
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
