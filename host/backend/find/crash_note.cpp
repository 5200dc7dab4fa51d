// Signal handlers for the moment of loading a plugin. A handler does nothing but system calls.
#include "backend/find/crash_note.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <iterator>

namespace tenon {
namespace {

constexpr size_t n_crashes = std::size(CrashNote::crashes);
constexpr size_t n_requests = std::size(CrashNote::requests);

/// What the handlers read; written before they are set.
struct Watched {
  std::atomic<int> file{-1};
  std::atomic<long> thread{0};
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

extern "C" void on_signal_while_loading(int signal, siginfo_t* info, void*) {
  size_t i = 0;
  while (i < n_crashes + n_requests && signal_at(i) != signal) ++i;
  if (i >= n_crashes)
    ::unlink(watched.path);
  else if (thread_number() == watched.thread.load())
    write_note(signal);
  ::sigaction(signal, &watched.before[i], nullptr);
  // A fault happens again when the instruction is tried again; what was sent must be sent again.
  if (info->si_code <= 0) ::raise(signal);
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == on_signal_while_loading;
}

}  // namespace

CrashNote::CrashNote(int file, const std::string& path) {
  watched.file = file;
  watched.thread = thread_number();
  size_t n = std::min(path.size(), sizeof watched.path - 1);
  std::memcpy(watched.path, path.data(), n);
  watched.path[n] = '\0';
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
  for (size_t i = 0; i < n_crashes + n_requests; ++i) {
    struct sigaction now {};
    if (watched.is_set[i] && ::sigaction(signal_at(i), nullptr, &now) == 0 && is_ours(now))
      ::sigaction(signal_at(i), &watched.before[i], nullptr);
  }
}

}  // namespace tenon
