// class_schedule.h: which class each position draws, so that every global batch and every epoch
// holds each class's share to within one draw. *Part of the format of draws.*
//
// An epoch is G full batches of B positions and a tail of less than B. Class c has base[c] places
// in each full batch, one more in extra[c] of the G, and tail[c] places in the tail.
//
//   Top     The extras of all classes, in the order of the classes, are slots 0, 1, ... of a line.
//           Batch g takes the m = sum(extra) / G slots j with j mod G = (stride * g + shift) mod G.
//           No class has more than G slots, so no batch gets two of one class; and since stride / G
//           is near the golden ratio, a class's extras are spread evenly over the epoch.
//   Blocks  By the top line alone the same classes would always come together. So the batches of a
//           block exchange their extras: their classes, in a random order, form a line of their
//           own, of which each of its n batches takes the slots j with j mod n = i, another i each.
//           A block is max(8, 2 * ceil(classes with extras / m)) batches, the last one maybe less.
//   Batch   The places of a batch are shuffled.
//
// Draws of a class are numbered in the order of positions, through all epochs. Finding a position
// costs O(B + number of classes with extras); consecutive batches share most of it.
//
// Threads    All const methods may be called from any number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "dsrt/last_value.h"

namespace dsrt {

struct ClassShares {
  std::uint64_t global_batch;      // B >= 1
  std::uint64_t num_full_batches;  // G
  // One number a class.
  std::vector<std::uint64_t> base;
  std::vector<std::uint64_t> extra;
  std::vector<std::uint64_t> tail;

  std::uint64_t epoch_length() const {
    return std::accumulate(tail.begin(), tail.end(), global_batch * num_full_batches);
  }
  // Draws of a class in every epoch.
  std::uint64_t draws_per_epoch(std::size_t number) const {
    return num_full_batches * base[number] + extra[number] + tail[number];
  }
};

struct ClassDraw {
  std::uint32_t number;      // of the class
  std::uint64_t occurrence;  // how many draws of the class come before, in all epochs
};

class ClassSchedule {
 public:
  // Throws std::invalid_argument unless the numbers fit together.
  ClassSchedule(ClassShares shares, std::uint64_t seed);

  const ClassShares& shares() const { return shares_; }
  std::size_t num_classes() const { return shares_.base.size(); }
  // The draws of positions [start, start + draws.size()), which must lie in the epoch.
  void fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
            std::span<ClassDraw> draws) const;

 private:
  // The extras of a block of batches. Its batches are counted from its first.
  struct Block {
    std::vector<std::uint32_t> begins;   // of each class's part of `batches`, and the end
    std::vector<std::uint32_t> batches;  // that hold an extra of class 0, of class 1, ...
    std::vector<std::uint32_t> numbers;  // of the classes of batch 0, of batch 1, ..., ascending

    std::span<std::uint32_t> batches_of(std::uint32_t number) {
      return std::span(batches).subspan(begins[number], begins[number + 1] - begins[number]);
    }
    std::span<const std::uint32_t> batches_of(std::uint32_t number) const {
      return std::span(batches).subspan(begins[number], begins[number + 1] - begins[number]);
    }
  };
  struct BlockKey {
    std::uint32_t epoch, pass;
    std::uint64_t block;

    bool operator==(const BlockKey&) const = default;
  };

  Block make_block(const BlockKey& key) const;
  std::uint64_t shift(std::uint32_t epoch, std::uint32_t pass) const;
  // Extras of a class in the first `batches` batches, by the top line alone.
  std::uint64_t extras_before(std::uint32_t number, std::uint64_t batches,
                              std::uint64_t shift) const;
  // The draws of places [skip, skip + draws.size()) of a batch; batch G is the tail.
  void fill_batch(std::uint32_t epoch, std::uint32_t pass, std::uint64_t batch, std::uint64_t skip,
                  std::span<ClassDraw> draws) const;

  ClassShares shares_;
  std::uint64_t seed_;
  std::uint64_t extras_per_batch_;
  std::uint64_t stride_;
  std::uint64_t batches_per_block_;
  std::vector<std::uint64_t> line_;         // slots of the top line before each class, and in all
  std::vector<std::uint32_t> base_places_;  // classes of a full batch without its extras
  std::vector<std::uint32_t> tail_places_;
  mutable LastValue<BlockKey, Block> block_;
};

// Calls visit(number, occurrence of its first draw, indices into `draws`) for each class in
// `draws`, which are of consecutive positions, so that the class's further occurrences follow the
// first.
template <typename Visit>
void for_each_class(std::span<const ClassDraw> draws, Visit visit) {
  std::vector<std::uint32_t> indices(draws.size());
  std::iota(indices.begin(), indices.end(), 0);
  std::ranges::stable_sort(indices, {}, [&](std::uint32_t i) { return draws[i].number; });
  for (std::span<const std::uint32_t> left = indices; !left.empty();) {
    const ClassDraw& first = draws[left.front()];
    const auto is_other = [&](std::uint32_t i) { return draws[i].number != first.number; };
    const auto end = std::ranges::find_if(left, is_other);
    const std::span own = left.first(static_cast<std::size_t>(end - left.begin()));
    visit(first.number, first.occurrence, own);
    left = left.subspan(own.size());
  }
}

}  // namespace dsrt
