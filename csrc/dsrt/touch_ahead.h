// touch_ahead.h: the next records brought into the processor's caches while one is decoded.
//
//   the caller     decodes record 3, in Python
//   this thread    touches 4, 5, 6 ... until `window_bytes` ahead of the caller
//
// Who decodes in Python copies each record out of its map, at the speed at which one core waits
// for memory; out of a cache that another core has filled it is copied faster
// (docs/decisions/touch-ahead.md). Records stand in one endless row, and are named by their first
// byte's place in it.
//
// Ownership  Shares the ShardSet; owns its thread, which starts with the first records that are
//            worth it. Without a second processor, or a thread to be had, nothing is touched.
// Threads    One thread calls. It waits for nothing, and wakes the other once in half a window.
// Errors     None: a page that cannot be read is met again by who reads it.
// Fork       In a child nothing is touched, and destruction neither waits nor frees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dsrt/shard_set.h"

namespace dsrt {

class TouchAhead {
 public:
  // Small beside the last cache of most processors, and enough that both threads sleep seldom.
  static constexpr std::uint64_t window_bytes = std::uint64_t{2} << 20;

  explicit TouchAhead(std::shared_ptr<const ShardSet> shards);
  ~TouchAhead();
  TouchAhead(const TouchAhead&) = delete;
  TouchAhead& operator=(const TouchAhead&) = delete;

  // These records, in the maps, come after all others. Returns the place of the first.
  std::uint64_t add(std::span<const std::span<const std::byte>> records);
  // The caller reads the record at `place` now, and none before it any more.
  void at(std::uint64_t place);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dsrt
