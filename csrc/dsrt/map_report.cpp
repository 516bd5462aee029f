#include "dsrt/map_report.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <unistd.h>

#include <cstring>

namespace dsrt {

namespace {

// The lines of a file, cut where they are longer than any path.
class Lines {
 public:
  explicit Lines(const char* path) noexcept : descriptor_(::open(path, O_RDONLY | O_CLOEXEC)) {}
  ~Lines() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  // The next line without its end, or null after the last.
  const char* next() noexcept {
    std::size_t size = 0;
    char byte = 0;
    while (read_byte(byte) && byte != '\n') {
      if (size + 1 < sizeof line_) line_[size++] = byte;
    }
    line_[size] = 0;
    return size > 0 ? line_ : nullptr;
  }

 private:
  bool read_byte(char& byte) noexcept {
    if (position_ == filled_) {
      const ssize_t count = ::read(descriptor_, buffer_, sizeof buffer_);
      if (count <= 0) return false;
      filled_ = static_cast<std::size_t>(count);
      position_ = 0;
    }
    byte = buffer_[position_++];
    return true;
  }

  int descriptor_;
  char buffer_[4096];
  std::size_t position_ = 0;
  std::size_t filled_ = 0;
  char line_[PATH_MAX + 128];
};

// Reads a hexadecimal number and moves `text` behind it.
std::uintptr_t take_hex(const char*& text) noexcept {
  std::uintptr_t value = 0;
  for (;; ++text) {
    const char* digits = "0123456789abcdef";
    const char* digit = *text == 0 ? nullptr : std::strchr(digits, *text);
    if (digit == nullptr) return value;
    value = value * 16 + static_cast<std::uintptr_t>(digit - digits);
  }
}

void write_error(const char* text) noexcept {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // There is nobody to tell.
}

}  // namespace

void report_lost_page(std::uintptr_t address) noexcept {
  Lines maps("/proc/self/maps");
  while (const char* line = maps.next()) {  // "first-end rights offset device inode     path"
    const char* rest = line;
    const std::uintptr_t first = take_hex(rest);
    if (*rest++ != '-') continue;
    const std::uintptr_t end = take_hex(rest);
    const char* path = std::strchr(rest, '/');
    if (address < first || address >= end || path == nullptr) continue;
    write_error("dsrt_lightning: ");
    write_error(path);
    write_error(
        ": a mapped page cannot be read; the file was truncated after it was opened, or its disk "
        "failed. Batches report this as an exception, views of single records cannot.\n");
    return;
  }
}

}  // namespace dsrt
