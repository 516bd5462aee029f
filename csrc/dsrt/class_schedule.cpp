#include "dsrt/class_schedule.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "dsrt/philox.h"

namespace dsrt {

namespace {

constexpr std::uint64_t golden_ratio = 0x9E3779B97F4A7C15;  // its fraction, in units of 2^-64

void require(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument("class shares: " + what);
}

std::uint64_t sum(const std::vector<std::uint64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
}

// The next number from golden_ratio * size on that shares no factor with size.
std::uint64_t golden_stride(std::uint64_t size) {
  std::uint64_t stride = std::max<std::uint64_t>(1, multiply_high(golden_ratio, size));
  while (std::gcd(stride, size) != 1) ++stride;
  return stride;
}

template <typename Value>
void shuffle(std::span<Value> values, std::uint64_t key) {
  for (std::uint64_t i = values.size(); i-- > 1;) {
    std::swap(values[i], values[multiply_high(philox(i, 0, key)[0], i + 1)]);
  }
}

// The sum of floor((a * i + b) / m) over i in [0, n), as Euclid would: O(log m).
template <typename Unsigned>
std::uint64_t floor_sum(Unsigned n, Unsigned m, Unsigned a, Unsigned b) {
  Unsigned result = 0;
  while (true) {
    result += n * (n - 1) / 2 * (a / m) + n * (b / m);
    a %= m;
    b %= m;
    const Unsigned top = a * n + b;
    if (top < m) return static_cast<std::uint64_t>(result);
    n = top / m;
    b = top % m;
    std::swap(m, a);
  }
}

}  // namespace

ClassSchedule::ClassSchedule(ClassShares shares, std::uint64_t seed)
    : shares_(std::move(shares)), seed_(seed) {
  const auto& [batch, batches, base, extra, tail] = shares_;
  require(!base.empty() && base.size() == extra.size() && base.size() == tail.size() &&
              base.size() <= std::uint64_t{1} << 32,
          "give base, extra and tail for each class, at most 2^32");
  require(batch >= 1 && batches <= (std::uint64_t{1} << 63) / batch,
          "the global batch is " + std::to_string(batch) + " of " + std::to_string(batches) +
              " batches but they must hold at least 1 and at most 2^63 draws");
  line_.resize(extra.size() + 1);
  for (std::size_t c = 0; c < extra.size(); ++c) {
    require(extra[c] <= batches, "class " + std::to_string(c) + " has extras in " +
                                     std::to_string(extra[c]) + " of " + std::to_string(batches) +
                                     " batches");
    line_[c + 1] = line_[c] + extra[c];
  }
  extras_per_batch_ = batches == 0 ? 0 : line_.back() / batches;
  require(batches == 0 || (line_.back() % batches == 0 && sum(base) + extras_per_batch_ == batch),
          "a batch of " + std::to_string(batch) + " is not " + std::to_string(sum(base)) +
              " places and " + std::to_string(line_.back()) + " extras over " +
              std::to_string(batches) + " batches");
  require(sum(tail) < batch, "the tail has " + std::to_string(sum(tail)) +
                                 " places, no less than a batch of " + std::to_string(batch));

  const auto num_extra =
      static_cast<std::uint64_t>(std::ranges::count_if(extra, [](auto n) { return n > 0; }));
  stride_ = golden_stride(std::max<std::uint64_t>(1, batches));
  batches_per_block_ =
      extras_per_batch_ == 0
          ? 1
          : std::max<std::uint64_t>(8, 2 * ((num_extra - 1) / extras_per_batch_ + 1));
  for (std::size_t c = 0; c < base.size(); ++c) {
    const auto number = static_cast<std::uint32_t>(c);
    if (batches > 0) base_places_.insert(base_places_.end(), base[c], number);
    tail_places_.insert(tail_places_.end(), tail[c], number);
  }
}

void ClassSchedule::fill(std::uint32_t epoch, std::uint32_t pass, std::uint64_t start,
                         std::span<ClassDraw> draws) const {
  while (!draws.empty()) {
    const std::uint64_t skip = start % shares_.global_batch;
    const std::span part =
        draws.first(std::min<std::uint64_t>(draws.size(), shares_.global_batch - skip));
    fill_batch(epoch, pass, start / shares_.global_batch, skip, part);
    start += part.size();
    draws = draws.subspan(part.size());
  }
}

std::uint64_t ClassSchedule::shift(std::uint32_t epoch, std::uint32_t pass) const {
  return multiply_high(derive_key(seed_, Purpose::quota_shift, epoch, pass),
                       shares_.num_full_batches);
}

std::uint64_t ClassSchedule::extras_before(std::uint32_t number, std::uint64_t batches,
                                           std::uint64_t shift) const {
  // Counts i in [0, batches) with (stride * i + from) mod G < extra.
  const std::uint64_t size = shares_.num_full_batches;
  const std::uint64_t extra = shares_.extra[number];
  if (extra == 0 || extra == size) return extra == 0 ? 0 : batches;
  const std::uint64_t from = (shift + size - line_[number] % size) % size;
  const auto count = [&]<typename Unsigned>(Unsigned n) {
    return floor_sum<Unsigned>(n, size, stride_, Unsigned{from} + size) -
           floor_sum<Unsigned>(n, size, stride_, Unsigned{from} + size - extra);
  };
  return size < std::uint64_t{1} << 31 ? count(batches) : count(uint128{batches});
}

ClassSchedule::Block ClassSchedule::make_block(const BlockKey& key) const {
  const std::uint64_t size = shares_.num_full_batches;
  const std::uint64_t first = key.block * batches_per_block_;
  const std::uint64_t num_batches = std::min(batches_per_block_, size - first);

  Block block;
  block.begins.resize(num_classes() + 1);
  for (std::uint64_t batch = first; batch < first + num_batches; ++batch) {
    const auto turn =
        static_cast<std::uint64_t>((uint128{stride_} * batch + shift(key.epoch, key.pass)) % size);
    for (std::uint64_t i = 0; i < extras_per_batch_; ++i) {
      const auto behind = std::ranges::upper_bound(line_, turn + i * size);
      ++block.begins[static_cast<std::size_t>(behind - line_.begin())];
    }
  }
  std::vector<std::uint32_t> classes;
  for (std::uint32_t number = 0; number < num_classes(); ++number) {
    if (block.begins[number + 1] > 0) classes.push_back(number);
  }
  std::partial_sum(block.begins.begin(), block.begins.end(), block.begins.begin());

  const std::uint64_t block_key =
      derive_key(derive_key(seed_, Purpose::quota_classes, key.epoch, key.pass), key.block);
  std::vector<std::uint32_t> order = classes;
  shuffle(std::span(order), block_key);
  std::vector<std::uint32_t> turns(num_batches);
  std::iota(turns.begin(), turns.end(), 0);
  shuffle(std::span(turns), derive_key(block_key, 0));
  block.batches.resize(block.begins.back());
  std::size_t slot = 0;
  for (const std::uint32_t number : order) {
    for (std::uint32_t& batch : block.batches_of(number)) batch = turns[slot++ % num_batches];
  }

  block.numbers.resize(block.batches.size());
  std::vector<std::size_t> ends(num_batches);
  for (std::uint64_t batch = 0; batch < num_batches; ++batch)
    ends[batch] = batch * extras_per_batch_;
  for (const std::uint32_t number : classes) {
    for (const std::uint32_t batch : block.batches_of(number))
      block.numbers[ends[batch]++] = number;
  }
  return block;
}

void ClassSchedule::fill_batch(std::uint32_t epoch, std::uint32_t pass, std::uint64_t batch,
                               std::uint64_t skip, std::span<ClassDraw> draws) const {
  const bool is_tail = batch == shares_.num_full_batches;
  std::shared_ptr<const Block> block;
  std::uint32_t batch_in_block = 0;
  std::vector<std::uint32_t> numbers = is_tail ? tail_places_ : base_places_;
  if (!is_tail && extras_per_batch_ > 0) {
    const BlockKey key{epoch, pass, batch / batches_per_block_};
    block = block_.get(key, [&] { return make_block(key); });
    batch_in_block = static_cast<std::uint32_t>(batch % batches_per_block_);
    const auto added =
        std::span(block->numbers).subspan(batch_in_block * extras_per_batch_, extras_per_batch_);
    numbers.resize(shares_.global_batch);
    std::ranges::merge(base_places_, added, numbers.begin());
  }

  // A place stands for its class by the first place of that class before the shuffle.
  std::vector<std::uint32_t> places(numbers.size());
  for (std::size_t i = 1; i < places.size(); ++i) {
    places[i] = numbers[i] == numbers[i - 1] ? places[i - 1] : static_cast<std::uint32_t>(i);
  }
  shuffle(std::span(places),
          derive_key(derive_key(seed_, Purpose::quota_batch, epoch, pass), batch));

  std::vector<std::uint64_t> seen(places.size());
  for (std::uint64_t i = 0; i < skip; ++i) ++seen[places[i]];

  const auto draws_before_batch = [&](std::uint32_t number) {
    std::uint64_t before = epoch * shares_.draws_per_epoch(number) + batch * shares_.base[number];
    if (is_tail) return before + shares_.extra[number];
    if (!block) return before;
    const auto is_earlier = [&](std::uint32_t other) { return other < batch_in_block; };
    before +=
        static_cast<std::uint64_t>(std::ranges::count_if(block->batches_of(number), is_earlier));
    return before + extras_before(number, batch - batch_in_block, shift(epoch, pass));
  };
  std::vector<std::uint64_t> before(places.size());
  std::vector<bool> known(places.size());
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const std::uint32_t place = places[skip + i];
    if (!known[place]) before[place] = draws_before_batch(numbers[place]);
    known[place] = true;
    draws[i] = {numbers[place], before[place] + seen[place]++};
  }
}

}  // namespace dsrt
