// draws.h: which row of a population each position of an epoch draws.
//
//   (seed, epoch, pass, position) --> row in [0, P)
//
// A draw is a pure function of these numbers and of what the constructor was given, so any part of
// an epoch can be drawn in any order, in pieces of any size, on any rank. Integer arithmetic only,
// except for the logarithms of weighted_order.h, which are the same on every IEEE machine.
//
// Ownership  Spans are borrowed: weights and tables lie in memory that the caller maps and keeps.
// Threads    All const methods may be called from any number of threads.
// Errors     std::invalid_argument naming the number that is out of range.
#pragma once

#include <cstdint>
#include <span>

#include "dsrt/alias_table.h"

namespace dsrt {

class Draws {
 public:
  virtual ~Draws() = default;

  std::uint64_t num_rows() const { return num_rows_; }
  std::uint64_t epoch_length() const { return epoch_length_; }

  // Throws unless epoch and pass lie in [0, 2^32), [start, start + count) lies in the epoch, and
  // the epoch ends before draw 2^63 of the run.
  void check(std::int64_t epoch, std::int64_t pass, std::int64_t start, std::int64_t count) const;
  // The rows of positions [start, start + rows.size()); checks its arguments.
  void draw(std::int64_t epoch, std::int64_t pass, std::int64_t start,
            std::span<std::int64_t> rows) const;

 protected:
  Draws(std::uint64_t num_rows, std::uint64_t epoch_length, std::uint64_t seed);

  std::uint64_t seed() const { return seed_; }

 private:
  virtual void fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
                    std::span<std::int64_t> rows) const = 0;

  std::uint64_t num_rows_;
  std::uint64_t epoch_length_;
  std::uint64_t seed_;
};

// Draw g = epoch * epoch_length + position of the run is row g mod P. Ignores seed and pass.
class SequentialDraws : public Draws {
 public:
  SequentialDraws(std::uint64_t num_rows, std::uint64_t epoch_length);

 private:
  void fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
            std::span<std::int64_t> rows) const override;
};

// Draw g of the run is place g mod P in a random permutation of its own for each cycle g div P and
// pass: every row once before any row again, whatever the epoch length.
class ShuffleDraws : public Draws {
 public:
  ShuffleDraws(std::uint64_t num_rows, std::uint64_t epoch_length, std::uint64_t seed);

 private:
  void fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
            std::span<std::int64_t> rows) const override;
};

// Independent draws with replacement, in proportion to the weights of the alias table; without a
// table (`columns` empty) all weights are equal.
class WeightedDraws : public Draws {
 public:
  WeightedDraws(std::uint64_t num_rows, std::uint64_t epoch_length, std::uint64_t seed,
                std::span<const AliasColumn> columns);

 private:
  void fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
            std::span<std::int64_t> rows) const override;

  std::span<const AliasColumn> columns_;
};

}  // namespace dsrt
