#include "dsrt/fixed_batch.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "dsrt/copy_ahead.h"
#include "dsrt/crc32c.h"
#include "dsrt/error.h"

namespace dsrt {

namespace {

constexpr std::uint64_t chunk_bytes = std::uint64_t{16} << 10;  // stays in the first-level cache

}  // namespace

FixedBatch::FixedBatch(std::shared_ptr<const GatherPlan> plan, std::vector<std::int64_t> rows)
    : ArrayBatch(*plan->shards, std::move(rows), plan->layout.record_bytes()),
      plan_(std::move(plan)) {
  for (const std::size_t field : plan_->fields) {
    offsets_.push_back(block_.add(num_records(), plan_->layout.place(field).bytes));
  }
}

void FixedBatch::prepare(std::size_t, RecordReader& reader) {
  if (num_records() > 0 && !plan_->is_proven) prove_size(reader);
  const std::shared_ptr<std::byte> block = plan_->block(block_.bytes());
  for (std::size_t i = 0; i < plan_->fields.size(); ++i) {
    const std::size_t field = plan_->fields[i];
    const auto [offset, bytes] = plan_->layout.place(field);
    std::byte* target = block.get() + offsets_[i];
    columns_.push_back({offset, offset + bytes, target});
    fields_.push_back(
        {{block, target}, bytes, plan_->layout.fields()[field].shape, nullptr, 0, {}});
  }
}

void FixedBatch::prove_size(RecordReader& reader) const {
  std::vector<std::byte> frame;
  Record first;
  reader.visit(rows(0, 1), [&](std::size_t, const Record& record) {
    if (reader.is_compressed(record)) reader.append_frame(record, frame);
    first = record;
  });
  check_size(reader.shards(), first,
             reader.is_compressed(first) ? reader.raw_bytes(first, frame) : first.stored_bytes);
  plan_->is_proven = true;
}

void FixedBatch::run(std::size_t, std::size_t begin, std::size_t end, RecordReader& reader) {
  const ShardSet& shards = reader.shards();
  std::vector<std::byte>& frame = reader.frame();
  reader.visit(rows(begin, end), [&](std::size_t i, const Record& record) {
    if (reader.is_compressed(record)) {
      const bool is_last = begin + i + 1 == end;
      if (!shards.must_check(record)) {
        return unpack(record, record.stored(), begin + i, is_last, reader);
      }
      frame.clear();
      reader.append_frame(record, frame);
      return unpack(record, frame, begin + i, is_last, reader);
    }
    check_size(shards, record, record.stored_bytes);
    if (shards.must_check(record)) {
      shards.check(record, scatter_and_checksum(record.stored(), begin + i));
    } else {
      scatter(record.data, begin + i);
    }
  });
}

void FixedBatch::check_size(const ShardSet& shards, const Record& record,
                            std::uint64_t bytes) const {
  if (bytes == plan_->layout.record_bytes()) return;
  throw CorruptError(shards.name(record) + " has " + std::to_string(bytes) +
                     " bytes but the schema says " + std::to_string(plan_->layout.record_bytes()) +
                     "; restore or rebuild the cache");
}

void FixedBatch::scatter(const std::byte* record, std::size_t row, std::size_t first) const {
  for (std::size_t i = first; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    copy_ahead(column.row(row), record + column.begin, column.end - column.begin);
  }
}

std::uint32_t FixedBatch::scatter_and_checksum(std::span<const std::byte> record,
                                               std::size_t row) const {
  if (record.size() <= chunk_bytes) {
    const std::uint32_t checksum = crc32c(record);
    scatter(record.data(), row);
    return checksum;
  }
  std::uint32_t checksum = 0;
  for (std::uint64_t from = 0; from < record.size(); from += chunk_bytes) {
    const std::uint64_t to = std::min<std::uint64_t>(record.size(), from + chunk_bytes);
    checksum = crc32c(record.subspan(from, to - from), checksum);
    for (const Column& column : columns_) {
      const std::uint64_t first = std::max(from, column.begin);
      const std::uint64_t last = std::min(to, column.end);
      if (first >= last) continue;
      std::memcpy(column.row(row) + (first - column.begin), record.data() + first, last - first);
    }
  }
  return checksum;
}

void FixedBatch::unpack(const Record& record, std::span<const std::byte> frame, std::size_t row,
                        bool is_last, RecordReader& reader) const {
  const std::uint64_t bytes = plan_->layout.record_bytes();
  check_size(reader.shards(), record, reader.raw_bytes(record, frame));
  // Straight into its row of the first field, what follows into the next row, which comes after it.
  const std::uint64_t room = columns_.empty() || columns_[0].begin > 0 ? 0 : columns_[0].end;
  if (bytes <= (is_last ? room : 2 * room)) {
    const std::span<std::byte> raw(columns_[0].row(row), bytes);
    reader.decompress(record, frame, raw);
    return scatter(raw.data(), row, 1);
  }
  std::vector<std::byte>& raw = reader.raw();
  raw.resize(bytes);
  reader.decompress(record, frame, raw);
  scatter(raw.data(), row);
}

}  // namespace dsrt
