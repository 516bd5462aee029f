#include "dsrt/record_layout.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "dsrt/error.h"

namespace dsrt {

namespace {

constexpr std::uint64_t max_record_bytes = std::uint64_t{1} << 62;

[[noreturn]] void throw_outside(std::uint64_t record_bytes, const ArrayField& field,
                                const std::string& claim) {
  throw CorruptError(" has " + std::to_string(record_bytes) + " bytes but field '" + field.name +
                     "' " + claim + "; restore or rebuild the cache");
}

}  // namespace

std::size_t ArrayField::num_ragged_axes() const {
  return static_cast<std::size_t>(std::count(shape.begin(), shape.end(), ragged));
}

RecordLayout::RecordLayout(std::vector<ArrayField> fields) : fields_(std::move(fields)) {
  for (const ArrayField& field : fields_) {
    const std::uint64_t item = field.item_bytes;
    if (item == 0 || item > 16 || (item & (item - 1)) != 0) {
      throw std::invalid_argument("field '" + field.name + "' has items of " +
                                  std::to_string(item) + " bytes; choose 1, 2, 4, 8 or 16");
    }
    for (const std::int64_t extent : field.shape) {
      if (extent >= 0 || extent == ArrayField::ragged) continue;
      throw std::invalid_argument("field '" + field.name + "' has an axis of " +
                                  std::to_string(extent) + " items");
    }
    first_ragged_axis_.push_back(num_ragged_axes_);
    num_ragged_axes_ += field.num_ragged_axes();
  }
  if (!is_fixed()) return;
  places_.resize(fields_.size());
  try {
    record_bytes_ = locate({}, max_record_bytes, places_);
  } catch (const CorruptError& error) {
    throw std::invalid_argument(std::string("the record") + error.what());
  }
}

std::uint64_t RecordLayout::locate(std::span<const std::uint64_t> extents,
                                   std::uint64_t record_bytes, std::span<Place> places) const {
  std::uint64_t end = header_bytes();
  std::size_t next_extent = 0;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const ArrayField& field = fields_[i];
    std::uint64_t bytes = field.item_bytes;
    bool is_empty = false;
    bool fits = true;
    for (const std::int64_t axis : field.shape) {
      const std::uint64_t extent =
          axis == ArrayField::ragged ? extents[next_extent++] : static_cast<std::uint64_t>(axis);
      is_empty |= extent == 0;
      // Once too large, `bytes` stays put: only a later axis of 0 can still make the field fit.
      fits &= extent == 0 || bytes <= record_bytes / extent;
      if (fits && extent != 0) bytes *= extent;
    }
    if (is_empty) bytes = 0;
    const std::uint64_t begin = (end + field.item_bytes - 1) & ~(field.item_bytes - 1);
    if (!(is_empty || fits)) throw_outside(record_bytes, field, "has more");
    if (begin > record_bytes || bytes > record_bytes - begin) {
      throw_outside(record_bytes, field, "ends at byte " + std::to_string(begin + bytes));
    }
    places[i] = {begin, bytes};
    end = begin + bytes;
  }
  return end;
}

}  // namespace dsrt
