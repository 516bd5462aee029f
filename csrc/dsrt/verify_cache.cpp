#include "dsrt/verify_cache.h"

#include <cstring>

#include "dsrt/crc32c.h"
#include "dsrt/error.h"
#include "dsrt/map_guard.h"

namespace dsrt {

namespace {

constexpr std::uint64_t bytes_per_report = std::uint64_t{16} << 20;
constexpr std::uint64_t record_cost_bytes = 256;  // a record without bytes takes time too

// Runs `work` and returns what was wrong, or an empty string.
template <typename Work>
std::string problem_of(Work work) {
  try {
    work();
  } catch (const CorruptError& error) {
    return error.what();
  } catch (const SystemError& error) {
    return std::string(error.what()) + ": " + std::strerror(error.code());
  }
  return {};
}

// While it lives, the shards are read in order.
class InOrder {
 public:
  void add(const MappedFile& shard) {
    shard.expect_reads_in_order();
    shards_.push_back(&shard);
  }
  InOrder() = default;
  ~InOrder() {
    for (const MappedFile* shard : shards_) shard->expect_random_reads();
  }
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;

 private:
  std::vector<const MappedFile*> shards_;
};

}  // namespace

std::vector<std::string> verify_cache(const ShardSet& shards, std::size_t cache,
                                      const std::function<void(std::uint64_t)>& on_progress) {
  ensure_map_guard();
  std::vector<std::string> problems;
  const CacheFiles& files = shards.files(cache);
  std::vector<bool> is_open(files.shards.size());
  InOrder in_order;
  for (std::size_t shard = 0; shard < is_open.size(); ++shard) {
    std::string problem = problem_of([&] { in_order.add(shards.shard(cache, shard)); });
    is_open[shard] = problem.empty();
    if (!problem.empty()) problems.push_back(std::move(problem));
  }

  std::uint64_t unreported_bytes = 0;
  const std::int64_t base = shards.bases()[cache];
  for (std::uint64_t sample = 0; sample < files.num_records; ++sample) {
    Record record = shards.find(base + static_cast<std::int64_t>(sample));
    std::string problem = problem_of([&] {
      shards.guarded([&] {
        const std::uint32_t shard = shards.index_row(record).shard;
        if (shard < is_open.size() && !is_open[shard]) return;
        shards.locate(record);
        shards.check(record, crc32c(record.stored()));
      });
    });
    if (!problem.empty()) problems.push_back(std::move(problem));
    unreported_bytes += record.stored_bytes + record_cost_bytes;
    if (unreported_bytes < bytes_per_report) continue;
    unreported_bytes = 0;
    on_progress(sample + 1);
  }
  if (unreported_bytes > 0) on_progress(files.num_records);
  return problems;
}

}  // namespace dsrt
