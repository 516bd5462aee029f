// bounded_reader.h: ordered, bounded read-ahead of whole batches.
//
//   submit(batch) --> at most `max_batches` in flight --> reader threads --> next()
//
// All threads work on the oldest batch that has slices left, so the first one is early.
//
// Ownership  Owns its threads and every batch that was not taken.
// Threads    Any thread may call, one consumer at a time is meant. Reader threads never touch
//            Python. A waiting consumer and idle readers sleep.
// Memory     A batch is begun only while all undelivered ones, with it, stay within `max_bytes`,
//            or when the consumer waits for nothing else.
// Order      next() returns batches in submission order, whatever finishes first.
// Errors     A failed batch is rethrown by the next() whose turn it is; of several bad records, the
//            error of the earliest slice. Later batches stay readable.
// Fork       Threads do not survive a fork: in the child every call throws ForkedError at once,
//            and destruction neither waits nor frees.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>

#include "dsrt/batch.h"

namespace dsrt {

struct ReaderOptions {
  int threads = 2;
  std::size_t max_batches = 4;
  std::uint64_t max_bytes = std::uint64_t{256} << 20;
};

struct ReaderStats {
  std::uint64_t batches = 0;  // delivered
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::uint64_t wait_ns = 0;      // the consumer's, in next()
  std::uint64_t read_ns = 0;      // summed over the threads
  std::uint64_t finished_ns = 0;  // when the batch last taken was finished, by the steady clock
};

class ForkedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class BoundedReader {
 public:
  // Throws std::invalid_argument if an option is not positive.
  BoundedReader(std::shared_ptr<const ShardSet> shards, const ReaderOptions& options);
  ~BoundedReader();
  BoundedReader(const BoundedReader&) = delete;
  BoundedReader& operator=(const BoundedReader&) = delete;

  // Takes a batch to read; never waits. Throws std::invalid_argument beyond max_batches.
  void submit(std::unique_ptr<Batch> batch);
  // The oldest batch, or null if it is not finished within `patience`. Throws
  // std::invalid_argument if none was submitted.
  std::unique_ptr<Batch> next(std::chrono::milliseconds patience);

  // Calls `look` with the batch that next() will return, if that is known; readers wait meanwhile.
  void peek(const std::function<void(const Batch&)>& look) const;

  std::size_t pending() const;  // submitted and not yet taken
  bool can_submit() const;
  ReaderStats stats() const;

  // Stops the threads after their present slice, joins them and drops all batches. Idempotent.
  void close();

 private:
  struct State;
  State& state() const;  // throws if forked or closed

  std::unique_ptr<State> state_;
};

}  // namespace dsrt
