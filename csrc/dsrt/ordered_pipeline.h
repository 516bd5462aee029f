// ordered_pipeline.h: work on many items at once, results one by one in the order of submission.
//
//   submit(item) --> waiting items --> `threads` threads: work(thread, item)
//                                          --> one thread: deliver(item), first submitted first
//
// Ownership  Owns an item from submit() until deliver() takes it, and all of its threads.
// Threads    One thread at a time calls the public methods. work() runs on many threads at once,
//            each with its own number in [0, threads); deliver() runs on one.
// Memory     Counts the bytes of items not yet delivered; the caller waits while is_full().
// Order      deliver() sees the items in submission order, whatever was worked on first.
// Errors     The first exception stops all threads and is rethrown by every later call.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace dsrt {

template <typename Item>
class OrderedPipeline {
 public:
  using Work = std::function<void(int thread, Item& item)>;
  using Deliver = std::function<void(std::unique_ptr<Item> item)>;

  OrderedPipeline(int threads, std::size_t max_pending_bytes, Work work, Deliver deliver)
      : max_pending_bytes_(max_pending_bytes),
        work_(std::move(work)),
        deliver_(std::move(deliver)) {
    try {
      threads_.emplace_back([this] { run_guarded([this] { deliver_all(); }); });
      for (int thread = 0; thread < threads; ++thread) {
        threads_.emplace_back([this, thread] { run_guarded([&] { work_all(thread); }); });
      }
    } catch (...) {  // The system has no more threads: those that started must not outlive *this.
      stop();
      throw;
    }
  }

  ~OrderedPipeline() { stop(); }
  OrderedPipeline(const OrderedPipeline&) = delete;
  OrderedPipeline& operator=(const OrderedPipeline&) = delete;

  // More than `max_pending_bytes` wait, or a thread failed: the next call may block or throw.
  bool is_full() const {
    return pending_bytes_.load(std::memory_order_relaxed) > max_pending_bytes_ ||
           failed_.load(std::memory_order_relaxed);
  }

  // Blocks while is_full().
  void wait_for_room() {
    if (!is_full()) return;
    std::unique_lock lock(mutex_);
    delivered_.wait(lock, [this] { return failure_ || !is_full(); });
    rethrow_failure();
  }

  // Blocks at most for `patience`; returns whether wait_for_room() will not block.
  bool wait_for_room(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return delivered_.wait_for(lock, patience, [this] { return failure_ || !is_full(); });
  }

  // Never blocks. `bytes` is what the item counts for until it is delivered.
  void submit(std::unique_ptr<Item> item, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    rethrow_failure();
    slots_.push_back({std::move(item), bytes, false});
    pending_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    submitted_.notify_one();
  }

  // Blocks until every item was delivered.
  void drain() {
    std::unique_lock lock(mutex_);
    delivered_.wait(lock, [this] { return failure_ || slots_.empty(); });
    rethrow_failure();
  }

  // Blocks at most for `patience`; returns whether drain() will not block.
  bool drain(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return delivered_.wait_for(lock, patience, [this] { return failure_ || slots_.empty(); });
  }

  // Lets every thread end what it is at, drops the rest and joins. Idempotent.
  void stop() noexcept {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    slots_.clear();
  }

 private:
  struct Slot {
    std::unique_ptr<Item> item;
    std::size_t bytes;
    bool done;
  };

  void work_all(int thread) {
    std::unique_lock lock(mutex_);
    while (true) {
      submitted_.wait(lock, [this] { return stopping_ || num_taken_ < slots_.size(); });
      if (stopping_) return;
      Slot& slot = slots_[num_taken_++];  // A deque keeps references when its ends change.
      lock.unlock();
      work_(thread, *slot.item);
      lock.lock();
      slot.done = true;
      if (&slot == &slots_.front()) front_done_.notify_one();
    }
  }

  void deliver_all() {
    std::unique_lock lock(mutex_);
    while (true) {
      front_done_.wait(lock,
                       [this] { return stopping_ || (!slots_.empty() && slots_.front().done); });
      if (stopping_) return;
      std::unique_ptr<Item> item = std::move(slots_.front().item);
      lock.unlock();
      deliver_(std::move(item));
      lock.lock();
      pending_bytes_.fetch_sub(slots_.front().bytes, std::memory_order_relaxed);
      slots_.pop_front();
      --num_taken_;
      delivered_.notify_all();
    }
  }

  template <typename Loop>
  void run_guarded(Loop loop) noexcept {
    try {
      loop();
    } catch (...) {
      {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        failed_.store(true, std::memory_order_relaxed);
        stopping_ = true;
      }
      wake_all();
    }
  }

  void wake_all() noexcept {
    submitted_.notify_all();
    front_done_.notify_all();
    delivered_.notify_all();
  }

  void rethrow_failure() const {  // mutex_ is held.
    if (failure_) std::rethrow_exception(failure_);
  }

  const std::size_t max_pending_bytes_;
  const Work work_;
  const Deliver deliver_;

  std::mutex mutex_;  // Guards all below; the two atomics are also read without it, as hints.
  std::condition_variable submitted_, front_done_, delivered_;
  std::deque<Slot> slots_;  // Not yet delivered, oldest first; [0, num_taken_) are worked on.
  std::size_t num_taken_ = 0;
  bool stopping_ = false;
  std::exception_ptr failure_;
  std::atomic<std::size_t> pending_bytes_ = 0;
  std::atomic<bool> failed_ = false;

  std::vector<std::thread> threads_;  // Last, so that they start when all else exists.
};

}  // namespace dsrt
