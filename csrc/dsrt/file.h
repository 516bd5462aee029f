// file.h: files as the store uses them: written once from the front, or mapped read-only whole.
//
// Errors     Every failed system call is a SystemError with errno and path.
// Ownership  Both classes own their resource and are movable, not copyable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dsrt {

// A new file, appended to, then made durable. Destroying it unfinished closes and leaves the file.
//
// It is written in pieces, each at a multiple of its size: file systems with large folios keep it
// in pages of that size at most, and from 2 MiB on whoever maps it soon after misses the TLB less
// (docs/decisions/pieces-of-2-mib.md). The disk begins with each piece at once, so that little is
// left to fsync.
class OutputFile {
 public:
  static constexpr std::size_t huge_piece_bytes = std::size_t{2} << 20;  // x86-64's and arm64's
  static constexpr std::size_t small_piece_bytes = std::size_t{256} << 10;

  // Creates `path`, which must not exist.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  // Before anything is written; pieces are huge otherwise.
  void write_in_pieces_of(std::size_t piece_bytes) { piece_bytes_ = piece_bytes; }

  void write(std::span<const std::byte> bytes);
  // Overwrites bytes that were written before, [offset, offset + bytes.size()).
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // Lets the file have all bytes that were written.
  void flush();
  // Flushes, fsyncs, then closes; the only ending that reports errors.
  void finish();

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }

 private:
  void append_to_pending(std::span<const std::byte> bytes);
  void write_pieces(std::span<const std::byte> bytes);

  std::string path_;
  std::size_t piece_bytes_ = huge_piece_bytes;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;          // with what is pending
  std::uint64_t written_ = 0;       // what the file has
  std::vector<std::byte> pending_;  // the last bytes, less than a piece
};

// A whole file mapped read-only and shared. Holds no descriptor, so thousands may be open.
class MappedFile {
 public:
  // Maps `path`, a regular file and no link, which must have exactly `expected_bytes`; anything
  // else is a CorruptError, of another size with both. An empty file maps to an empty span.
  MappedFile(std::string path, std::uint64_t expected_bytes);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // What the system reads from the disk beyond a page that is touched: what follows it, or nothing.
  void expect_reads_in_order() const;
  void expect_random_reads() const;
  // Takes the pages of [begin, begin + bytes) out of this process's memory until they are read
  // again; `begin` is a multiple of the page size. The system keeps them as it sees fit.
  void let_go(std::size_t begin, std::size_t bytes) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Makes the entries of a directory durable: the files created in it exist after a crash.
void sync_directory(const std::string& path);

// Throws CorruptError if `path` is something else than a directory, also for a link to one.
void require_directory(const std::string& path);

}  // namespace dsrt
