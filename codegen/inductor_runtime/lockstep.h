// Steps that depend on each other, each in parts that threads run at the same time.
//
// Problem: a job of the pool for each step costs its publication and its end, which is as much as a
// step of a microsecond itself. Method: one job for all steps. Each thread that takes part has one
// part of every step, so that it finds its data in its caches, and says in a line of memory how far
// that is. A part that nobody has begun belongs to whoever has waited for it a moment: so no thread
// has to come, and one that loses its core between two parts stops nobody. One that loses it within
// a part is waited for once and then sent away. Where all threads run, the only line that goes from
// core to core in a step is the one that says how far a part is.
//
// Cost: twice what a line of memory takes from core to core, 0.1 to 0.4 us a step.
#pragma once

#include "workers.h"

#include <atomic>
#include <memory>

namespace inductor {

class Lockstep {
 public:
  Lockstep(int64_t steps, int64_t parts);

  /// begin() gives a thread's own body(step, part), which throws nothing.
  template <class Begin>
  void run(const Workers& workers, Begin&& begin) {
    // The first place may be left once, for the pool to wake those who sleep.
    workers.run(n_parts_ + 1, [&](int64_t place) {
      Participant p(*this, std::max<int64_t>(place - 1, 0), place == 0);
      if (!is_over()) take_part(p, begin());
    });
    Participant last(*this, 0, false);
    last.may_leave = false;
    if (!is_over()) take_part(last, begin());
  }

 private:
  /// Steps of one part. What others read at each step has a line of its own.
  struct Part {
    alignas(64) std::atomic<int64_t> done{0};
    alignas(64) std::atomic<int64_t> begun{0};
    std::atomic<int64_t> runner{0};         // the number of the thread that began it last
    std::atomic<bool> is_sent_away{false};  // the thread of this number
  };
  struct Participant {
    Participant(Lockstep& all, int64_t own, bool wakes_others);
    ~Participant() { --all.present_; }
    Participant(const Participant&) = delete;

    Lockstep& all;
    int64_t own;
    bool wakes_others, may_leave = true;
    double start;  // us
  };

  template <class Body>
  void take_part(Participant& p, Body&& body) {
    for (int64_t step = 0; step < steps_ && stays(p); ++step) {
      run_part(step, p.own, p, body);
      for (int64_t part = 0; part < n_parts_; ++part) {
        Wait wait(*this, p, step, part);
        while (!is_done(step, part))
          if (wait.is_long_enough()) run_part(step, part, p, body);
      }
    }
  }
  template <class Body>
  void run_part(int64_t step, int64_t part, const Participant& p, Body&& body) {
    if (!begins(step, part, p.own)) return;
    body(step, part);
    parts_[static_cast<size_t>(part)].done.store(step + 1, std::memory_order_release);
  }
  bool is_done(int64_t step, int64_t part) const {
    return parts_[static_cast<size_t>(part)].done.load(std::memory_order_acquire) > step;
  }

  /// For a part that is not done.
  class Wait {
   public:
    Wait(Lockstep& all, const Participant& p, int64_t step, int64_t part)
        : all_(all), participant_(p), step_(step), part_(part) {}
    /// Waits a little; whether so long that nobody may have begun the part.
    bool is_long_enough();

   private:
    Lockstep& all_;
    const Participant& participant_;
    int64_t step_, part_;
    int turns_ = 0;
    double since_ = 0, longest_ = 0;  // us
  };

  bool is_over() const;
  bool stays(const Participant& p) const;
  bool begins(int64_t step, int64_t part, int64_t own);

  int64_t steps_, n_parts_;
  std::unique_ptr<Part[]> parts_;
  std::atomic<int> present_{0};
};

}  // namespace inductor
