#include "dsrt/ordered_pipeline.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tests/check.h"

namespace dsrt {
namespace {

using Pipeline = OrderedPipeline<int>;

void nothing(int, int&) {}

void test_items_arrive_in_order_whatever_finishes_first() {
  // Item 0 is worked on until all others are: only then can anything be delivered.
  constexpr int num_items = 100;
  std::atomic<int> num_done = 0;
  std::vector<int> delivered;
  Pipeline pipeline(
      3, 1000,
      [&](int thread, int& item) {
        CHECK(thread >= 0 && thread < 3);
        if (item == 0) {
          for (int done = num_done; done < num_items - 1; done = num_done) num_done.wait(done);
        }
        ++num_done;
        num_done.notify_all();
      },
      [&](std::unique_ptr<int> item) { delivered.push_back(*item); });
  for (int i = 0; i < num_items; ++i) pipeline.submit(std::make_unique<int>(i), 1);
  pipeline.drain();
  CHECK_EQ(delivered.size(), 100u);
  for (int i = 0; i < num_items; ++i) CHECK_EQ(delivered[static_cast<std::size_t>(i)], i);
}

void test_it_is_full_when_more_than_the_limit_waits() {
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  Pipeline pipeline(1, 100, nothing, [open](std::unique_ptr<int>) { open.wait(); });
  pipeline.submit(std::make_unique<int>(0), 100);
  CHECK(!pipeline.is_full());
  pipeline.submit(std::make_unique<int>(1), 1);
  CHECK(pipeline.is_full());
  CHECK(!pipeline.wait_for_room(std::chrono::milliseconds(1)));
  CHECK(!pipeline.drain(std::chrono::milliseconds(1)));

  gate.set_value();
  pipeline.wait_for_room();
  CHECK(!pipeline.is_full());
  CHECK(pipeline.wait_for_room(std::chrono::milliseconds(1)));
  pipeline.drain();
  CHECK(pipeline.drain(std::chrono::milliseconds(1)));
}

void test_one_item_larger_than_the_limit_passes() {
  Pipeline pipeline(1, 100, nothing, [](std::unique_ptr<int>) {});
  pipeline.submit(std::make_unique<int>(0), 1000);
  pipeline.wait_for_room();
  CHECK(!pipeline.is_full());
}

template <typename Work, typename Deliver>
void check_failure_is_rethrown(Work work, Deliver deliver) {
  Pipeline pipeline(2, 1, work, deliver);
  pipeline.submit(std::make_unique<int>(0), 10);
  CHECK_THROWS_WITH(pipeline.drain(), std::runtime_error, "disk full");
  CHECK(pipeline.is_full());
  CHECK_THROWS_WITH(pipeline.wait_for_room(), std::runtime_error, "disk full");
  CHECK_THROWS_WITH(pipeline.submit(std::make_unique<int>(1), 1), std::runtime_error, "disk full");
  CHECK_THROWS_WITH(pipeline.drain(), std::runtime_error, "disk full");
}

void test_a_failure_in_work_is_rethrown_by_every_later_call() {
  check_failure_is_rethrown([](int, int&) { throw std::runtime_error("disk full"); },
                            [](std::unique_ptr<int>) { CHECK(!"delivered"); });
}

void test_a_failure_in_deliver_is_rethrown_by_every_later_call() {
  check_failure_is_rethrown(nothing,
                            [](std::unique_ptr<int>) { throw std::runtime_error("disk full"); });
}

void test_stopping_drops_what_waits() {
  std::promise<void> started, gate;
  std::atomic<int> num_delivered = 0;
  Pipeline pipeline(1, 1000, nothing, [&](std::unique_ptr<int>) {
    if (++num_delivered == 1) started.set_value();
    gate.get_future().wait();
  });
  for (int i = 0; i < 50; ++i) pipeline.submit(std::make_unique<int>(i), 1);
  started.get_future().wait();
  std::thread stopping([&] { pipeline.stop(); });
  gate.set_value();
  stopping.join();
  pipeline.stop();
  CHECK(num_delivered >= 1);
}

}  // namespace
}  // namespace dsrt

int main() {
  dsrt::test_items_arrive_in_order_whatever_finishes_first();
  dsrt::test_it_is_full_when_more_than_the_limit_waits();
  dsrt::test_one_item_larger_than_the_limit_passes();
  dsrt::test_a_failure_in_work_is_rethrown_by_every_later_call();
  dsrt::test_a_failure_in_deliver_is_rethrown_by_every_later_call();
  dsrt::test_stopping_drops_what_waits();
}
