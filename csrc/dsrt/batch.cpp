#include "dsrt/batch.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "dsrt/fixed_batch.h"
#include "dsrt/ragged_batch.h"

namespace dsrt {

namespace {

// Long enough that handing out slices costs nothing, short enough that all threads work on the
// batch that the consumer waits for.
constexpr std::uint64_t slice_bytes = std::uint64_t{256} << 10;

// What a record costs besides its bytes: finding it, or starting the decompressor, takes as long as
// copying this much.
constexpr std::uint64_t bytes_per_record = 256;
constexpr std::uint64_t bytes_per_frame = std::uint64_t{4} << 10;

}  // namespace

Batch::Batch(const ShardSet& shards, std::vector<std::int64_t> rows, std::uint64_t record_bytes)
    : rows_(std::move(rows)) {
  const std::uint64_t extra = shards.has_compressed() ? bytes_per_frame : bytes_per_record;
  const std::uint64_t cost_bytes = std::min(record_bytes, slice_bytes) + extra;
  // Some together, since all but the last of a slice are decompressed straight into the batch.
  const bool are_grouped = shards.has_compressed() && record_bytes <= slice_bytes;
  records_per_slice_ = std::max<std::size_t>(are_grouped ? 4 : 1, slice_bytes / cost_bytes);
}

std::size_t Batch::num_slices() const {
  return (num_records() + records_per_slice_ - 1) / records_per_slice_;
}

GatherPlan::GatherPlan(std::shared_ptr<const ShardSet> opened, RecordLayout record_layout,
                       std::vector<std::size_t> wanted, std::shared_ptr<BufferPool> blocks)
    : shards(std::move(opened)),
      layout(std::move(record_layout)),
      fields(std::move(wanted)),
      pool(std::move(blocks)) {
  for (const std::size_t field : fields) {
    if (field < layout.fields().size()) continue;
    throw std::invalid_argument("field " + std::to_string(field) + " is outside [0, " +
                                std::to_string(layout.fields().size()) + ")");
  }
}

std::unique_ptr<ArrayBatch> make_array_batch(std::shared_ptr<const GatherPlan> plan,
                                             std::vector<std::int64_t> rows) {
  if (plan->layout.is_fixed()) {
    return std::make_unique<FixedBatch>(std::move(plan), std::move(rows));
  }
  return std::make_unique<RaggedBatch>(std::move(plan), std::move(rows));
}

void run_batch(Batch& batch, RecordReader& reader) {
  batch.read_ahead(reader);
  for (std::size_t stage = 0; stage < batch.num_stages(); ++stage) {
    batch.prepare(stage, reader);
    for (std::size_t begin = 0; begin < batch.num_records(); begin += batch.records_per_slice()) {
      batch.run(stage, begin, std::min(batch.num_records(), begin + batch.records_per_slice()),
                reader);
    }
  }
}

}  // namespace dsrt
