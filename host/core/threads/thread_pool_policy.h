// When the thread pool shares work: what it remembers of the calls before. Times in microseconds.
#pragma once

#include <algorithm>

namespace tenon {

/// For so long an idle worker waits before it sleeps.
constexpr double worker_spin_us = 50;

/// The serial times after a wait that shows contention. Used by the caller that has the workers.
class BackOff {
 public:
  bool active(double now) const { return now < until_; }
  void long_wait(double begin, double now) {
    const double shared =
        begin - std::max(last_, until_);  // time since the workers were last amiss
    last_ = now;
    if ((now - begin) * rare < shared) return;
    const bool recurs = now < until_ + length_ + 50e3;
    length_ = recurs ? std::min(2 * length_, longest) : shortest;
    until_ = now + length_;
  }

 private:
  static constexpr double rare = 8, shortest = 10e3, longest = 320e3;
  double last_ = 0;
  double until_ = 0;
  double length_ = shortest / 2;
};

/// The work of calls that follow each other so closely that a woken worker would stay awake.
class Streak {
 public:
  /// Adds a call and returns the work of the streak so far.
  double begin(double start, double estimated_us) {
    if (start > end_ + worker_spin_us) work_ = 0;
    const double work = std::max(estimated_us, 0.0);
    end_ = start + work;
    return work_ += work;
  }
  /// Of a call whose time was not estimated.
  void end(double start, double now) {
    work_ += now - start;
    end_ = now;
  }

 private:
  double end_ = 0;
  double work_ = 0;
};

}  // namespace tenon
