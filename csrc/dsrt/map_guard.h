// map_guard.h: a failing read of a mapped file as a return value instead of a dead process.
//
// A page that the file no longer covers (truncated after it was mapped) or that the disk cannot
// deliver raises SIGBUS in the thread that touches it. A handler, one for the process,
// jumps out of the guarded body of that thread; of every other SIGBUS it writes which file was lost
// (map_report.h), and passes it to the handler before it.
//
// Threads  Any number of threads may be inside read_guarded(), each with its own body.
// Limits   While it reads a map, the body and what it calls must hold no object whose destructor
//          matters, since the jump skips them. Exceptions may leave the body freely.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>

namespace dsrt {

namespace internal {
std::optional<std::uintptr_t> run_guarded(void (*body)(void*), void* context);
}

// Installs the handler if it is not there. A handler that someone else installed after it stays,
// but not the default action, which Lightning's Trainer.fit leaves behind for every signal whose
// handler Python does not know, nor what a forked process set up first, as DataLoader's workers do.
// One system call; to be called before maps are read, a batch or a call.
void ensure_map_guard();

// Runs `body()`. Returns the address whose page could not be read, or nothing if the body returned.
template <typename Body>
std::optional<std::uintptr_t> read_guarded(Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  return internal::run_guarded([](void* context) { (*static_cast<Plain*>(context))(); },
                               std::addressof(body));
}

}  // namespace dsrt
