// Steps that depend on each other, each in parts that threads run at the same time.
//
// Problem: a job of the pool for each step costs its publication and its end, which is as much as a
// step of a microsecond itself. Method: one job for all steps. Each thread that takes part has one
// part of every step, so that it finds its data in its caches, and says in a line of memory how far
// that is. A part that nobody has begun belongs to whoever waits for it: so no thread has to come,
// and one that loses its core between two parts stops nobody. One that loses it within a part is
// waited for once and then sent away.
//
// Cost: some 0.1 us a step where all threads run.
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
  struct alignas(64) Part {
    std::atomic<int64_t> begun{0}, done{0};  // steps
    std::atomic<int64_t> runner{0};          // the number of the thread that began it last
    std::atomic<bool> is_sent_away{false};   // the thread of this number
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
      for (int64_t i = 0; i < n_parts_; ++i) {
        int64_t part = (p.own + i) % n_parts_;
        if (!begins(step, part, p.own)) continue;
        body(step, part);
        parts_[static_cast<size_t>(part)].done.store(step + 1, std::memory_order_release);
      }
      wait_for(step, p);
    }
  }

  bool is_over() const;
  bool stays(const Participant& p) const;
  bool begins(int64_t step, int64_t part, int64_t own);
  void wait_for(int64_t step, const Participant& p);

  int64_t steps_, n_parts_;
  std::unique_ptr<Part[]> parts_;
  std::atomic<int> present_{0};
};

}  // namespace inductor
