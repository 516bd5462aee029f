#include "dsrt/map_guard.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <vector>

#include "dsrt/file.h"
#include "tests/check.h"
#include "tests/tiny_cache.h"

namespace dsrt {
namespace {

using tests::TempDirectory;

// A map of a file that has lost all its bytes.
class LostMap {
 public:
  LostMap() {
    tests::write_file(root_.file("lost"), std::string(8192, 'x'));
    map_.emplace_back(root_.file("lost"), 8192);
    std::filesystem::resize_file(root_.file("lost"), 0);
  }
  const volatile std::byte* data() const { return map_[0].bytes().data(); }
  std::uintptr_t address() const {
    return reinterpret_cast<std::uintptr_t>(map_[0].bytes().data());
  }

 private:
  TempDirectory root_;
  std::vector<MappedFile> map_;
};

constexpr int handled = 33;

// Runs `work` in a child and returns its exit status.
template <typename Work>
int status_of(Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  CHECK_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void test_a_lost_page_is_returned_by_its_address_again_and_again() {
  const LostMap map;
  for (int i = 0; i < 3; ++i) {
    const auto failed = read_guarded([&] { static_cast<void>(map.data()[5000]); });
    CHECK(failed.has_value());
    CHECK_EQ(*failed, map.address() + 5000);
  }
}

void test_a_body_that_returns_or_throws_is_left_alone() {
  int count = 0;
  CHECK(!read_guarded([&] { ++count; }));
  CHECK_EQ(count, 1);
  CHECK_THROWS(read_guarded([] { throw std::runtime_error("mine"); }), std::runtime_error);
}

void test_guards_nest() {
  const LostMap map;
  bool went_on = false;
  const auto outer = read_guarded([&] {
    CHECK(read_guarded([&] { static_cast<void>(map.data()[1]); }));
    went_on = true;
    static_cast<void>(map.data()[2]);
  });
  CHECK(went_on);
  CHECK_EQ(*outer, map.address() + 2);
}

void test_each_thread_has_its_own_guard() {
  const LostMap map;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&map, t] {
      for (int i = 0; i < 200; ++i) {
        const auto failed = read_guarded([&] { static_cast<void>(map.data()[t]); });
        CHECK_EQ(*failed, map.address() + t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void test_other_bus_errors_go_to_the_handler_before() {
  const LostMap map;
  CHECK_EQ(status_of([&] { static_cast<void>(map.data()[0]); }), handled);
  CHECK_EQ(status_of([&] { CHECK(read_guarded([] { ::raise(SIGBUS); })); }), handled);
}

void test_a_forked_process_with_a_handler_of_its_own_is_guarded() {
  const LostMap map;
  const int status = status_of([&] {
    std::signal(SIGBUS, [](int) { ::_exit(handled); });
    ensure_map_guard();
    CHECK(read_guarded([&] { static_cast<void>(map.data()[0]); }).has_value());
  });
  CHECK_EQ(status, 0);
}

}  // namespace
}  // namespace dsrt

int main() {
  std::signal(SIGBUS, [](int) { ::_exit(dsrt::handled); });
  dsrt::ensure_map_guard();
  dsrt::ensure_map_guard();
  dsrt::test_a_lost_page_is_returned_by_its_address_again_and_again();
  dsrt::test_a_body_that_returns_or_throws_is_left_alone();
  dsrt::test_guards_nest();
  dsrt::test_each_thread_has_its_own_guard();
  dsrt::test_other_bus_errors_go_to_the_handler_before();
  dsrt::test_a_forked_process_with_a_handler_of_its_own_is_guarded();
}
