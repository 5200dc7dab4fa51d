// Streams and events of the double: queues whose work is done when somebody waits.
#pragma once

#include "../../plugins/cuda/api/driver.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace fake_cuda {

using tenon::cuda::api::Result;

struct EventState {
  uint64_t asked = 0, reached = 0;  // records so far, and the last one that has come about
  std::set<uint64_t> open;          // records that have not: a later one may overtake them
  double reached_at = 0;            // pieces of work done by then, for times
};

/// Runs one piece of work, or says that it has to wait: `ready` is asked first.
struct Work {
  std::function<bool()> ready;  // empty: always
  std::function<Result()> run;
};

struct GraphState;

struct StreamState {
  int device = 0;
  std::deque<Work> queue;
  std::unique_ptr<GraphState> capture = nullptr;  // under way
  bool is_capture_broken = false;
  bool is_joined = false;  // while it is captured: see fake_cuda_join
  std::thread::id capturer = {};

  ~StreamState();
};

/// All streams of the process.
class Streams {
 public:
  void seed(uint64_t value) { random_.seed(value); }
  StreamState* make(int device);
  void destroy(StreamState* stream);
  /// The stream that a null handle means.
  StreamState* standard(int device);
  bool knows(StreamState* stream) const { return all_.contains(stream); }
  /// Ends all captures with an error; whether there was one.
  bool break_captures();

  /// Works until `done` holds. What fails is returned, once; so is a wait that nothing can end.
  Result run_until(const std::function<bool()>& done);
  /// One piece of work of any stream, if there is one that can run.
  Result step();
  double clock() const { return clock_; }
  /// A number below n, drawn from the seed.
  size_t draw(size_t n) { return random_() % n; }
  size_t alive() const { return all_.size(); }

 private:
  std::vector<StreamState*> runnable() const;

  std::set<StreamState*> all_;
  StreamState* standard_[16] = {};
  std::mt19937_64 random_{1};
  double clock_ = 0;
};

}  // namespace fake_cuda
