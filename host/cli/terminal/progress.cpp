#include "cli/terminal/progress.h"

#include "core/error.h"
#include "report/compile_record.h"

#include <unistd.h>
#include <csignal>

#include <atomic>
#include <chrono>
#include <system_error>

namespace tenon::cli {

namespace {

std::atomic<bool> is_shown{false};

void write_to_terminal(std::string_view text) { (void)!::write(2, text.data(), text.size()); }

}  // namespace

ProgressLine::ProgressLine(std::string verb, bool is_wanted) : verb_(std::move(verb)) {
  // What runs in the background does not write into the line that is typed.
  if (!is_wanted || ::tcgetpgrp(2) != ::getpgrp()) return;
  // Signals are for the threads that work.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    teller_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    is_over_ = true;  // there are no more threads: the verb is worth more than the line
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ProgressLine::~ProgressLine() {
  if (!teller_.joinable()) return;
  {
    std::lock_guard lock(ending_);
    is_over_ = true;
  }
  ended_.notify_one();
  teller_.join();
  clear_progress();
}

void ProgressLine::run() {
  using std::chrono::seconds;
  auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(ending_);
  for (int64_t n = 1; !ended_.wait_until(lock, begin + seconds(n), [this] { return is_over_; });
       ++n) {
    std::string_view phase = report::newest_phase();
    is_shown.store(true);
    // The cursor goes back, so that whoever writes next does so over the line.
    write_to_terminal(
        message("\r\x1b[K{}: {}{}{} s\r", verb_, phase, phase.empty() ? "" : ", ", n));
  }
}

void clear_progress() {
  if (is_shown.exchange(false)) write_to_terminal("\r\x1b[K");
}

}  // namespace tenon::cli
