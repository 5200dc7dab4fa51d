// Who begins a part, and how one waits for the others'.
#include "lockstep.h"

#include <sched.h>

#include <chrono>

namespace inductor {

namespace {

constexpr double worth_waking_us = 50;   // as the pool has it
constexpr double longest_wait_us = 100;  // and twice a step's time

double microseconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double, std::micro>(Clock::now().time_since_epoch()).count();
}

void spin() {
  for (int i = 0; i < 8; ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

}  // namespace

Lockstep::Lockstep(int64_t steps, int64_t parts)
    : steps_(steps), n_parts_(parts), parts_(new Part[static_cast<size_t>(parts)]) {}

Lockstep::Participant::Participant(Lockstep& all, int64_t own, bool wakes_others)
    : all(all), own(own), wakes_others(wakes_others), start(microseconds()) {
  ++all.present_;
}

bool Lockstep::is_over() const {
  return std::all_of(&parts_[0], &parts_[0] + n_parts_, [&](const Part& p) {
    return p.done.load(std::memory_order_acquire) >= steps_;
  });
}

bool Lockstep::stays(const Participant& p) const {
  if (!p.may_leave) return true;
  if (parts_[static_cast<size_t>(p.own)].is_sent_away.load(std::memory_order_relaxed)) return false;
  if (!p.wakes_others || present_.load(std::memory_order_relaxed) > 1) return true;
  return microseconds() - p.start < worth_waking_us;
}

bool Lockstep::begins(int64_t step, int64_t part, int64_t own) {
  Part& p = parts_[static_cast<size_t>(part)];
  int64_t before = step;
  if (p.begun.load(std::memory_order_relaxed) != step ||
      !p.begun.compare_exchange_strong(before, step + 1, std::memory_order_acq_rel))
    return false;
  p.runner.store(own, std::memory_order_relaxed);
  return true;
}

void Lockstep::wait_for(int64_t step, const Participant& p) {
  for (int64_t i = 0; i < n_parts_; ++i) {
    const Part& part = parts_[static_cast<size_t>(i)];
    double since = 0, longest = longest_wait_us;
    for (int n = 1; part.done.load(std::memory_order_acquire) <= step; ++n) {
      spin();
      if (n % 16 != 0) continue;
      double now = microseconds();
      if (since == 0) since = now, longest += 2 * (now - p.start) / static_cast<double>(step + 1);
      if (now - since < longest) continue;
      auto runner = static_cast<size_t>(part.runner.load(std::memory_order_relaxed));
      parts_[runner].is_sent_away.store(true, std::memory_order_relaxed);
      sched_yield();
    }
  }
}

}  // namespace inductor
