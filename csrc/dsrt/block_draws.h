// block_draws.h: a shuffle that reads from few places at a time.
//
//   rows             0 1 2 3 | 4 5 6 7 | 8 9 ..                blocks of consecutive rows
//   permuted blocks  8 9 .. | 0 1 2 3 || 4 5 6 7 | ..          windows of consecutive blocks
//   permuted rows    1 9 0 3 2 8 ..   || 6 ..                  within each window
//
// Like a shuffle, every row is drawn once in each cycle through the population, whatever the epoch
// length; but the draws of a window stay within its blocks. Any position costs O(1) to find.
#pragma once

#include <cstdint>
#include <span>

#include "dsrt/draws.h"

namespace dsrt {

class BlockDraws : public Draws {
 public:
  // `window_records` is a multiple of `block_records`, which is at least 1.
  BlockDraws(std::uint64_t num_rows, std::uint64_t epoch_length, std::uint64_t seed,
             std::uint64_t block_records, std::uint64_t window_records);

 private:
  void fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
            std::span<std::int64_t> rows) const override;
  void fill_cycle(std::uint64_t cycle, std::uint32_t pass, std::uint64_t place,
                  std::span<std::int64_t> rows) const;

  std::uint64_t block_records_;
  std::uint64_t window_records_;
  std::uint64_t num_blocks_;
  std::uint64_t missing_;  // records that the last block of the table lacks
};

}  // namespace dsrt
