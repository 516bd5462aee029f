#include "dsrt/block_draws.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "dsrt/cycles.h"
#include "dsrt/permutation.h"
#include "dsrt/philox.h"

namespace dsrt {

BlockDraws::BlockDraws(std::uint64_t num_rows, std::uint64_t epoch_length, std::uint64_t seed,
                       std::uint64_t block_records, std::uint64_t window_records)
    : Draws(num_rows, epoch_length, seed) {
  if (block_records == 0 || window_records == 0 || window_records % block_records != 0) {
    throw std::invalid_argument("draws: window_records is " + std::to_string(window_records) +
                                " but must be a multiple of block_records, " +
                                std::to_string(block_records) + ", and both at least 1");
  }
  // Sizes beyond the population mean the same as the population's, and cannot overflow.
  block_records_ = std::min(block_records, num_rows);
  num_blocks_ = (num_rows - 1) / block_records_ + 1;
  window_records_ = std::min(window_records / block_records, num_blocks_) * block_records_;
  missing_ = num_blocks_ * block_records_ - num_rows;
}

void BlockDraws::fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
                      std::span<std::int64_t> rows) const {
  for_each_cycle(epoch * epoch_length() + start, num_rows(), rows,
                 [&](std::uint64_t cycle, std::uint64_t place, std::span<std::int64_t> part) {
                   fill_cycle(cycle, pass, place, part);
                 });
}

void BlockDraws::fill_cycle(std::uint64_t cycle, std::uint32_t pass, std::uint64_t place,
                            std::span<std::int64_t> rows) const {
  const Permutation blocks(num_blocks_, derive_key(seed(), Purpose::blocks, cycle, pass));
  const std::uint64_t window_key = derive_key(seed(), Purpose::window, cycle, pass);
  // The windows behind the one with the table's short last block begin `missing_` places earlier.
  const std::uint64_t short_block = blocks.inverse(num_blocks_ - 1);
  const std::uint64_t short_window = short_block * block_records_ / window_records_;
  const std::uint64_t short_end = (short_block + 1) * block_records_ - missing_;
  const auto begin_of = [&](std::uint64_t window) {
    return window * window_records_ - (window > short_window ? missing_ : 0);
  };

  std::vector<std::int64_t> offsets;
  while (!rows.empty()) {
    std::uint64_t window = place / window_records_;
    if (place >= begin_of(window + 1)) ++window;
    const std::uint64_t begin = begin_of(window);
    const std::uint64_t end = std::min(begin_of(window + 1), num_rows());
    const std::span part = rows.first(std::min<std::uint64_t>(rows.size(), end - place));

    std::iota(part.begin(), part.end(), static_cast<std::int64_t>(place - begin));
    Permutation(end - begin, derive_key(window_key, window)).apply(part);
    offsets.resize(part.size());
    for (std::size_t i = 0; i < part.size(); ++i) {
      std::uint64_t record = window * window_records_ + static_cast<std::uint64_t>(part[i]);
      if (window == short_window && record >= short_end) record += missing_;
      part[i] = static_cast<std::int64_t>(record / block_records_);
      offsets[i] = static_cast<std::int64_t>(record % block_records_);
    }
    blocks.apply(part);
    for (std::size_t i = 0; i < part.size(); ++i) {
      part[i] = part[i] * static_cast<std::int64_t>(block_records_) + offsets[i];
    }
    place += part.size();
    rows = rows.subspan(part.size());
  }
}

}  // namespace dsrt
