#include "dsrt/record_reader.h"

#include <string>

#include "dsrt/crc32c.h"
#include "dsrt/error.h"

namespace dsrt {

namespace {

constexpr std::size_t page_bytes = 4096;

// zstd's densest block holds 128 KiB in 4 bytes; no honest frame unfolds further.
constexpr std::uint64_t max_expansion = (std::uint64_t{128} << 10) / 4;

// Runs `work`, whose CorruptError lacks its beginning: the name of a record, which is not worth
// composing for records that are sound.
template <typename Work>
auto named(const ShardSet& shards, const Record& record, Work work) {
  try {
    return work();
  } catch (const CorruptError& error) {
    throw CorruptError(shards.name(record) + error.what());
  }
}

}  // namespace

RecordReader::RecordReader(std::shared_ptr<const ShardSet> shards) : shards_(std::move(shards)) {}

void RecordReader::verify_in_place(const Record& record) const {
  if (shards_->must_check(record)) {
    shards_->check(record, crc32c(record.stored()));
    return;
  }
  for (std::uint64_t at = 0; at < record.stored_bytes; at += page_bytes) {
    static_cast<void>(*static_cast<const volatile std::byte*>(record.data + at));
  }
}

void RecordReader::append_frame(const Record& record, std::vector<std::byte>& frames) const {
  const std::size_t before = frames.size();
  frames.resize(before + record.stored_bytes);
  const std::span<std::byte> copy = std::span(frames).subspan(before);
  std::copy_n(record.data, record.stored_bytes, copy.data());
  if (shards_->must_check(record)) shards_->check(record, crc32c(copy));
}

std::uint64_t RecordReader::raw_bytes(const Record& record,
                                      std::span<const std::byte> frame) const {
  const std::uint64_t most = shards_->files(record.cache).max_record_bytes;
  return named(*shards_, record, [&] {
    const std::uint64_t bytes = Decompressor::raw_bytes(frame, most, "");
    if (bytes / max_expansion > frame.size()) {
      throw CorruptError(" claims " + std::to_string(bytes) + " bytes in a frame of " +
                         std::to_string(frame.size()) + "; restore or rebuild the cache");
    }
    return bytes;
  });
}

void RecordReader::decompress(const Record& record, std::span<const std::byte> frame,
                              std::span<std::byte> raw) {
  if (!decompressor_ || record.cache != decompressor_cache_) {
    if (!decompressor_) decompressor_.emplace();
    decompressor_->use(shards_->dictionary(record.cache));
    decompressor_cache_ = record.cache;
  }
  named(*shards_, record, [&] { decompressor_->decompress(frame, raw, ""); });
}

RawRecords RecordReader::read(std::span<const std::int64_t> rows, BufferPool& pool) {
  struct Frame {
    std::size_t position;  // in `rows`
    Record record;
    bool is_copied;
    std::span<const std::byte> bytes;
    std::size_t raw_bytes;
    std::size_t offset;  // of the raw bytes in the result's block
  };
  RawRecords result;
  result.bytes.resize(rows.size());
  std::vector<Frame> frames;
  std::vector<std::byte> copies;
  visit(rows, [&](std::size_t i, const Record& record) {
    if (!is_compressed(record)) {
      verify_in_place(record);
      result.bytes[i] = record.stored();
      return;
    }
    const bool is_copied = shards_->must_check(record);
    if (is_copied) append_frame(record, copies);
    frames.push_back({i, record, is_copied, record.stored(), 0, 0});
  });
  if (frames.empty()) return result;

  std::span<const std::byte> rest = copies;
  for (Frame& frame : frames) {
    if (!frame.is_copied) continue;
    frame.bytes = rest.first(frame.bytes.size());
    rest = rest.subspan(frame.bytes.size());
  }
  shards_->guarded([&] {
    for (Frame& frame : frames) frame.raw_bytes = raw_bytes(frame.record, frame.bytes);
  });
  BlockPlan plan;
  for (Frame& frame : frames) frame.offset = plan.add(1, frame.raw_bytes);
  result.memory = pool.take(plan.bytes());
  result.memory_bytes = plan.bytes();
  shards_->guarded([&] {
    for (const Frame& frame : frames) {
      const std::span<std::byte> raw(result.memory.get() + frame.offset, frame.raw_bytes);
      decompress(frame.record, frame.bytes, raw);
      result.bytes[frame.position] = raw;
    }
  });
  return result;
}

}  // namespace dsrt
