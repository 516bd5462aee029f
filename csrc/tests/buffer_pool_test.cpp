#include "dsrt/buffer_pool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <thread>
#include <vector>

#include "tests/check.h"

namespace dsrt {
namespace {

constexpr std::size_t block_bytes = 4096;

void test_the_block_given_back_last_is_used_next() {
  const auto pool = BufferPool::create(10 * block_bytes);
  auto first = pool->take(block_bytes);
  auto second = pool->take(block_bytes);
  const std::byte* used_last = first.get();
  second.reset();
  first.reset();
  CHECK_EQ(pool->free_bytes(), 2 * block_bytes);
  CHECK_EQ(pool->take(block_bytes - 1).get(), used_last);
}

void test_a_block_returns_when_its_last_copy_is_dropped() {
  const auto pool = BufferPool::create(10 * block_bytes);
  auto block = pool->take(block_bytes);
  std::shared_ptr<std::byte> part(block, block.get() + 64);
  block.reset();
  CHECK_EQ(pool->free_bytes(), 0u);
  part.reset();
  CHECK_EQ(pool->free_bytes(), block_bytes);
}

void test_blocks_outlive_the_pool_and_are_aligned() {
  auto pool = BufferPool::create(10 * block_bytes);
  std::vector<std::shared_ptr<std::byte>> blocks;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, block_bytes, 3 * block_bytes << 10}) {
    blocks.push_back(pool->take(bytes));
    CHECK_EQ(reinterpret_cast<std::uintptr_t>(blocks.back().get()) % BufferPool::alignment, 0u);
    std::memset(blocks.back().get(), 1, bytes);
  }
  pool.reset();
  blocks.clear();
}

void test_what_lies_idle_is_bounded_but_one_block_is_kept() {
  const auto pool = BufferPool::create(2 * block_bytes);
  std::vector<std::shared_ptr<std::byte>> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(pool->take(block_bytes));
  blocks.clear();
  CHECK_EQ(pool->free_bytes(), 2 * block_bytes);
  pool->take(100 * block_bytes).reset();
  CHECK_EQ(pool->free_bytes(), 100 * block_bytes);
}

void test_a_block_is_not_wasted_on_half_its_size() {
  const auto pool = BufferPool::create(100 * block_bytes);
  pool->take(10 * block_bytes).reset();
  const auto small = pool->take(4 * block_bytes);
  CHECK_EQ(pool->free_bytes(), 10 * block_bytes);
  const auto large = pool->take(5 * block_bytes);
  CHECK_EQ(pool->free_bytes(), 0u);
}

void test_threads_may_take_and_drop_at_once() {
  const auto pool = BufferPool::create(4 * block_bytes);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&pool, i] {
      for (int k = 0; k < 2000; ++k) {
        const auto block = pool->take(block_bytes);
        std::memset(block.get(), i, block_bytes);
        CHECK_EQ(static_cast<int>(block.get()[block_bytes - 1]), i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(pool->free_bytes() <= 4 * block_bytes);
}

void test_a_forked_child_may_drop_what_it_inherited() {
  auto block = BufferPool::create(block_bytes)->take(block_bytes);
  const pid_t child = ::fork();
  if (child == 0) {
    block.reset();
    ::_exit(7);
  }
  int status = 0;
  CHECK_EQ(::waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 7);
}

void test_a_plan_aligns_its_arrays_and_refuses_to_overflow() {
  BlockPlan plan;
  CHECK_EQ(plan.add(3, 10), 0u);
  CHECK_EQ(plan.add(0, 10), 64u);
  CHECK_EQ(plan.add(1, 1), 64u);
  CHECK_EQ(plan.bytes(), 128u);
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  CHECK_THROWS(plan.add(2, most), std::bad_alloc);
  CHECK_THROWS(plan.add(1, most), std::bad_alloc);
  CHECK_THROWS(plan.add(1, most - 100), std::bad_alloc);
  CHECK_THROWS(BufferPool::create(1)->take(most), std::bad_alloc);
}

}  // namespace
}  // namespace dsrt

int main() {
  dsrt::test_the_block_given_back_last_is_used_next();
  dsrt::test_a_block_returns_when_its_last_copy_is_dropped();
  dsrt::test_blocks_outlive_the_pool_and_are_aligned();
  dsrt::test_what_lies_idle_is_bounded_but_one_block_is_kept();
  dsrt::test_a_block_is_not_wasted_on_half_its_size();
  dsrt::test_threads_may_take_and_drop_at_once();
  dsrt::test_a_forked_child_may_drop_what_it_inherited();
  dsrt::test_a_plan_aligns_its_arrays_and_refuses_to_overflow();
}
