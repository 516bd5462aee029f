#include "dsrt/mix_draws.h"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "dsrt/cycles.h"
#include "dsrt/philox.h"

namespace dsrt {

namespace {

std::uint64_t total_rows(const std::vector<const Draws*>& components) {
  std::uint64_t total = 0;
  for (const Draws* component : components) total += component->num_rows();
  return total;
}

}  // namespace

MixDraws::MixDraws(ClassShares shares, std::uint64_t seed, std::vector<const Draws*> components)
    : Draws(total_rows(components), shares.epoch_length(), seed),
      schedule_(std::move(shares), component_seed(seed, components.size())),
      components_(std::move(components)) {
  std::int64_t first_row = 0;
  for (const Draws* component : components_) {
    first_rows_.push_back(first_row);
    first_row += static_cast<std::int64_t>(component->num_rows());
  }
  if (components_.size() != schedule_.num_classes()) {
    throw std::invalid_argument("draws: the mix has " + std::to_string(components_.size()) +
                                " components but shares of " +
                                std::to_string(schedule_.num_classes()));
  }
}

std::uint64_t MixDraws::component_seed(std::uint64_t seed, std::uint64_t number) {
  return derive_key(derive_key(seed, Purpose::mix, 0, 0), number);
}

void MixDraws::fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
                    std::span<std::int64_t> rows) const {
  std::vector<ClassDraw> draws(rows.size());
  schedule_.fill(epoch, pass, start, draws);

  std::vector<std::int64_t> drawn;
  for_each_class(draws, [&](std::uint32_t number, std::uint64_t occurrence, auto indices) {
    const Draws& component = *components_[number];
    drawn.resize(indices.size());
    for_each_cycle(occurrence, component.epoch_length(), std::span(drawn),
                   [&](std::uint64_t own_epoch, std::uint64_t place, std::span<std::int64_t> part) {
                     component.draw(static_cast<std::int64_t>(own_epoch), pass,
                                    static_cast<std::int64_t>(place), part);
                   });
    for (std::size_t i = 0; i < indices.size(); ++i) {
      rows[indices[i]] = first_rows_[number] + drawn[i];
    }
  });
}

}  // namespace dsrt
