#include "dsrt/record_access.h"

#include <utility>

#include "dsrt/map_guard.h"

namespace dsrt {

RecordAccess::RecordAccess(std::shared_ptr<const ShardSet> shards)
    : shards_(std::move(shards)), pool_(BufferPool::create(0)) {}

RecordAccess::~RecordAccess() { delete idle_.load(); }

RawRecords RecordAccess::read(std::span<const std::int64_t> rows) {
  for (const std::int64_t row : rows) shards_->check_row(row);
  ensure_map_guard();
  std::unique_ptr<RecordReader> reader(idle_.exchange(nullptr));
  if (!reader) reader = std::make_unique<RecordReader>(shards_);
  reader->read_ahead(rows);
  RawRecords records = reader->read(rows, *pool_);
  delete idle_.exchange(reader.release());
  return records;
}

}  // namespace dsrt
