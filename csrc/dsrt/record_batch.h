// record_batch.h: whole records, verified and resident, for codecs that decode in Python.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "dsrt/batch.h"

namespace dsrt {

class RecordBatch : public Batch {
 public:
  RecordBatch(const ShardSet& shards, std::shared_ptr<BufferPool> pool,
              std::vector<std::int64_t> rows);

  std::size_t num_stages() const override { return 1; }
  std::uint64_t bytes() const override;
  void prepare(std::size_t stage, RecordReader& reader) override;
  void run(std::size_t stage, std::size_t begin, std::size_t end, RecordReader& reader) override;

  // The records, one entry a slice, in order.
  std::span<const RawRecords> slices() const { return slices_; }

 private:
  std::shared_ptr<BufferPool> pool_;
  std::uint64_t estimated_bytes_;
  std::vector<RawRecords> slices_;
};

}  // namespace dsrt
