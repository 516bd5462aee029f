#include "dsrt/touch_ahead.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "dsrt/map_guard.h"
#include "dsrt/signals_blocked.h"

namespace dsrt {

namespace {

// Smaller records are decoded before another thread has got to them.
constexpr std::size_t least_record_bytes = std::size_t{16} << 10;

// After each of these a touched record is left if nobody waits for the rest.
constexpr std::size_t step_bytes = std::size_t{16} << 10;
constexpr std::size_t line_bytes = 64;

constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

struct Ahead {
  std::span<const std::byte> record;
  std::uint64_t place;
};

}  // namespace

struct TouchAhead::State {
  explicit State(std::shared_ptr<const ShardSet> owned) : shards(std::move(owned)) {}

  void start() {
    if (thread.joinable() || is_useless) return;
    const SignalsBlocked blocked;
    try {
      thread = std::thread([this] { run(); });
      pthread_setname_np(thread.native_handle(), "dsrt-toucher");
    } catch (const std::system_error&) {
      is_useless = true;
    }
  }

  void run() {
    std::unique_lock lock(mutex);
    while (!is_stopped) {
      if (ahead.empty()) {
        wake.wait(lock);
        continue;
      }
      const Ahead next = ahead.front();
      if (!is_reached(next) && !is_near(next)) {
        sleep_until(lock, next.place - window_bytes / 2);
        continue;
      }
      ahead.pop_front();
      lock.unlock();
      static_cast<void>(read_guarded([&] { touch(next); }));
      lock.lock();
    }
  }

  // Wakes up when the caller is at `place`, and for what add() and the destructor notify.
  void sleep_until(std::unique_lock<std::mutex>& lock, std::uint64_t place) {
    wake_at = place;
    // Both sequentially consistent: either the caller sees that, or this sees where it is.
    if (position.load() < place) wake.wait(lock);
    wake_at = never;
  }

  void touch(const Ahead& next) const {
    for (std::size_t step = 0; step < next.record.size(); step += step_bytes) {
      if (is_reached(next) || is_stopped.load(std::memory_order_relaxed)) return;
      const std::size_t end = std::min(next.record.size(), step + step_bytes);
      for (std::size_t i = step; i < end; i += line_bytes) {
        static_cast<void>(*static_cast<const volatile std::byte*>(next.record.data() + i));
      }
    }
  }

  bool is_reached(const Ahead& next) const { return position.load() >= next.place; }
  bool is_near(const Ahead& next) const { return position.load() + window_bytes >= next.place; }

  const std::shared_ptr<const ShardSet> shards;  // keeps the maps
  const pid_t owner = ::getpid();
  std::uint64_t row_end = 1;  // no record is at 0, where the caller begins
  bool is_useless = std::thread::hardware_concurrency() < 2;
  std::thread thread;

  std::atomic<std::uint64_t> position = 0;     // the caller's
  std::atomic<std::uint64_t> wake_at = never;  // the position that the thread sleeps until
  std::atomic<bool> is_stopped = false;

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<Ahead> ahead;  // neither touched nor passed over
};

TouchAhead::TouchAhead(std::shared_ptr<const ShardSet> shards)
    : state_(std::make_unique<State>(std::move(shards))) {}

TouchAhead::~TouchAhead() {
  if (::getpid() != state_->owner) {  // Its thread is in the parent, as perhaps its lock's holder.
    static_cast<void>(state_.release());
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_stopped = true;
  }
  state_->wake.notify_one();
  if (state_->thread.joinable()) state_->thread.join();
}

std::uint64_t TouchAhead::add(std::span<const std::span<const std::byte>> records) {
  State& state = *state_;
  const std::uint64_t begin = state.row_end;
  for (const std::span<const std::byte> record : records) state.row_end += record.size();
  const std::uint64_t bytes = state.row_end - begin;
  if (bytes < records.size() * least_record_bytes || ::getpid() != state.owner) return begin;
  state.start();
  if (state.is_useless) return begin;
  {
    const std::lock_guard lock(state.mutex);
    std::uint64_t place = begin;
    for (const std::span<const std::byte> record : records) {
      state.ahead.push_back({record, place});
      place += record.size();
    }
  }
  state.wake.notify_one();
  return begin;
}

void TouchAhead::at(std::uint64_t place) {
  State& state = *state_;
  state.position = place;
  std::uint64_t wake_at = state.wake_at;
  if (place < wake_at || ::getpid() != state.owner) return;
  state.wake_at.compare_exchange_strong(wake_at, never);
  { const std::lock_guard lock(state.mutex); }  // The thread sleeps by now, or looks again.
  state.wake.notify_one();
}

}  // namespace dsrt
