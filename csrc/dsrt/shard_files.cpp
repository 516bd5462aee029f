#include "dsrt/shard_files.h"

#include <cstdio>
#include <span>
#include <utility>

#include "dsrt/crc32c.h"

namespace dsrt {

namespace {

constexpr std::size_t rows_per_write = 4096;  // 96 KiB

// Records so large gain nothing from huge pages, which may cost more to be given.
constexpr std::size_t large_record_bytes = std::size_t{64} << 10;

std::string shard_name(std::size_t number) {
  char name[40];
  std::snprintf(name, sizeof name, "shards/%06zu.bin", number);
  return name;
}

}  // namespace

ShardFiles::ShardFiles(std::string directory, std::uint64_t shard_bytes, std::uint64_t alignment)
    : directory_(std::move(directory)),
      shard_bytes_(shard_bytes),
      alignment_(alignment),
      index_(directory_ + "/index.bin") {
  const IndexHeader without_count;
  index_.write(std::as_bytes(std::span(&without_count, 1)));
  begin_shard();
}

void ShardFiles::append(const RecordBlock& block) {
  const std::vector<RecordBlock::Record>& records = block.records();
  std::size_t first = 0;
  while (first < records.size()) {
    // Records keep their distances, so [first, last) lies in the shard as it does in the block.
    const std::uint64_t offset = align_up(shard_->size(), alignment_);
    const std::size_t origin = records[first].begin;
    std::size_t last = first;
    while (last < records.size() &&
           offset + (records[last].begin - origin) + records[last].bytes <= shard_bytes_) {
      ++last;
    }
    if (last == first && shard_->size() > 0) {
      end_shard();
      begin_shard();
      continue;
    }
    if (last == first) ++last;  // Larger than a shard: it has one to itself.
    if (shard_->size() == 0 && records[first].bytes >= large_record_bytes) {
      shard_->write_in_pieces_of(OutputFile::small_piece_bytes);
    }
    write_run(block, first, last, offset);
    first = last;
  }
}

void ShardFiles::write_run(const RecordBlock& block, std::size_t first, std::size_t last,
                           std::uint64_t offset) {
  const std::vector<RecordBlock::Record>& records = block.records();
  const std::size_t origin = records[first].begin;
  // The zeros before the first record are the padding; only a block's first run needs any.
  const std::size_t padding = offset - shard_->size();
  const auto run = block.bytes(origin - padding, records[last - 1].begin + records[last - 1].bytes);
  shard_->write(run);
  shard_crc32c_ = crc32c(run, shard_crc32c_);

  const auto shard_number = static_cast<std::uint32_t>(full_shards_.size());
  for (std::size_t i = first; i < last; ++i) {
    const RecordBlock::Record& record = records[i];
    rows_.push_back({offset + (record.begin - origin), record.bytes, shard_number, record.crc32c});
  }
  num_records_ += last - first;
  if (rows_.size() >= rows_per_write) write_rows();
}

void ShardFiles::write_rows() {
  index_.write(std::as_bytes(std::span(rows_)));
  rows_.clear();
}

void ShardFiles::begin_shard() {
  shard_.emplace(directory_ + "/" + shard_name(full_shards_.size()));
  shard_crc32c_ = 0;
}

void ShardFiles::end_shard() {
  full_shards_.push_back({shard_name(full_shards_.size()), shard_->size(), shard_crc32c_});
  if (syncing_.valid()) syncing_.get();
  syncing_ =
      std::async(std::launch::async, [file = std::move(*shard_)]() mutable { file.finish(); });
}

std::vector<WrittenFile> ShardFiles::finish() {
  end_shard();
  write_rows();
  IndexHeader header;
  header.num_records = num_records_;
  index_.write_at(0, std::as_bytes(std::span(&header, 1)));
  // The header came last, so the checksum is taken from the file as a whole.
  const MappedFile index(index_.path(), index_.size());
  std::vector<WrittenFile> files = {{"index.bin", index_.size(), crc32c(index.bytes())}};
  index_.finish();
  syncing_.get();
  sync_directory(directory_ + "/shards");
  sync_directory(directory_);
  files.insert(files.end(), full_shards_.begin(), full_shards_.end());
  return files;
}

}  // namespace dsrt
