// error.h: the two failures of the core that a caller can act on.
//
// Programming mistakes are std::invalid_argument (ValueError) or std::out_of_range (IndexError).
#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>

namespace dsrt {

// The bytes on disk are not what was written. The message names file and record; the way out is
// to restore or rebuild the cache.
class CorruptError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A system call failed. Becomes OSError with errno and filename.
class SystemError : public std::runtime_error {
 public:
  SystemError(int code, std::string path, const std::string& action)
      : std::runtime_error(path + ": " + action + " failed"), code_(code), path_(std::move(path)) {}

  int code() const { return code_; }
  const std::string& path() const { return path_; }

 private:
  int code_;
  std::string path_;
};

}  // namespace dsrt
