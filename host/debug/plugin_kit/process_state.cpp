// The state of the process that plugins share with their host.
#include "debug/plugin_kit/process_state.h"

#include "backend/life/plugin_call.h"
#include "core/error.h"
#include "debug/plugin_kit/bench.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tenon::kit {

namespace {

std::string handler_of(int signal) {
  struct sigaction action {};
  if (::sigaction(signal, nullptr, &action) != 0) return "";
  return message("{} {}", reinterpret_cast<uintptr_t>(action.sa_handler), action.sa_flags);
}

// Rounding, traps and what becomes of denormal numbers; not the flags that operations raise.
std::string floating_point() {
  std::string out = message("rounding {}", std::fegetround());
#if defined(__SSE__)
  out += message(", control {}", _mm_getcsr() & ~0x3Fu);
#endif
  // The host puts right what a plugin changed.
  out += message(", restored {} times", KeepsFloatMode::times_restored());
  return out;
}

std::string affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  return std::string(reinterpret_cast<const char*>(&set), sizeof set);
}

size_t thread_count() {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++n;
  return n;
}

}  // namespace

ProcessState ProcessState::now() {
  ProcessState s;
  for (int signal = 1; signal < NSIG; ++signal) s.handlers_.push_back(handler_of(signal));
  s.floating_point_ = floating_point();
  s.locale_ = std::setlocale(LC_ALL, nullptr);
  s.folder_ = std::filesystem::current_path().string();
  s.affinity_ = affinity();
  s.threads_ = thread_count();
  s.forks_ = forks_so_far();
  return s;
}

std::string ProcessState::change_to(const ProcessState& after, bool with_threads) const {
  for (size_t i = 0; i < handlers_.size(); ++i)
    if (handlers_[i] != after.handlers_[i])
      return message("installed a handler of signal {} ({})", i + 1,
                     strsignal(static_cast<int>(i + 1)));
  if (floating_point_ != after.floating_point_)
    return message("changed the floating-point environment: {} before, {} after", floating_point_,
                   after.floating_point_);
  if (locale_ != after.locale_)
    return message("changed the locale: {} before, {} after", locale_, after.locale_);
  if (folder_ != after.folder_)
    return message("changed the working directory: {} before, {} after", folder_, after.folder_);
  if (affinity_ != after.affinity_) return "changed the affinity of the calling thread";
  if (with_threads && threads_ != after.threads_)
    return message("started {} threads", after.threads_ - threads_);
  if (with_threads && forks_ != after.forks_)
    return message("forked the process {} times", after.forks_ - forks_);
  return "";
}

StdoutWatch::StdoutWatch()
    : kept_(::dup(STDOUT_FILENO)), file_(::memfd_create("stdout", MFD_CLOEXEC)) {
  std::fflush(stdout);
  if (file_ >= 0) ::dup2(file_, STDOUT_FILENO);
}

StdoutWatch::~StdoutWatch() {
  std::fflush(stdout);
  ::dup2(kept_, STDOUT_FILENO);
  ::close(kept_);
  ::close(file_);
}

std::string StdoutWatch::text() const {
  std::fflush(stdout);
  char buffer[80];
  ssize_t n = ::pread(file_, buffer, sizeof buffer, 0);
  return std::string(buffer, n > 0 ? static_cast<size_t>(n) : 0);
}

}  // namespace tenon::kit
