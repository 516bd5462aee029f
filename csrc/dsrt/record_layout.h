// record_layout.h: where the arrays of one record of the `arrays` codec lie. *Part of the format.*
//
//   +-----------------+-------------+---------+-------------+-----
//   | u64 extents ... | array 0     | padding | array 1     | ...
//   +-----------------+-------------+---------+-------------+-----
//
// First one u64 for each ragged axis of all fields, in field order, then axis order. Then each
// field's bytes in C order, starting at the next multiple of its item size from the record's
// start, with zero padding between. The record ends with the last byte of its last field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dsrt {

struct ArrayField {
  static constexpr std::int64_t ragged = -1;

  std::string name;
  std::uint64_t item_bytes = 1;
  std::vector<std::int64_t> shape;  // `ragged` for an axis whose extent each record tells

  std::size_t num_ragged_axes() const;
};

class RecordLayout {
 public:
  struct Place {
    std::uint64_t offset;  // from the record's start
    std::uint64_t bytes;
  };

  // Throws std::invalid_argument, naming the field, for an item size that is not one of
  // 1, 2, 4, 8 or 16, a negative extent, or fixed extents whose product exceeds 2^62 bytes.
  explicit RecordLayout(std::vector<ArrayField> fields);

  std::span<const ArrayField> fields() const { return fields_; }
  std::size_t num_ragged_axes() const { return num_ragged_axes_; }
  // Where the extents of field `field` begin among all extents of a record.
  std::size_t first_ragged_axis(std::size_t field) const { return first_ragged_axis_[field]; }
  std::uint64_t header_bytes() const { return num_ragged_axes_ * sizeof(std::uint64_t); }
  bool is_fixed() const { return num_ragged_axes_ == 0; }

  // Of a fixed layout: every record's size and field places.
  std::uint64_t record_bytes() const { return record_bytes_; }
  Place place(std::size_t field) const { return places_[field]; }

  // Fills `places` (one a field) for a record with these extents (one a ragged axis of the layout)
  // and returns the record's size. Throws CorruptError, its text a clause to follow the record's
  // name, if the fields would not fit into `record_bytes`; whatever the extents, nothing overflows.
  std::uint64_t locate(std::span<const std::uint64_t> extents, std::uint64_t record_bytes,
                       std::span<Place> places) const;

 private:
  std::vector<ArrayField> fields_;
  std::vector<std::size_t> first_ragged_axis_;
  std::size_t num_ragged_axes_ = 0;
  std::vector<Place> places_;
  std::uint64_t record_bytes_ = 0;
};

}  // namespace dsrt
