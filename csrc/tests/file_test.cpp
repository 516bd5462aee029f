#include "dsrt/file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <string_view>
#include <utility>

#include "dsrt/error.h"
#include "tests/check.h"
#include "tests/temp_directory.h"

namespace dsrt {
namespace {

using tests::read_file;
using tests::TempDirectory;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename Call>
SystemError system_error_of(Call call) {
  try {
    call();
  } catch (const SystemError& error) {
    return error;
  }
  CHECK(!"a SystemError was thrown");
  std::abort();
}

void test_what_is_written_is_mapped() {
  const TempDirectory directory;
  OutputFile file(directory.file("a"));
  file.write(bytes_of("one "));
  file.write(bytes_of("two"));
  CHECK_EQ(file.size(), 7u);
  file.finish();
  const MappedFile mapped(directory.file("a"), 7);
  CHECK_EQ(text_of(mapped.bytes()), "one two");
}

void test_write_at_replaces_and_does_not_append() {
  const TempDirectory directory;
  OutputFile file(directory.file("a"));
  file.write(bytes_of("....data"));
  file.write_at(0, bytes_of("HEAD"));
  CHECK_EQ(file.size(), 8u);
  file.finish();
  CHECK_EQ(read_file(directory.file("a")), "HEADdata");
}

void test_runs_of_any_size_lie_one_after_the_other() {
  const TempDirectory directory;
  OutputFile file(directory.file("a"));
  std::string expected;
  constexpr std::size_t piece = std::size_t{2} << 20;
  for (const std::size_t size : {std::size_t{1}, piece - 1, piece, 3 * piece + 5, std::size_t{7}}) {
    const std::string run(size, static_cast<char>('a' + expected.size() % 23));
    file.write(bytes_of(run));
    expected += run;
  }
  CHECK_EQ(file.size(), expected.size());
  file.finish();
  CHECK(read_file(directory.file("a")) == expected);
}

void test_an_existing_file_is_never_overwritten() {
  const TempDirectory directory;
  const std::string path = directory.file("a");
  OutputFile(path).finish();
  const SystemError error = system_error_of([&] { OutputFile{path}; });
  CHECK_EQ(error.code(), EEXIST);
  CHECK_EQ(error.path(), path);
}

void test_a_moved_file_goes_on_at_the_new_place() {
  const TempDirectory directory;
  OutputFile first(directory.file("a"));
  first.write(bytes_of("12"));
  OutputFile second = std::move(first);
  second.write(bytes_of("34"));
  CHECK_EQ(second.size(), 4u);
  second.finish();
  CHECK_EQ(read_file(directory.file("a")), "1234");
}

void test_a_failed_write_names_the_file() {
  const TempDirectory directory;
  OutputFile file(directory.file("a"));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  CHECK_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limit = {4, before.rlim_max};
  CHECK_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const SystemError error = system_error_of([&] {
    file.write(bytes_of("12345678"));
    file.flush();
  });
  CHECK_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  CHECK_EQ(error.code(), EFBIG);
  CHECK_EQ(error.path(), directory.file("a"));
}

void test_an_empty_file_maps_to_an_empty_span() {
  const TempDirectory directory;
  OutputFile(directory.file("a")).finish();
  CHECK(MappedFile(directory.file("a"), 0).bytes().empty());
}

void test_a_file_of_another_size_is_corrupt() {
  const TempDirectory directory;
  OutputFile file(directory.file("a"));
  file.write(bytes_of("12345"));
  file.finish();
  CHECK_THROWS_WITH(MappedFile(directory.file("a"), 6), CorruptError,
                    directory.file("a") + ": has 5 bytes but the manifest says 6");
}

void test_a_directory_is_not_mapped() {
  const TempDirectory directory;
  CHECK_THROWS_WITH(MappedFile(directory.path(), 0), CorruptError, "is not a regular file");
}

void test_a_link_is_not_mapped_wherever_it_leads() {
  const TempDirectory directory;
  OutputFile(directory.file("a")).finish();
  CHECK_EQ(::symlink(directory.file("a").c_str(), directory.file("b").c_str()), 0);
  CHECK_THROWS_WITH(MappedFile(directory.file("b"), 0), CorruptError,
                    directory.file("b") + ": is a symbolic link");
}

void test_a_pipe_is_not_waited_for() {
  const TempDirectory directory;
  CHECK_EQ(::mkfifo(directory.file("a").c_str(), 0600), 0);
  CHECK_THROWS_WITH(MappedFile(directory.file("a"), 0), CorruptError, "is not a regular file");
}

void test_only_a_directory_itself_is_one() {
  const TempDirectory directory;
  require_directory(directory.path());
  CHECK_EQ(::symlink(directory.path().c_str(), directory.file("b").c_str()), 0);
  CHECK_THROWS_WITH(require_directory(directory.file("b")), CorruptError,
                    directory.file("b") + ": is not a directory itself");
  CHECK_EQ(system_error_of([&] { require_directory(directory.file("none")); }).code(), ENOENT);
}

void test_missing_paths_are_system_errors() {
  const TempDirectory directory;
  const std::string path = directory.file("none");
  CHECK_EQ(system_error_of([&] { MappedFile(path, 1); }).code(), ENOENT);
  CHECK_EQ(system_error_of([&] { OutputFile{path + "/a"}; }).code(), ENOENT);
  CHECK_EQ(system_error_of([&] { sync_directory(path); }).code(), ENOENT);
}

void test_a_directory_is_synced_and_a_file_is_not_a_directory() {
  const TempDirectory directory;
  sync_directory(directory.path());
  OutputFile(directory.file("a")).finish();
  CHECK_EQ(system_error_of([&] { sync_directory(directory.file("a")); }).code(), ENOTDIR);
}

}  // namespace
}  // namespace dsrt

int main() {
  dsrt::test_what_is_written_is_mapped();
  dsrt::test_write_at_replaces_and_does_not_append();
  dsrt::test_runs_of_any_size_lie_one_after_the_other();
  dsrt::test_an_existing_file_is_never_overwritten();
  dsrt::test_a_moved_file_goes_on_at_the_new_place();
  dsrt::test_a_failed_write_names_the_file();
  dsrt::test_an_empty_file_maps_to_an_empty_span();
  dsrt::test_a_file_of_another_size_is_corrupt();
  dsrt::test_a_directory_is_not_mapped();
  dsrt::test_a_link_is_not_mapped_wherever_it_leads();
  dsrt::test_a_pipe_is_not_waited_for();
  dsrt::test_only_a_directory_itself_is_one();
  dsrt::test_missing_paths_are_system_errors();
  dsrt::test_a_directory_is_synced_and_a_file_is_not_a_directory();
}
