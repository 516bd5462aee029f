// mix_draws.h: several draws as one, each by its share of every global batch.
//
// A ClassSchedule says which component a position draws from. Each component is drawn from its
// first position on, without gaps, through its own epochs: its n-th draw in the mix is position
// n mod L of its epoch n div L, where L is its own epoch length. Row r of component c is row
// num_rows(0) + ... + num_rows(c - 1) + r of the mix.
//
// Ownership  Components are borrowed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dsrt/class_schedule.h"
#include "dsrt/draws.h"

namespace dsrt {

class MixDraws : public Draws {
 public:
  MixDraws(ClassShares shares, std::uint64_t seed, std::vector<const Draws*> components);

  // The seed for a component, so that even equal components draw independently.
  static std::uint64_t component_seed(std::uint64_t seed, std::uint64_t number);

 private:
  void fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
            std::span<std::int64_t> rows) const override;

  ClassSchedule schedule_;
  std::vector<const Draws*> components_;
  std::vector<std::int64_t> first_rows_;
};

}  // namespace dsrt
