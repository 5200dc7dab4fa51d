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
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
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

// Who is alone waits for nobody. The clock is looked at seldom.
bool Lockstep::Wait::is_long_enough() {
  if (all_.present_.load(std::memory_order_relaxed) == 1) return true;
  spin();
  if (++turns_ % 128 != 0) return false;
  double now = microseconds();
  if (since_ == 0) {
    double usual = (now - participant_.start) / static_cast<double>(step_ + 1);
    since_ = now, longest_ = longest_wait_us + 2 * usual;
  }
  if (now - since_ < longest_) return true;
  Part& part = all_.parts_[static_cast<size_t>(part_)];
  auto runner = static_cast<size_t>(part.runner.load(std::memory_order_relaxed));
  all_.parts_[runner].is_sent_away.store(true, std::memory_order_relaxed);
  sched_yield();
  return true;
}

}  // namespace inductor
