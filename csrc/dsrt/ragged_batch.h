// ragged_batch.h: records whose arrays differ in size, gathered into arrays padded with zeros.
//
//   stage 0  read and verify the records, take their extents, check that they fit the record
//   stage 1  with the longest extents known, allocate, copy, and pad
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dsrt/batch.h"

namespace dsrt {

class RaggedBatch : public ArrayBatch {
 public:
  RaggedBatch(std::shared_ptr<const GatherPlan> plan, std::vector<std::int64_t> rows);

  std::size_t num_stages() const override { return 2; }
  std::uint64_t bytes() const override;
  void prepare(std::size_t stage, RecordReader& reader) override;
  void run(std::size_t stage, std::size_t begin, std::size_t end, RecordReader& reader) override;

 private:
  void measure(std::size_t begin, std::size_t end, RecordReader& reader);
  void allocate();
  void gather(std::size_t begin, std::size_t end, const ShardSet& shards);
  std::span<std::uint64_t> extents(std::size_t record);

  std::shared_ptr<const GatherPlan> plan_;
  std::uint64_t estimated_bytes_;
  std::uint64_t block_bytes_ = 0;
  std::vector<RawRecords> slices_;
  std::vector<std::uint64_t> extents_;  // [num_records, ragged axes of the layout]
};

}  // namespace dsrt
