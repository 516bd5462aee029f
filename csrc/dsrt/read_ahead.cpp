#include "dsrt/read_ahead.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>

namespace dsrt {

namespace {

constexpr std::uintptr_t page_bytes = 4096;  // smaller than a real page does no harm

constexpr int batches_after_miss = 16;
constexpr std::size_t num_probes = 16;

// Between records that are asked for in one piece: a disk takes longer to begin than to read this.
constexpr std::uintptr_t gap_bytes = std::uintptr_t{16} << 10;
// Linux silently reads no more for one call than the larger of its own read-ahead (128 KiB unless
// somebody set it) and what the disk takes in one request.
constexpr std::uintptr_t piece_bytes = std::uintptr_t{128} << 10;

std::uintptr_t first_page(std::span<const std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) / page_bytes * page_bytes;
}

void ask_for(std::uintptr_t begin, std::uintptr_t end) {
  for (; begin < end; begin += piece_bytes) {
    ::madvise(reinterpret_cast<void*>(begin), std::min(piece_bytes, end - begin), MADV_WILLNEED);
  }
}

}  // namespace

void ReadAhead::before_reading(const ShardSet& shards, std::span<const std::int64_t> rows) {
  if (!must_look() || !locate(shards, rows) || !is_missing()) return;
  batches_left_ = batches_after_miss;
  ask();
}

bool ReadAhead::must_look() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  if (usage.ru_majflt != waits_) {
    waits_ = usage.ru_majflt;
    batches_left_ = batches_after_miss;
  }
  if (batches_left_ == 0) return false;
  --batches_left_;
  return true;
}

bool ReadAhead::locate(const ShardSet& shards, std::span<const std::int64_t> rows) {
  records_.assign(rows.size(), {});
  try {
    shards.guarded([&] {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        Record record = shards.find(rows[i]);
        shards.locate(record);
        records_[i] = record.stored();
      }
    });
  } catch (...) {
    return false;  // Whoever reads finds the same, and which record it is.
  }
  std::erase_if(records_, [](std::span<const std::byte> record) { return record.empty(); });
  return true;
}

bool ReadAhead::is_missing() const {
  const std::size_t step = records_.size() / num_probes + 1;
  for (std::size_t i = 0; i < records_.size(); i += step) {
    unsigned char residence = 1;
    ::mincore(reinterpret_cast<void*>(first_page(records_[i])), 1, &residence);
    if ((residence & 1) == 0) return true;
  }
  return false;
}

void ReadAhead::ask() {
  std::sort(records_.begin(), records_.end(),
            [](const auto& left, const auto& right) { return left.data() < right.data(); });
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  for (const std::span<const std::byte> record : records_) {
    if (first_page(record) > end + gap_bytes) {
      ask_for(begin, end);
      begin = first_page(record);
    }
    end = std::max(end, reinterpret_cast<std::uintptr_t>(record.data() + record.size()));
  }
  ask_for(begin, end);
}

}  // namespace dsrt
