#include "dsrt/shard_writer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <stdexcept>
#include <utility>

#include "dsrt/block_pool.h"
#include "dsrt/compression.h"
#include "dsrt/crc32c.h"
#include "dsrt/ordered_pipeline.h"

namespace dsrt {

namespace {

// Enough that handing a block from thread to thread costs nothing a record, and little enough that
// a block stays in a core's cache.
constexpr std::size_t block_bytes = std::size_t{256} << 10;
constexpr std::size_t max_alignment = 4096;  // A page: mapping a shard aligns no further.
constexpr int max_threads = 256;

void check_range(const char* option, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  if (value >= least && value <= most) return;
  throw std::invalid_argument("ShardWriter: " + std::string(option) + " is " +
                              std::to_string(value) + " but must be in [" + std::to_string(least) +
                              ", " + std::to_string(most) + "]");
}

const ShardWriterOptions& checked(const ShardWriterOptions& options) {
  constexpr std::uint64_t most = std::uint64_t{1} << 62;
  check_range("shard_bytes", options.shard_bytes, 1, most);
  check_range("max_pending_bytes", options.max_pending_bytes, 1, most);
  check_range("alignment", options.alignment, 1, max_alignment);
  if (!std::has_single_bit(options.alignment)) {
    throw std::invalid_argument("ShardWriter: alignment is " + std::to_string(options.alignment) +
                                " but must be a power of two");
  }
  if (options.threads < 1 || options.threads > max_threads) {
    throw std::invalid_argument("ShardWriter: threads is " + std::to_string(options.threads) +
                                " but must be in [1, " + std::to_string(max_threads) + "]");
  }
  if (!options.level && !options.dictionary.empty()) {
    throw std::invalid_argument("ShardWriter: a dictionary of " +
                                std::to_string(options.dictionary.size()) +
                                " bytes needs a compression level; give both or neither");
  }
  return options;
}

std::vector<Compressor> make_compressors(const ShardWriterOptions& options) {
  std::vector<Compressor> compressors;
  if (!options.level) return compressors;
  std::shared_ptr<const Dictionary> dictionary;
  if (!options.dictionary.empty()) {
    dictionary = std::make_shared<Dictionary>(options.dictionary, *options.level);
  }
  for (int i = 0; i < options.threads; ++i) compressors.emplace_back(*options.level, dictionary);
  return compressors;
}

}  // namespace

struct ShardWriter::State {
  State(const std::string& path, const ShardWriterOptions& options)
      : directory(path),
        process(::getpid()),
        compressors(make_compressors(checked(options))),
        pool(options.alignment, block_bytes, options.max_pending_bytes),
        filling(pool.take()),
        files(std::in_place, path, options.shard_bytes, options.alignment),
        pipeline(
            options.threads, options.max_pending_bytes,
            [this](int thread, Block& block) { pack(thread, block); },
            [this](std::unique_ptr<Block> block) { write(std::move(block)); }) {}

  // Claims the writer for one call.
  class Turn {
   public:
    Turn(State& state, const char* call) : state_(state) {
      if (state.busy.test_and_set(std::memory_order_acquire)) {
        throw std::logic_error("ShardWriter." + std::string(call) + ": " + state.directory +
                               " is in a call of another thread; use it from one at a time");
      }
    }
    ~Turn() { state_.busy.clear(std::memory_order_release); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    State& state_;
  };

  void require_open(const char* call) const {
    if (!closed) return;
    throw std::invalid_argument("ShardWriter." + std::string(call) + ": the writer of " +
                                directory + " is closed; make a new one");
  }

  void pack(int thread, Block& block) {
    RecordBlock& stored = compressors.empty() ? block.raw : block.packed;
    if (!compressors.empty()) {
      Compressor& compressor = compressors[static_cast<std::size_t>(thread)];
      for (const RecordBlock::Record& record : block.raw.records()) {
        const std::size_t room = Compressor::max_frame_bytes(record.bytes);
        stored.commit(compressor.compress(block.raw.bytes(record), {stored.reserve(room), room}));
      }
    }
    for (RecordBlock::Record& record : stored.records()) {
      record.crc32c = crc32c(stored.bytes(record));
    }
  }

  void write(std::unique_ptr<Block> block) {
    const RecordBlock& stored = compressors.empty() ? block->raw : block->packed;
    files->append(stored);
    std::uint64_t bytes = 0;
    for (const RecordBlock::Record& record : stored.records()) bytes += record.bytes;
    stored_bytes.fetch_add(bytes, std::memory_order_relaxed);
    pool.give(std::move(block));
  }

  // A forked child has the memory of this writer but none of its threads: it would wait forever.
  bool has_threads() const { return ::getpid() == process; }

  void require_threads() const {
    if (has_threads()) return;
    throw std::logic_error("ShardWriter: the writer of " + directory +
                           " was made before fork; make it in the process that uses it");
  }

  void submit() {
    require_threads();
    const std::size_t bytes = filling->raw.footprint();
    pipeline.submit(std::exchange(filling, pool.take()), bytes);
  }

  // Whether there is anybody to wait for; who calls otherwise will be told by append() or finish().
  bool can_wait() const { return !closed && has_threads(); }

  void close() {
    closed = true;
    pipeline.stop();  // Its threads use the files.
    files.reset();
  }

  const std::string directory;
  const pid_t process;
  std::atomic_flag busy;
  std::vector<Compressor> compressors;  // one a thread; none without compression
  BlockPool pool;
  std::unique_ptr<Block> filling;
  std::uint64_t max_record_bytes = 0;
  std::atomic<std::uint64_t> num_records = 0, raw_bytes = 0, stored_bytes = 0;
  std::optional<ShardFiles> files;  // The delivering thread's until the pipeline is drained.
  bool closed = false;
  OrderedPipeline<Block> pipeline;  // Last: its threads use all of the above.
};

ShardWriter::ShardWriter(const std::string& directory, const ShardWriterOptions& options)
    : state_(std::make_unique<State>(directory, options)) {}

ShardWriter::~ShardWriter() {
  // Threads and locks cannot be ended in a process that did not start them.
  if (!state_->has_threads()) (void)state_.release();
}

void ShardWriter::append(std::span<const std::span<const std::byte>> parts) {
  State& state = *state_;
  const State::Turn turn(state, "append");
  state.require_open("append");
  if (state.pipeline.is_full()) {
    state.require_threads();
    state.pipeline.wait_for_room();
  }

  std::size_t bytes = 0;
  for (const std::span<const std::byte> part : parts) bytes += part.size();
  RecordBlock& block = state.filling->raw;
  std::byte* end = block.reserve(bytes);
  for (const std::span<const std::byte> part : parts) end = std::ranges::copy(part, end).out;
  block.commit(bytes);

  state.max_record_bytes = std::max<std::uint64_t>(state.max_record_bytes, bytes);
  state.num_records.fetch_add(1, std::memory_order_relaxed);
  state.raw_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (block.footprint() >= block_bytes) state.submit();
}

bool ShardWriter::is_full() const { return state_->pipeline.is_full(); }

bool ShardWriter::wait_for_room(std::chrono::milliseconds patience) {
  return !state_->can_wait() || state_->pipeline.wait_for_room(patience);
}

bool ShardWriter::wait_until_written(std::chrono::milliseconds patience) {
  State& state = *state_;
  const State::Turn turn(state, "finish");
  if (!state.can_wait()) return true;
  if (!state.filling->raw.records().empty()) state.submit();
  return state.pipeline.drain(patience);
}

WriteSummary ShardWriter::finish() {
  State& state = *state_;
  const State::Turn turn(state, "finish");
  state.require_open("finish");
  state.require_threads();
  try {
    state.submit();
    state.pipeline.drain();
    WriteSummary summary = {state.num_records, state.raw_bytes, state.stored_bytes,
                            state.max_record_bytes, state.files->finish()};
    state.close();
    return summary;
  } catch (...) {
    state.close();
    throw;
  }
}

void ShardWriter::abort() {
  State& state = *state_;
  const State::Turn turn(state, "abort");
  if (state.closed) return;
  state.require_threads();
  state.close();
}

std::uint64_t ShardWriter::num_records() const { return state_->num_records; }
std::uint64_t ShardWriter::raw_bytes() const { return state_->raw_bytes; }
std::uint64_t ShardWriter::stored_bytes() const { return state_->stored_bytes; }

}  // namespace dsrt
