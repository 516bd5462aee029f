#include "dsrt/ragged_batch.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "dsrt/error.h"

namespace dsrt {

namespace {

// How many times the bytes of its records a padded batch may take, or as often as it has records,
// which arrays of one ragged axis never exceed. What a record claims about axes beside an empty one
// must not ask for more memory than the files' sizes account for.
constexpr std::uint64_t max_padding = 1024;
constexpr std::uint64_t least_padded_bytes = std::uint64_t{1} << 20;

// Bytes from one index of each axis to the next, for an array in C order; front() is the whole
// array. Returns whether they can be told without an overflow.
bool fill_strides(std::span<const std::uint64_t> extents, std::uint64_t item_bytes,
                  std::vector<std::uint64_t>& strides) {
  strides.resize(extents.size() + 1);
  strides.back() = item_bytes;
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    if (__builtin_mul_overflow(strides[axis + 1], extents[axis], &strides[axis])) return false;
  }
  return true;
}

[[noreturn]] void refuse_padding(const ArrayField& field, std::span<const std::uint64_t> shape,
                                 std::uint64_t most_times, std::uint64_t raw_bytes) {
  std::string axes;
  for (const std::uint64_t extent : shape) {
    axes += (axes.empty() ? "" : ", ") + std::to_string(extent);
  }
  throw std::length_error("field '" + field.name + "' padded to [" + axes +
                          "], the longest of the batch, takes more than " +
                          std::to_string(most_times) + " times the " + std::to_string(raw_bytes) +
                          " bytes of its records; put records of like shapes into a batch");
}

// The extents of all axes of `field`, given those of its ragged ones.
void fill_extents(const ArrayField& field, const std::uint64_t* ragged,
                  std::vector<std::uint64_t>& extents) {
  extents.clear();
  for (const std::int64_t axis : field.shape) {
    extents.push_back(axis == ArrayField::ragged ? *ragged++ : static_cast<std::uint64_t>(axis));
  }
}

// Copies an array into the corner of a larger one and fills the rest with zeros. Both are given by
// their strides, of which the first is the size of the whole.
void copy_padded(const std::byte* source, std::span<const std::uint64_t> from, std::byte* target,
                 std::span<const std::uint64_t> to) {
  std::uint64_t copied = 0;  // bytes of the target
  if (from.size() == 1 || from[1] == to[1]) {
    std::memcpy(target, source, from[0]);
    copied = from[0];
  } else {
    for (std::uint64_t at = 0; at < from[0]; at += from[1], copied += to[1]) {
      copy_padded(source + at, from.subspan(1), target + copied, to.subspan(1));
    }
  }
  std::memset(target + copied, 0, to[0] - copied);
}

}  // namespace

RaggedBatch::RaggedBatch(std::shared_ptr<const GatherPlan> plan, std::vector<std::int64_t> rows)
    : ArrayBatch(*plan->shards, std::move(rows), plan->shards->mean_record_bytes()),
      plan_(std::move(plan)),
      estimated_bytes_(num_records() * plan_->shards->mean_record_bytes()) {}

std::uint64_t RaggedBatch::bytes() const {
  std::uint64_t held_bytes = block_bytes_;
  for (const RawRecords& slice : slices_) held_bytes += slice.memory_bytes;
  return std::max(estimated_bytes_, held_bytes);
}

void RaggedBatch::prepare(std::size_t stage, RecordReader&) {
  if (stage == 1) return allocate();
  slices_.resize(num_slices());
  extents_.resize(num_records() * plan_->layout.num_ragged_axes());
}

void RaggedBatch::run(std::size_t stage, std::size_t begin, std::size_t end, RecordReader& reader) {
  if (stage == 0) return measure(begin, end, reader);
  gather(begin, end, reader.shards());
}

void RaggedBatch::measure(std::size_t begin, std::size_t end, RecordReader& reader) {
  const RecordLayout& layout = plan_->layout;
  RawRecords& records = slices_[begin / records_per_slice()];
  records = reader.read(rows(begin, end), *plan_->pool);
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint64_t bytes = records.bytes[i - begin].size();
    if (bytes >= layout.header_bytes()) continue;
    throw CorruptError(reader.shards().name(rows(i, i + 1)[0]) + " has " + std::to_string(bytes) +
                       " bytes but its extents alone take " +
                       std::to_string(layout.header_bytes()) + "; restore or rebuild the cache");
  }
  reader.shards().guarded([&] {
    for (std::size_t i = begin; i < end; ++i) {
      std::memcpy(extents(i).data(), records.bytes[i - begin].data(), layout.header_bytes());
    }
  });
  std::vector<RecordLayout::Place> places(layout.fields().size());
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint64_t bytes = records.bytes[i - begin].size();
    try {
      const std::uint64_t end_of_arrays = layout.locate(extents(i), bytes, places);
      if (end_of_arrays != bytes) {
        throw CorruptError(" has " + std::to_string(bytes) + " bytes but its arrays end at byte " +
                           std::to_string(end_of_arrays) + "; restore or rebuild the cache");
      }
    } catch (const CorruptError& error) {
      throw CorruptError(reader.shards().name(rows(i, i + 1)[0]) + error.what());
    }
  }
}

void RaggedBatch::allocate() {
  const RecordLayout& layout = plan_->layout;
  std::vector<std::uint64_t> longest(layout.num_ragged_axes());
  for (std::size_t i = 0; i < extents_.size(); ++i) {
    std::uint64_t& axis = longest[i % longest.size()];
    axis = std::max(axis, extents_[i]);
  }
  std::uint64_t raw_bytes = 0;
  for (const RawRecords& slice : slices_) {
    for (const std::span<const std::byte> record : slice.bytes) raw_bytes += record.size();
  }
  const std::uint64_t most_times = std::max<std::uint64_t>(max_padding, num_records());
  const std::uint64_t most_bytes = std::max(most_times * raw_bytes, least_padded_bytes);
  BlockPlan block;
  std::vector<std::uint64_t> shape;
  std::vector<std::size_t> data_offsets;
  std::vector<std::size_t> extents_offsets;
  for (const std::size_t i : plan_->fields) {
    const ArrayField& field = layout.fields()[i];
    FieldArray array;
    fill_extents(field, longest.data() + layout.first_ragged_axis(i), shape);
    std::uint64_t padded_bytes = 0;
    if (!fill_strides(shape, field.item_bytes, array.strides) ||
        __builtin_mul_overflow(array.strides.front(), num_records(), &padded_bytes) ||
        padded_bytes > most_bytes) {
      refuse_padding(field, shape, most_times, raw_bytes);
    }
    array.shape.assign(shape.begin(), shape.end());
    array.row_bytes = array.strides.front();
    array.num_ragged_axes = field.num_ragged_axes();
    data_offsets.push_back(block.add(num_records(), array.row_bytes));
    extents_offsets.push_back(
        block.add(num_records(), array.num_ragged_axes * sizeof(std::int64_t)));
    fields_.push_back(std::move(array));
  }
  const std::shared_ptr<std::byte> memory = plan_->block(block.bytes());
  block_bytes_ = block.bytes();
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    fields_[i].data = {memory, memory.get() + data_offsets[i]};
    if (fields_[i].num_ragged_axes == 0) continue;
    fields_[i].extents = {memory, memory.get() + extents_offsets[i]};
  }
}

void RaggedBatch::gather(std::size_t begin, std::size_t end, const ShardSet& shards) {
  const RecordLayout& layout = plan_->layout;
  RawRecords& records = slices_[begin / records_per_slice()];
  std::vector<RecordLayout::Place> places(layout.fields().size());
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> strides;
  shards.guarded([&] {
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<const std::byte> record = records.bytes[i - begin];
      layout.locate(extents(i), record.size(), places);
      for (std::size_t k = 0; k < fields_.size(); ++k) {
        const std::size_t field = plan_->fields[k];
        const FieldArray& array = fields_[k];
        const std::uint64_t* ragged = extents(i).data() + layout.first_ragged_axis(field);
        fill_extents(layout.fields()[field], ragged, shape);
        fill_strides(shape, layout.fields()[field].item_bytes, strides);
        copy_padded(record.data() + places[field].offset, strides,
                    array.data.get() + i * array.row_bytes, array.strides);
        if (array.num_ragged_axes == 0) continue;
        const std::uint64_t bytes = array.num_ragged_axes * sizeof(std::int64_t);
        std::memcpy(array.extents.get() + i * bytes, ragged, bytes);
      }
    }
  });
  records = {};
}

std::span<std::uint64_t> RaggedBatch::extents(std::size_t record) {
  const std::size_t axes = plan_->layout.num_ragged_axes();
  return std::span(extents_).subspan(record * axes, axes);
}

}  // namespace dsrt
