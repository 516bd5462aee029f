// tiny_cache.h: caches of a few records, written byte by byte and damaged by name.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "dsrt/compression.h"
#include "dsrt/crc32c.h"
#include "dsrt/index.h"
#include "dsrt/shard_set.h"
#include "tests/temp_directory.h"

namespace dsrt::tests {

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

inline std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// A cache under construction: change what is public, then files() writes it and describes it.
class TinyCache {
 public:
  // Shards of at most `records_per_shard` records, one after the other without padding.
  TinyCache(const std::string& directory, const std::vector<std::string>& records,
            std::size_t records_per_shard = 100, bool compressed = false)
      : directory_(directory), compressed_(compressed) {
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (i % records_per_shard == 0) shards.emplace_back();
      const std::string stored = compressed ? compress(records[i]) : records[i];
      rows.push_back({shards.back().size(), stored.size(),
                      static_cast<std::uint32_t>(shards.size() - 1), crc32c(as_bytes(stored))});
      shards.back() += stored;
      max_record_bytes = std::max<std::uint64_t>(max_record_bytes, records[i].size());
    }
  }

  CacheFiles files() const {
    CacheFiles files;
    files.directory = directory_;
    files.num_records = rows.size();
    files.compressed = compressed_;
    files.max_record_bytes = max_record_bytes;
    std::filesystem::create_directories(directory_ + "/shards");
    for (std::size_t i = 0; i < shards.size(); ++i) {
      files.shards.push_back({"shards/00000" + std::to_string(i) + ".bin", shards[i].size()});
      write_file(directory_ + "/" + files.shards.back().path, shards[i]);
    }
    IndexHeader header;
    header.num_records = rows.size();
    std::string index(sizeof header + rows.size() * sizeof(IndexRow), '\0');
    std::memcpy(index.data(), &header, sizeof header);
    if (!rows.empty()) {
      std::memcpy(index.data() + sizeof header, rows.data(), rows.size() * sizeof(IndexRow));
    }
    write_file(directory_ + "/index.bin", index);
    files.index_bytes = index.size();
    files.index_crc32c = crc32c(as_bytes(index));
    return files;
  }

  std::vector<IndexRow> rows;
  std::vector<std::string> shards;
  std::uint64_t max_record_bytes = 0;

 private:
  static std::string compress(const std::string& raw) {
    std::string frame(Compressor::max_frame_bytes(raw.size()), '\0');
    const auto room = std::as_writable_bytes(std::span(frame));
    frame.resize(Compressor(3, nullptr).compress(as_bytes(raw), room));
    return frame;
  }

  std::string directory_;
  bool compressed_;
};

inline void flip_byte(const std::string& path, std::size_t offset) {
  std::string content = read_file(path);
  content.at(offset) = static_cast<char>(~content.at(offset));
  write_file(path, content);
}

}  // namespace dsrt::tests
