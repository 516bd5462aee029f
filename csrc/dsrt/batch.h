// batch.h: the work that turns row numbers into one batch, cut so that threads can share it.
//
//   stage 0: prepare --> slices of records, on any threads --> stage 1: prepare --> slices --> done
//
// Threads  prepare() of a stage runs alone, after all slices of the stage before. Slices of one
//          stage run at once on several threads and touch disjoint parts of the batch.
// Errors   prepare() and run() throw; the batch is then dropped.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dsrt/buffer_pool.h"
#include "dsrt/record_layout.h"
#include "dsrt/record_reader.h"

namespace dsrt {

class Batch {
 public:
  // `record_bytes` is what a record typically takes; slices are cut by it.
  Batch(const ShardSet& shards, std::vector<std::int64_t> rows, std::uint64_t record_bytes);
  virtual ~Batch() = default;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  virtual std::size_t num_stages() const = 0;
  virtual void prepare(std::size_t stage, RecordReader& reader) = 0;
  // Works on the records [begin, end), of which `begin` is a multiple of records_per_slice().
  virtual void run(std::size_t stage, std::size_t begin, std::size_t end, RecordReader& reader) = 0;

  // Asks the disk for all records, where they are not in memory. To be called before stage 0.
  void read_ahead(RecordReader& reader) const { reader.read_ahead(rows_); }

  std::size_t num_records() const { return rows_.size(); }
  std::size_t records_per_slice() const { return records_per_slice_; }
  std::size_t num_slices() const;
  // Memory that the batch needs, at least what it has: an estimate until the sizes are known. Not
  // while prepare() or run() are working.
  virtual std::uint64_t bytes() const = 0;

 protected:
  std::span<const std::int64_t> rows(std::size_t begin, std::size_t end) const {
    return std::span(rows_).subspan(begin, end - begin);
  }

 private:
  std::vector<std::int64_t> rows_;
  std::size_t records_per_slice_;
};

// One field of a batch: [num_records, row_bytes] bytes in C order.
struct FieldArray {
  std::shared_ptr<std::byte> data;
  std::uint64_t row_bytes = 0;
  std::vector<std::int64_t> shape;  // of one record, its ragged axes as long as the batch needs
  // Of ragged fields: int64 [num_records, num_ragged_axes], and the strides of a padded record.
  std::shared_ptr<std::byte> extents;
  std::size_t num_ragged_axes = 0;
  std::vector<std::uint64_t> strides;
};

// A batch of the `arrays` codec: each field gathered into an array of its own, all in one block.
class ArrayBatch : public Batch {
 public:
  using Batch::Batch;
  std::span<const FieldArray> fields() const { return fields_; }

 protected:
  std::vector<FieldArray> fields_;
};

// What all batches of one reader have in common.
struct GatherPlan {
  // Throws std::invalid_argument for a field number that `layout` does not have.
  GatherPlan(std::shared_ptr<const ShardSet> shards, RecordLayout layout,
             std::vector<std::size_t> fields, std::shared_ptr<BufferPool> pool);

  std::shared_ptr<std::byte> block(std::size_t bytes) const {
    return take_block ? take_block(bytes) : pool->take(bytes);
  }

  std::shared_ptr<const ShardSet> shards;
  RecordLayout layout;
  std::vector<std::size_t> fields;  // numbers of those to gather
  std::shared_ptr<BufferPool> pool;
  // Where a batch's one block comes from, instead of `pool`; empty for that.
  std::function<std::shared_ptr<std::byte>(std::size_t bytes)> take_block;
  // Whether a record of a fixed layout's size was found: until then its size is only a claim.
  mutable std::atomic<bool> is_proven = false;
};

// A batch of fixed or ragged records, as `plan->layout` says.
std::unique_ptr<ArrayBatch> make_array_batch(std::shared_ptr<const GatherPlan> plan,
                                             std::vector<std::int64_t> rows);

// Does all the work of a batch on the calling thread.
void run_batch(Batch& batch, RecordReader& reader);

}  // namespace dsrt
