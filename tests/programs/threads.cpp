// One callable in several threads: results are those of each thread, and nobody waits for another's
// body.
#include "program.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <thread>

namespace tenon::programs {
namespace {

thread_local Tensor own_weight;

TENON_PROGRAM(EachThreadHasATensorOfItsOwn, 1) {
  auto f = run.compile([](const Tensor& x) { return x * own_weight; });
  std::vector<std::vector<Tensor>> results(4);
  in_threads(4, [&](int i) {
    own_weight = row({float(i), 2});
    for (int k = 0; k < 20; ++k) results[i].push_back(f(row({1, float(k)})));
    own_weight = Tensor();
  });
  for (const auto& list : results) run.log(list);
}

TENON_PROGRAM(EachThreadTrainsANetOfItsOwn, 1) {
  std::vector<Tensor> weights(4);
  auto loss = run.compile([](const Tensor& x, const Tensor& w) { return (x * w * w).sum(); });
  in_threads(4, [&](int i) {
    Tensor w = row({float(i), 1}).requires_grad_();
    for (int k = 0; k < 10; ++k) {
      w.set_grad({});
      loss(row({1, 0.5}), w).backward();
      NoGradGuard no_grad;
      w.sub_(w.grad() * 0.25);
    }
    weights[i] = w;
  });
  run.log(weights);
}

TENON_PROGRAM(ThreadsOnACutBodyDoNotQueue, 3) {
  static std::atomic<int> inside, met;
  inside = met = 0;
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 2.0;
    bool large = y.sum().item<float>() > 4;
    if (++inside > 1) ++met;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --inside;
    return large ? y + 1.0 : y - 1.0;
  });
  for (float v : {1, 3}) run.log(f(row({v, 1})));
  in_threads(6, [&](int i) {
    for (int k = 0; k < 5; ++k) f(row({float(i % 2 * 2 + 1), 1}));
  });
  run.log("queued", met == 0);
}

/// Where two threads wait for each other.
class Meeting {
 public:
  void arrive() {
    std::unique_lock lock(arrived_lock_);
    ++arrived_;
    all_here_.notify_all();
    all_here_.wait(lock, [this] { return arrived_ % 2 == 0 || arrived_ > 2; });
  }

 private:
  std::mutex arrived_lock_;
  std::condition_variable all_here_;
  int arrived_ = 0;
};

TENON_PROGRAM(TwoThreadsMeetInACutBody, 3) {
  Meeting* meeting = nullptr;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2.0;
    bool large = y.sum().item<float>() > 0;
    meeting->arrive();
    return large ? y + 1.0 : y;
  });
  std::vector<Tensor> results(2);
  for (int round = 0; round < 3; ++round) {
    Meeting here;
    meeting = &here;
    in_threads(2, [&](int i) { results[i] = f(row({float(i), 1})); });
    run.log(results);
  }
}

TENON_PROGRAM(CodeIsForgottenWhileOthersCall, 999) {
  auto f = run.compile([](const Tensor& x) { return x.sum().item<float>() > 3 ? x * 2.0 : -x; });
  std::atomic<int> wrong{0};
  in_threads(4, [&](int i) {
    for (int k = 0; k < 40; ++k) {
      if (i == 0 && k % 4 == 0) f.reset();
      float expected = k % 3 + 1 > 3 ? 2 * float(k % 3) : -float(k % 3);
      wrong += f(row({float(k % 3), 1})).to_vector<float>()[0] != expected;
    }
  });
  run.log("wrong", wrong.load());
}

TENON_PROGRAM(AllThreadsMakeTheFirstCall, 10) {
  for (int round = 0; round < 10; ++round) {
    auto f = run.compile([](const Tensor& x) { return x * 2.0 + 1.0; }, {.recompile_limit = 1});
    std::atomic<int> wrong{0};
    in_threads(8, [&](int i) {
      wrong += f(row({float(i), 1})).to_vector<float>() != std::vector{2.0f * float(i) + 1, 3.0f};
    });
    run.log("wrong", wrong.load(), "after the limit", f.stats().eager_calls_after_limit);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AllThreadsMakeTheFirstCall, 10);

TENON_PROGRAM(AllThreadsLeaveThePathAtOnce, 20) {
  for (int round = 0; round < 10; ++round) {
    std::atomic<bool> turns{false};
    auto f = run.compile([&](const Tensor& x) { return turns ? x * 2.0 - x : x * 2.0 + x; },
                         {.recompile_limit = 2});
    f(row({1, 1}));
    turns = true;
    std::atomic<int> wrong{0};
    in_threads(8, [&](int i) {
      wrong += f(row({float(i), 1})).to_vector<float>() != std::vector{float(i), 1.0f};
    });
    run.log("wrong", wrong.load(), "after the limit", f.stats().eager_calls_after_limit);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AllThreadsLeaveThePathAtOnce, 20);

TENON_PROGRAM(GradModeBelongsToTheThread, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (x * w).sum(); });
  std::vector<int> with_history(4);
  in_threads(4, [&](int i) {
    EnableGradGuard mode(i % 2 == 0);
    for (int k = 0; k < 10; ++k) with_history[i] += f(row({1, 2})).requires_grad();
  });
  run.log(with_history);
}

TENON_PROGRAM(ManySizesFromManyThreads, 4) {
  auto f = run.compile([](const Tensor& x) { return (x + 1.0).sum(); });
  f(ones({2}));
  f(ones({3}));
  std::vector<float> sums(4);
  in_threads(4, [&](int i) {
    for (int k = 0; k < 50; ++k) sums[i] += f(ones({(i * 50 + k) % 70 + 2})).item<float>();
  });
  run.log(sums);
}

TENON_PROGRAM(WeightsAreReplacedWhileOthersServe, 1) {
  std::mutex weights_lock;
  Tensor weights = full({2}, 1.0);
  auto f = run.compile([&](const Tensor& x) {
    Tensor w;
    {
      std::lock_guard lock(weights_lock);
      w = weights;
    }
    return x * w - w * x;
  });
  std::atomic<int> wrong{0};
  in_threads(3, [&](int i) {
    for (int k = 0; k < 100; ++k) {
      if (i == 0) {
        std::lock_guard lock(weights_lock);
        weights = full({2}, float(k));
      } else {
        wrong += f(row({1, float(k)})).abs().sum().item<float>() != 0;
      }
    }
  });
  run.log("wrong", wrong.load());
}

}  // namespace
}  // namespace tenon::programs
