#include "dsrt/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dsrt/error.h"

namespace dsrt {

namespace {

[[noreturn]] void throw_errno(const std::string& path, const char* action) {
  const int code = errno;
  throw SystemError(code, path, action);
}

// Returns what `call` returns when no signal interrupts it.
template <typename Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Calls `transfer(position, count) -> ssize_t` until all bytes went through, `piece_bytes` at most
// at a time.
template <typename Transfer>
void transfer_all(std::size_t size, std::size_t piece_bytes, const std::string& path,
                  Transfer transfer) {
  std::size_t done = 0;
  while (done < size) {
    const std::size_t most = std::min(size - done, piece_bytes);
    const ssize_t count = uninterrupted([&] { return transfer(done, most); });
    if (count < 0) throw_errno(path, "write");
    done += static_cast<std::size_t>(count);
  }
}

int open_file(const std::string& path, int flags, mode_t mode = 0) {
  return uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
}

int sync(int descriptor) {
  return uninterrupted([&] { return ::fsync(descriptor); });
}

// A descriptor that closes itself on the way out; its error does not matter where nothing was
// written.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  descriptor_ = open_file(path_, O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (descriptor_ < 0) throw_errno(path_, "create");
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      piece_bytes_(other.piece_bytes_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)),
      written_(std::exchange(other.written_, 0)),
      pending_(std::move(other.pending_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(piece_bytes_, other.piece_bytes_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(written_, other.written_);
  std::swap(pending_, other.pending_);
  return *this;
}

void OutputFile::write(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  while (pending_.size() + bytes.size() >= piece_bytes_) {
    // Whole pieces need no copy where nothing is pending.
    const bool is_direct = pending_.empty();
    const std::size_t taken =
        is_direct ? bytes.size() / piece_bytes_ * piece_bytes_ : piece_bytes_ - pending_.size();
    if (is_direct) {
      write_pieces(bytes.first(taken));
    } else {
      append_to_pending(bytes.first(taken));
      write_pieces(pending_);
      pending_.clear();
    }
    bytes = bytes.subspan(taken);
  }
  append_to_pending(bytes);
}

void OutputFile::flush() {
  write_pieces(pending_);
  pending_.clear();
}

void OutputFile::append_to_pending(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  pending_.reserve(piece_bytes_);
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
}

void OutputFile::write_pieces(std::span<const std::byte> bytes) {
  transfer_all(bytes.size(), piece_bytes_, path_, [&](std::size_t position, std::size_t count) {
    return ::write(descriptor_, bytes.data() + position, count);
  });
  // Only a hint: fsync reports what fails.
  ::sync_file_range(descriptor_, static_cast<off_t>(written_), static_cast<off_t>(bytes.size()),
                    SYNC_FILE_RANGE_WRITE);
  written_ += bytes.size();
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  flush();
  transfer_all(bytes.size(), piece_bytes_, path_, [&](std::size_t position, std::size_t count) {
    return ::pwrite(descriptor_, bytes.data() + position, count,
                    static_cast<off_t>(offset + position));
  });
}

void OutputFile::finish() {
  flush();
  if (sync(descriptor_) != 0) throw_errno(path_, "fsync");
  if (::close(std::exchange(descriptor_, -1)) != 0) throw_errno(path_, "close");
}

MappedFile::MappedFile(std::string path, std::uint64_t expected_bytes) : path_(std::move(path)) {
  // Without O_NONBLOCK, opening a pipe would wait for somebody to write.
  const Descriptor file{open_file(path_, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)};
  if (file.value < 0 && errno == ELOOP) {
    throw CorruptError(path_ + ": is a symbolic link; put the file itself into the cache");
  }
  if (file.value < 0) throw_errno(path_, "open");
  struct stat status {};
  if (::fstat(file.value, &status) != 0) throw_errno(path_, "fstat");
  if (!S_ISREG(status.st_mode)) throw CorruptError(path_ + ": is not a regular file");
  const auto actual_bytes = static_cast<std::uint64_t>(status.st_size);
  if (actual_bytes != expected_bytes) {
    throw CorruptError(path_ + ": has " + std::to_string(actual_bytes) +
                       " bytes but the manifest says " + std::to_string(expected_bytes) +
                       "; it was truncated or replaced, restore or rebuild the cache");
  }
  if (actual_bytes == 0) return;
  void* data = ::mmap(nullptr, actual_bytes, PROT_READ, MAP_SHARED, file.value, 0);
  if (data == MAP_FAILED) throw_errno(path_, "mmap");
  data_ = static_cast<const std::byte*>(data);
  size_ = actual_bytes;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

// All are hints: a file is readable without them.
void MappedFile::expect_reads_in_order() const {
  ::madvise(const_cast<std::byte*>(data_), size_, MADV_SEQUENTIAL);
}

void MappedFile::expect_random_reads() const {
  ::madvise(const_cast<std::byte*>(data_), size_, MADV_RANDOM);
}

void MappedFile::let_go(std::size_t begin, std::size_t bytes) const {
  ::madvise(const_cast<std::byte*>(data_) + begin, bytes, MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void sync_directory(const std::string& path) {
  const Descriptor directory{open_file(path, O_RDONLY | O_DIRECTORY)};
  if (directory.value < 0) throw_errno(path, "open");
  if (sync(directory.value) != 0) throw_errno(path, "fsync");
}

void require_directory(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) throw_errno(path, "lstat");
  if (S_ISDIR(status.st_mode)) return;
  throw CorruptError(path + ": is not a directory itself; restore or rebuild the cache");
}

}  // namespace dsrt
