// Signal handlers for the moment of loading a plugin. Handlers make system calls and ask what
// is being thrown; they take no lock and allocate nothing.
#include "backend/find/crash_note.h"

#include <cxxabi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <typeinfo>

namespace tenon {
namespace {

constexpr size_t n_crashes = std::size(CrashNote::crashes);
constexpr size_t n_requests = std::size(CrashNote::requests);

/// What the handlers read; written before they are set.
struct Watched {
  std::atomic<int> file{-1};
  std::atomic<long> thread{0};
  std::atomic<int> process{0};  ///< a forked child is none of its business
  char path[PATH_MAX];
  struct sigaction before[n_crashes + n_requests];
  bool is_set[n_crashes + n_requests];
};
Watched watched;

long thread_number() { return ::syscall(SYS_gettid); }

int signal_at(size_t i) {
  return i < n_crashes ? CrashNote::crashes[i] : CrashNote::requests[i - n_crashes];
}

void write_note(int signal) {
  char text[] = "signal 00\n";
  text[7] = static_cast<char>('0' + signal / 10);
  text[8] = static_cast<char>('0' + signal % 10);
  [[maybe_unused]] ssize_t n = ::write(watched.file.load(), text, sizeof text - 1);
}

bool is_loading_thread() { return thread_number() == watched.thread.load(); }

/// A fault, or sent by this process (abort). Whoever sends it from outside says nothing about the
/// plugin.
bool is_own(const siginfo_t& info) { return info.si_code > 0 || info.si_pid == ::getpid(); }

/// A lack of memory ends whoever asks for it first, which says nothing about him.
bool is_lack_of_memory(int signal) {
  if (signal != SIGABRT) return false;
  const std::type_info* thrown = abi::__cxa_current_exception_type();
  return thrown && *thrown == typeid(std::bad_alloc);
}

void note_exit() {
  int file = watched.file.load();
  if (file < 0 || watched.process != ::getpid()) return;
  constexpr char text[] = "exit 1\n";
  if (is_loading_thread()) {
    [[maybe_unused]] ssize_t n = ::write(file, text, sizeof text - 1);
  } else {
    ::unlink(watched.path);
  }
}

extern "C" void on_signal_while_loading(int signal, siginfo_t* info, void*) {
  size_t i = 0;
  while (i < n_crashes + n_requests && signal_at(i) != signal) ++i;
  if (i >= n_crashes)
    ::unlink(watched.path);
  else if (is_loading_thread() && is_own(*info) && !is_lack_of_memory(signal))
    write_note(signal);
  ::sigaction(signal, &watched.before[i], nullptr);
  // A fault happens again when the instruction is tried again. What was sent must be sent again, by
  // the terminal as well, whose Ctrl-C looks like the kernel's.
  if (i >= n_crashes || info->si_code <= 0) ::raise(signal);
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == on_signal_while_loading;
}

}  // namespace

CrashNote::CrashNote(int file, const std::string& path) {
  [[maybe_unused]] static const int registered = std::atexit(note_exit);
  watched.thread = thread_number();
  watched.process = ::getpid();
  size_t n = std::min(path.size(), sizeof watched.path - 1);
  std::memcpy(watched.path, path.data(), n);
  watched.path[n] = '\0';
  watched.file = file;
  struct sigaction action {};
  action.sa_sigaction = on_signal_while_loading;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < n_crashes + n_requests; ++i) {
    struct sigaction& before = watched.before[i];
    watched.is_set[i] = ::sigaction(signal_at(i), nullptr, &before) == 0 && !is_ours(before) &&
                        ((before.sa_flags & SA_SIGINFO) || before.sa_handler != SIG_IGN) &&
                        ::sigaction(signal_at(i), &action, nullptr) == 0;
  }
}

CrashNote::~CrashNote() {
  watched.file = -1;
  for (size_t i = 0; i < n_crashes + n_requests; ++i) {
    struct sigaction now {};
    if (watched.is_set[i] && ::sigaction(signal_at(i), nullptr, &now) == 0 && is_ours(now))
      ::sigaction(signal_at(i), &watched.before[i], nullptr);
  }
}

}  // namespace tenon
