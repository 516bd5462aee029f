#include "dsrt/map_guard.h"

#include <csetjmp>
#include <csignal>
#include <mutex>
#include <utility>

namespace dsrt {

namespace {

struct Guard {
  sigjmp_buf jump;
  volatile std::uintptr_t address = 0;
};

thread_local Guard* volatile active_guard = nullptr;
struct sigaction handler_before;

void on_bus_error(int signal, siginfo_t* info, void* context) {
  Guard* guard = active_guard;
  if (guard != nullptr &&
      info->si_code > 0) {  // Raised by this thread's own access, not by kill().
    guard->address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    siglongjmp(guard->jump, 1);
  }
  if ((handler_before.sa_flags & SA_SIGINFO) != 0) {
    handler_before.sa_sigaction(signal, info, context);
  } else if (handler_before.sa_handler == SIG_DFL) {
    std::signal(SIGBUS, SIG_DFL);
    std::raise(SIGBUS);
  } else if (handler_before.sa_handler != SIG_IGN) {
    handler_before.sa_handler(signal);
  }
}

}  // namespace

void install_map_guard() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    // Not deferred: the jump leaves the handler without a system call to restore the signal mask.
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &handler_before);
  });
}

std::optional<std::uintptr_t> internal::run_guarded(void (*body)(void*), void* context) {
  Guard guard;
  struct Scope {
    Guard* outer;
    ~Scope() { active_guard = outer; }
  } const scope{active_guard};
  if (sigsetjmp(guard.jump, 0) != 0) return guard.address;
  active_guard = &guard;
  body(context);
  return std::nullopt;
}

}  // namespace dsrt
