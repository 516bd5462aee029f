// last_value.h: the value of the key that was asked for last, made when the key changes.
//
// Threads    Any. Who asks while another thread makes a value waits for it, so it is made once.
// Ownership  Shared: a value lives on with whoever holds it after the key has changed.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace dsrt {

template <typename Key, typename Value>
class LastValue {
 public:
  template <typename Make>
  std::shared_ptr<const Value> get(const Key& key, Make make) {
    const std::lock_guard lock(mutex_);
    if (!value_ || !(key_ == key)) {
      value_.reset();  // frees the old value before the new one takes memory
      value_ = std::make_shared<const Value>(make());
      key_ = key;
    }
    return value_;
  }

 private:
  std::mutex mutex_;
  Key key_{};
  std::shared_ptr<const Value> value_;
};

}  // namespace dsrt
