#include "dsrt/map_guard.h"

#include <ucontext.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <mutex>
#include <utility>

#include "dsrt/map_report.h"

namespace dsrt {

namespace {

struct Guard {
  sigjmp_buf jump;
  volatile std::uintptr_t address = 0;
};

thread_local Guard* volatile active_guard = nullptr;
struct sigaction handler_before;

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const bool is_fault = info->si_code > 0;  // Raised by this thread's own access, not by kill().
  Guard* guard = active_guard;
  if (is_fault && guard != nullptr) {
    guard->address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    // The signal mask as a return would leave it; sigsetjmp would pay a system call each time.
    pthread_sigmask(SIG_SETMASK, &static_cast<const ucontext_t*>(context)->uc_sigmask, nullptr);
    siglongjmp(guard->jump, 1);
  }
  if (is_fault) report_lost_page(reinterpret_cast<std::uintptr_t>(info->si_addr));
  const bool is_ignored = handler_before.sa_handler == SIG_IGN;
  if ((handler_before.sa_flags & SA_SIGINFO) != 0) {
    handler_before.sa_sigaction(signal, info, context);
  } else if (handler_before.sa_handler == SIG_DFL || (is_ignored && is_fault)) {
    std::signal(SIGBUS, SIG_DFL);  // An ignored fault would repeat forever; the kernel kills too.
    std::raise(SIGBUS);
  } else if (!is_ignored) {
    handler_before.sa_handler(signal);
  }
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_bus_error;
}

}  // namespace

void ensure_map_guard() {
  static std::mutex mutex;
  static pid_t installed_in = 0;
  struct sigaction present {};
  ::sigaction(SIGBUS, nullptr, &present);
  if (is_ours(present)) return;
  const std::lock_guard lock(mutex);
  ::sigaction(SIGBUS, nullptr, &present);
  const bool is_default = (present.sa_flags & SA_SIGINFO) == 0 && present.sa_handler == SIG_DFL;
  if (is_ours(present) || (installed_in == ::getpid() && !is_default)) return;
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &handler_before);
  installed_in = ::getpid();
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
