// lazy.h: a value made at its first use.
//
// Threads  get() may run on any thread and takes no lock, so a fork can never leave one held; where
//          two threads race, the work of one is dropped.
#pragma once

#include <atomic>
#include <memory>

namespace dsrt {

template <typename T>
class Lazy {
 public:
  Lazy() = default;
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;
  ~Lazy() { delete value_.load(std::memory_order_acquire); }

  // The value, or null while nobody has made it.
  const T* peek() const { return value_.load(std::memory_order_acquire); }

  // The value; `make()` returns it the first time. An exception of make() leaves nothing behind.
  template <typename Make>
  const T& get(Make make) const {
    if (const T* value = peek()) return *value;
    auto made = std::make_unique<const T>(make());
    const T* winner = nullptr;
    if (value_.compare_exchange_strong(winner, made.get(), std::memory_order_acq_rel)) {
      return *made.release();
    }
    return *winner;
  }

 private:
  mutable std::atomic<const T*> value_ = nullptr;
};

}  // namespace dsrt
