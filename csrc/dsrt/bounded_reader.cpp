#include "dsrt/bounded_reader.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dsrt/map_guard.h"
#include "dsrt/signals_blocked.h"

namespace dsrt {

namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t nanoseconds_between(Clock::time_point start, Clock::time_point end) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count());
}

std::uint64_t nanoseconds_since(Clock::time_point start) {
  return nanoseconds_between(start, Clock::now());
}

// A batch in flight. Its stage is first prepared by one thread, then its slices are handed out.
struct Entry {
  std::unique_ptr<Batch> batch;
  std::size_t stage = 0;
  bool is_prepared = false;  // this stage
  bool is_done = false;
  std::size_t next_record = 0;   // first one not handed out in this stage
  std::size_t num_running = 0;   // threads at work on it
  std::uint64_t held_bytes = 0;  // counted against max_bytes
  Clock::time_point finished;
  std::exception_ptr error;
  std::size_t error_record = 0;  // where the slice of `error` begins
};

// What a thread does next: prepare the stage, or work on a slice of it.
struct Task {
  Entry* entry;
  bool is_prepare;
  std::size_t begin;
  std::size_t end;
};

}  // namespace

struct BoundedReader::State {
  const std::shared_ptr<const ShardSet> shards;
  const ReaderOptions options;
  const pid_t owner = ::getpid();

  mutable std::mutex mutex;
  std::condition_variable work_ready;         // for idle reader threads
  std::condition_variable batch_ready;        // for the consumer
  std::deque<std::unique_ptr<Entry>> window;  // oldest first
  std::uint64_t held_bytes = 0;
  int num_idle = 0;
  bool is_closed = false;
  ReaderStats stats;
  std::vector<std::thread> threads;

  State(std::shared_ptr<const ShardSet> opened, const ReaderOptions& chosen)
      : shards(std::move(opened)), options(chosen) {}

  void read_until_closed();
  std::optional<Task> next_task();
  void finish(const Task& task, std::exception_ptr error);
  void count_bytes(Entry& entry);
  void wake(std::size_t num_tasks);
  void close();
};

void BoundedReader::State::read_until_closed() {
  RecordReader reader(shards);
  std::unique_lock lock(mutex);
  while (!is_closed) {
    const std::optional<Task> task = next_task();
    if (!task) {
      ++num_idle;
      work_ready.wait(lock);
      --num_idle;
      continue;
    }
    lock.unlock();
    const auto start = Clock::now();
    std::exception_ptr error;
    try {
      Batch& batch = *task->entry->batch;
      if (task->is_prepare) {
        if (task->entry->stage == 0) batch.read_ahead(reader);
        batch.prepare(task->entry->stage, reader);
      } else {
        batch.run(task->entry->stage, task->begin, task->end, reader);
      }
    } catch (...) {
      error = std::current_exception();
    }
    const std::uint64_t busy_ns = nanoseconds_since(start);
    lock.lock();
    stats.read_ns += busy_ns;
    finish(*task, std::move(error));
    if (window.empty() || !window.front()->is_done) continue;
    // Where every processor reads, the scheduler lets the consumer wait for milliseconds.
    lock.unlock();
    batch_ready.notify_all();
    std::this_thread::yield();
    lock.lock();
  }
}

std::optional<Task> BoundedReader::State::next_task() {
  for (const std::unique_ptr<Entry>& entry : window) {
    if (entry->is_done || entry->error) continue;
    if (!entry->is_prepared) {
      if (entry->num_running > 0) continue;
      const bool is_begun = entry->stage > 0;
      const bool is_head = entry == window.front();
      const std::uint64_t bytes = entry->batch->bytes();
      const bool fits = bytes <= options.max_bytes && held_bytes <= options.max_bytes - bytes;
      if (!is_begun && !is_head && !fits) return std::nullopt;
      count_bytes(*entry);
      ++entry->num_running;
      return Task{entry.get(), true, 0, 0};
    }
    const std::size_t begin = entry->next_record;
    if (begin == entry->batch->num_records()) continue;
    const std::size_t left = entry->batch->num_records() - begin;
    entry->next_record += std::min(left, entry->batch->records_per_slice());
    ++entry->num_running;
    return Task{entry.get(), false, begin, entry->next_record};
  }
  return std::nullopt;
}

void BoundedReader::State::finish(const Task& task, std::exception_ptr error) {
  Entry& entry = *task.entry;
  --entry.num_running;
  if (error && (!entry.error || task.begin < entry.error_record)) {
    entry.error = std::move(error);
    entry.error_record = task.begin;
  }
  if (task.is_prepare) {
    entry.is_prepared = true;
    entry.next_record = 0;
    count_bytes(entry);
    wake(entry.batch->num_slices());
  }
  if (entry.num_running > 0) return;
  if (!entry.error && entry.next_record < entry.batch->num_records()) return;
  if (!entry.error && entry.stage + 1 < entry.batch->num_stages()) {
    ++entry.stage;
    entry.is_prepared = false;
    return;
  }
  entry.is_done = true;
  entry.finished = Clock::now();
  count_bytes(entry);
}

void BoundedReader::State::count_bytes(Entry& entry) {
  held_bytes -= entry.held_bytes;
  entry.held_bytes = entry.batch->bytes();
  held_bytes += entry.held_bytes;
}

void BoundedReader::State::wake(std::size_t num_tasks) {
  // The thread that calls this takes the first task itself.
  if (num_idle > 0 && num_tasks > 1) work_ready.notify_all();
}

void BoundedReader::State::close() {
  std::vector<std::thread> ending;
  {
    const std::lock_guard lock(mutex);
    is_closed = true;
    ending.swap(threads);
  }
  work_ready.notify_all();
  batch_ready.notify_all();
  for (std::thread& thread : ending) thread.join();
  const std::lock_guard lock(mutex);
  window.clear();
  held_bytes = 0;
}

BoundedReader::BoundedReader(std::shared_ptr<const ShardSet> shards, const ReaderOptions& options) {
  if (options.threads < 1 || options.max_batches < 1 || options.max_bytes < 1) {
    throw std::invalid_argument("threads is " + std::to_string(options.threads) +
                                ", max_batches is " + std::to_string(options.max_batches) +
                                ", max_bytes is " + std::to_string(options.max_bytes) +
                                "; each must be at least 1");
  }
  state_ = std::make_unique<State>(std::move(shards), options);
  const SignalsBlocked blocked;
  try {
    for (int i = 0; i < options.threads; ++i) {
      state_->threads.emplace_back([state = state_.get()] { state->read_until_closed(); });
      pthread_setname_np(state_->threads.back().native_handle(), "dsrt-reader");
    }
  } catch (...) {
    state_->close();
    throw;
  }
}

BoundedReader::~BoundedReader() {
  if (::getpid() == state_->owner) {
    state_->close();
  } else {
    // Its threads and perhaps the holder of its lock are in the parent: waiting for them would be
    // forever, so the child's copy is left as it is.
    static_cast<void>(state_.release());
  }
}

BoundedReader::State& BoundedReader::state() const {
  if (::getpid() == state_->owner) return *state_;
  throw ForkedError(
      "the reader was opened before a fork, which its threads did not survive; "
      "open it in the worker, or start workers with spawn or forkserver");
}

void BoundedReader::submit(std::unique_ptr<Batch> batch) {
  State& at = state();
  ensure_map_guard();
  auto entry = std::make_unique<Entry>();
  entry->batch = std::move(batch);
  const std::lock_guard lock(at.mutex);
  if (at.is_closed) throw std::invalid_argument("the reader is closed");
  if (at.window.size() >= at.options.max_batches) {
    throw std::invalid_argument(std::to_string(at.window.size()) +
                                " batches are pending and max_batches is " +
                                std::to_string(at.options.max_batches) + "; take one first");
  }
  at.window.push_back(std::move(entry));
  if (at.num_idle > 0) at.work_ready.notify_one();
}

std::unique_ptr<Batch> BoundedReader::next(std::chrono::milliseconds patience) {
  State& at = state();
  std::unique_lock lock(at.mutex);
  if (!at.is_closed && at.window.empty()) {
    throw std::invalid_argument("no batch is pending; submit one first");
  }
  const auto start = Clock::now();
  const bool is_ready = at.batch_ready.wait_for(lock, patience, [&] {
    return at.is_closed || at.window.empty() || at.window.front()->is_done;
  });
  at.stats.wait_ns += nanoseconds_since(start);
  if (at.is_closed) throw std::invalid_argument("the reader is closed");
  if (!is_ready || at.window.empty()) return nullptr;
  const std::unique_ptr<Entry> head = std::move(at.window.front());
  at.window.pop_front();
  at.held_bytes -= head->held_bytes;
  if (at.num_idle > 0) at.work_ready.notify_one();
  if (head->error) std::rethrow_exception(head->error);
  ++at.stats.batches;
  at.stats.records += head->batch->num_records();
  at.stats.bytes += head->held_bytes;
  at.stats.finished_ns = nanoseconds_between({}, head->finished);
  return std::move(head->batch);
}

void BoundedReader::peek(const std::function<void(const Batch&)>& look) const {
  const State& at = state();
  const std::lock_guard lock(at.mutex);
  if (at.window.empty() || !at.window.front()->is_done || at.window.front()->error) return;
  look(*at.window.front()->batch);
}

std::size_t BoundedReader::pending() const {
  State& at = state();
  const std::lock_guard lock(at.mutex);
  return at.window.size();
}

bool BoundedReader::can_submit() const { return pending() < state().options.max_batches; }

ReaderStats BoundedReader::stats() const {
  State& at = state();
  const std::lock_guard lock(at.mutex);
  return at.stats;
}

void BoundedReader::close() {
  if (::getpid() == state_->owner) state_->close();
}

}  // namespace dsrt
