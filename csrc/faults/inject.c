// inject.c: makes one system call of a process fail, or be its last. For tests; an LD_PRELOAD.
//
//   fault_watch(root)               forgets all, then numbers from 1 the calls on `root` and what
//                                   lies in it
//   fault_arm(call, number, fault)  numbers only calls of that name ("" for all); that one fails
//                                   with errno `fault` and is not made (close is made, then fails);
//                                   fault_kill kills the process before it, fault_halve lets half
//                                   of its bytes through
//   fault_stick()                   the call that failed goes on failing, as on a full disk
//   fault_count()                   how many calls were numbered
//   fault_fired()                   the name of the call that failed, "" for none
//   fault_log()                     all calls on `root` and what lies in it: lines "name path"
//
// Threads  Any thread may make the call that fails.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { no_fault = 0, fault_kill = -1, fault_halve = -2 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // Guards all below.
static char root[PATH_MAX];
static char armed_call[16];
static long armed_number;
static int armed_fault;
static int sticks;
static long count;
static const char* fired = "";
static char log_text[1 << 20];
static size_t log_bytes;

void fault_watch(const char* directory) {
  pthread_mutex_lock(&mutex);
  snprintf(root, sizeof root, "%s", directory);
  armed_call[0] = log_text[0] = 0;
  armed_fault = sticks = 0;
  armed_number = count = 0;
  fired = "";
  log_bytes = 0;
  pthread_mutex_unlock(&mutex);
}

void fault_arm(const char* call, long number, int fault) {
  pthread_mutex_lock(&mutex);
  snprintf(armed_call, sizeof armed_call, "%s", call);
  armed_number = number;
  armed_fault = fault;
  pthread_mutex_unlock(&mutex);
}

void fault_stick(void) { sticks = 1; }
long fault_count(void) { return count; }
const char* fault_fired(void) { return fired; }
const char* fault_log(void) { return log_text; }

// Numbers a call and returns the fault that it suffers; mutex is held.
static int next_fault(const char* call) {
  if (sticks && strcmp(fired, call) == 0) return armed_fault;
  if (armed_call[0] != 0 && strcmp(armed_call, call) != 0) return no_fault;
  if (++count != armed_number) return no_fault;
  fired = call;
  return armed_fault;
}

static int is_watched(const char* path) {
  const size_t length = strlen(root);
  return length > 0 && strncmp(path, root, length) == 0 && strchr("/", path[length]) != NULL;
}

static int fault_of(const char* call, const char* path) {
  int fault = no_fault;
  pthread_mutex_lock(&mutex);
  if (is_watched(path)) {
    const size_t room = sizeof log_text - log_bytes;
    const int written = snprintf(log_text + log_bytes, room, "%s %s\n", call, path);
    if (written > 0 && (size_t)written < room) log_bytes += (size_t)written;
    fault = next_fault(call);
  }
  pthread_mutex_unlock(&mutex);
  if (fault == fault_kill) raise(SIGKILL);
  return fault;
}

// Writes the path behind a descriptor, or "" for none.
static void path_of(int descriptor, char path[PATH_MAX]) {
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, PATH_MAX - 1);
  path[length < 0 ? 0 : length] = 0;
}

static int fault_of_path(const char* call, int directory, const char* path) {
  const int error_before = errno;
  char base[PATH_MAX], full[2 * PATH_MAX];
  base[0] = 0;
  if (path[0] != '/' && directory == AT_FDCWD && getcwd(base, sizeof base) == NULL) base[0] = 0;
  if (path[0] != '/' && directory != AT_FDCWD) path_of(directory, base);
  snprintf(full, sizeof full, "%s%s%s", base, path[0] == '/' ? "" : "/", path);
  const int fault = fault_of(call, full);
  errno = error_before;
  return fault;
}

static int fault_of_descriptor(const char* call, int descriptor) {
  const int error_before = errno;
  char path[PATH_MAX];
  path_of(descriptor, path);
  const int fault = fault_of(call, path);
  errno = error_before;
  return fault;
}

static int failed(int fault) {
  errno = fault;
  return -1;
}

static size_t shortened(int fault, size_t bytes) {
  return fault == fault_halve && bytes > 1 ? bytes / 2 : bytes;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

// Programs call the 64-bit names or the plain ones, as they were compiled.
#define DEFINE_OPEN(name)                                    \
  int name(const char* path, int flags, ...) {               \
    va_list arguments;                                       \
    va_start(arguments, flags);                              \
    const mode_t mode = va_arg(arguments, mode_t);           \
    va_end(arguments);                                       \
    const int fault = fault_of_path("open", AT_FDCWD, path); \
    if (fault > 0) return failed(fault);                     \
    return REAL(name)(path, flags, mode);                    \
  }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_OPENAT(name)                                   \
  int name(int directory, const char* path, int flags, ...) { \
    va_list arguments;                                        \
    va_start(arguments, flags);                               \
    const mode_t mode = va_arg(arguments, mode_t);            \
    va_end(arguments);                                        \
    const int fault = fault_of_path("open", directory, path); \
    if (fault > 0) return failed(fault);                      \
    return REAL(name)(directory, path, flags, mode);          \
  }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

int mkdir(const char* path, mode_t mode) {
  const int fault = fault_of_path("mkdir", AT_FDCWD, path);
  return fault > 0 ? failed(fault) : REAL(mkdir)(path, mode);
}

int mkdirat(int directory, const char* path, mode_t mode) {
  const int fault = fault_of_path("mkdir", directory, path);
  return fault > 0 ? failed(fault) : REAL(mkdirat)(directory, path, mode);
}

int rename(const char* from, const char* to) {
  const int fault = fault_of_path("rename", AT_FDCWD, from);
  return fault > 0 ? failed(fault) : REAL(rename)(from, to);
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  const int fault = fault_of_path("rename", from_directory, from);
  return fault > 0 ? failed(fault) : REAL(renameat)(from_directory, from, to_directory, to);
}

int unlink(const char* path) {
  const int fault = fault_of_path("unlink", AT_FDCWD, path);
  return fault > 0 ? failed(fault) : REAL(unlink)(path);
}

int unlinkat(int directory, const char* path, int flags) {
  const int fault = fault_of_path("unlink", directory, path);
  return fault > 0 ? failed(fault) : REAL(unlinkat)(directory, path, flags);
}

int fsync(int descriptor) {
  const int fault = fault_of_descriptor("fsync", descriptor);
  return fault > 0 ? failed(fault) : REAL(fsync)(descriptor);
}

int close(int descriptor) {
  const int fault = fault_of_descriptor("close", descriptor);
  const int result = REAL(close)(descriptor);  // Linux frees the descriptor whatever it reports.
  return fault > 0 ? failed(fault) : result;
}

ssize_t read(int descriptor, void* buffer, size_t bytes) {
  const int fault = fault_of_descriptor("read", descriptor);
  return fault > 0 ? failed(fault) : REAL(read)(descriptor, buffer, shortened(fault, bytes));
}

ssize_t write(int descriptor, const void* buffer, size_t bytes) {
  const int fault = fault_of_descriptor("write", descriptor);
  return fault > 0 ? failed(fault) : REAL(write)(descriptor, buffer, shortened(fault, bytes));
}

#define DEFINE_PWRITE(name, offset_type)                                               \
  ssize_t name(int descriptor, const void* buffer, size_t bytes, offset_type offset) { \
    const int fault = fault_of_descriptor("write", descriptor);                        \
    if (fault > 0) return failed(fault);                                               \
    return REAL(name)(descriptor, buffer, shortened(fault, bytes), offset);            \
  }
DEFINE_PWRITE(pwrite, off_t)
DEFINE_PWRITE(pwrite64, off64_t)
