// fixed_batch.h: records of one size, gathered in a single pass from the maps to the batch.
//
// A record is copied and checked in pieces that stay in the first-level cache, so memory is read
// once.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "dsrt/batch.h"

namespace dsrt {

class FixedBatch : public ArrayBatch {
 public:
  FixedBatch(std::shared_ptr<const GatherPlan> plan, std::vector<std::int64_t> rows);

  std::size_t num_stages() const override { return 1; }
  std::uint64_t bytes() const override { return block_.bytes(); }
  void prepare(std::size_t stage, RecordReader& reader) override;
  void run(std::size_t stage, std::size_t begin, std::size_t end, RecordReader& reader) override;

 private:
  // One field: [begin, end) of every record goes to a row of `target`.
  struct Column {
    std::uint64_t begin;
    std::uint64_t end;
    std::byte* target;

    std::byte* row(std::size_t i) const { return target + i * (end - begin); }
  };

  // Reads the first record: memory is taken only for sizes that the files bear out.
  void prove_size(RecordReader& reader) const;
  void check_size(const ShardSet& shards, const Record& record, std::uint64_t bytes) const;
  // Copies the columns from `first` on.
  void scatter(const std::byte* record, std::size_t row, std::size_t first = 0) const;
  std::uint32_t scatter_and_checksum(std::span<const std::byte> record, std::size_t row) const;
  // `is_last`: no record of this slice comes after it.
  void unpack(const Record& record, std::span<const std::byte> frame, std::size_t row, bool is_last,
              RecordReader& reader) const;

  std::shared_ptr<const GatherPlan> plan_;
  BlockPlan block_;
  std::vector<std::size_t> offsets_;  // of each field in the block
  std::vector<Column> columns_;
};

}  // namespace dsrt
