#include "dsrt/record_batch.h"

#include <algorithm>
#include <utility>

namespace dsrt {

RecordBatch::RecordBatch(const ShardSet& shards, std::shared_ptr<BufferPool> pool,
                         std::vector<std::int64_t> rows)
    : Batch(shards, std::move(rows), shards.mean_record_bytes()),
      pool_(std::move(pool)),
      estimated_bytes_(num_records() * shards.mean_record_bytes()) {}

std::uint64_t RecordBatch::bytes() const {
  std::uint64_t unpacked_bytes = 0;
  for (const RawRecords& slice : slices_) unpacked_bytes += slice.memory_bytes;
  return std::max(estimated_bytes_, unpacked_bytes);
}

void RecordBatch::prepare(std::size_t, RecordReader&) { slices_.resize(num_slices()); }

void RecordBatch::run(std::size_t, std::size_t begin, std::size_t end, RecordReader& reader) {
  slices_[begin / records_per_slice()] = reader.read(rows(begin, end), *pool_);
}

}  // namespace dsrt
