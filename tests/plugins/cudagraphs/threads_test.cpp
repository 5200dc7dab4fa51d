// Four threads that record and replay at once, over the double: a program without the fibers of
// generated kernels, so that it can run under the thread sanitizer.
//
// TENON_TEST_THREAD_CALLS: how many calls each thread makes (60).
#include "graphs.h"

#include <tenon/compiler.h>

#include <cstdlib>
#include <thread>

namespace tenon::graphs {
namespace {

int calls() {
  const char* given = std::getenv("TENON_TEST_THREAD_CALLS");
  return given ? std::atoi(given) : 60;
}

/// Runs `call(thread, i)` in four threads; each call says what is wrong with it.
void in_four_threads(const std::function<std::string(size_t, int)>& call) {
  std::vector<std::string> wrong(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < calls() && wrong[t].empty(); ++i) try {
          wrong[t] = call(t, i);
        } catch (const std::exception& e) {
          wrong[t] = e.what();
        }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& what : wrong) EXPECT_EQ(what, "");
}

std::string compared(const Tensor& found, const Tensor& expected) {
  std::vector<float> a = moved(kCPU, found.detach()).to_vector<float>();
  return a == expected.to_vector<float>() ? "" : message("{} for {}", found, expected);
}

Tensor numbers(int64_t n, size_t t, int i) {
  return arange(n, Dtype::f32) + static_cast<double>(t) * 8 + static_cast<double>(i % 7);
}

class Threads : public Graphs {};

TEST_F(Threads, CallOneFunctionForManySizes) {
  auto body = [](const Tensor& x, const Tensor& y) { return maximum(x * 2.0, y) + 1.0; };
  auto f = compile(body, recorded());
  in_four_threads([&](size_t t, int i) {
    Tensor x = numbers(3 + i % 3, t, i), y = numbers(3 + i % 3, 3 - t, i + 1);
    return compared(f(there(x), there(y)), body(x, y));
  });
  EXPECT_GT(n_replays(), calls());
}

TEST_F(Threads, TrainBesideEachOther) {
  auto loss = [](const Tensor& w, const Tensor& x) { return (w * x).relu().sum(); };
  auto shared = compile(loss, recorded());
  in_four_threads([&](size_t t, int i) {
    Tensor x = numbers(4, t, i), w = there(ones({4}) * 0.5);
    w.requires_grad_();
    bool is_own = i % 16 == 0;  // compiled while others run
    (is_own ? compile(loss, recorded())(w, there(x)) : shared(w, there(x))).backward();
    return compared(w.grad(), (x > 0).to(Dtype::f32) * x);
  });
}

TEST_F(Threads, HoldResultsOfThePoolAndMarkSteps) {
  auto f = compile([](const Tensor& x) { return x * 0.5 - 1.0; },
                   recorded({{"cuda_graph_outputs", "\"pool\""}}));
  in_four_threads([&](size_t t, int i) {
    if (i % 3 == 0) compiler::cudagraph_mark_step_begin();
    Tensor x = numbers(4, t, i);
    return compared(f(there(x)), x * 0.5 - 1.0);
  });
}

TEST_F(Threads, ReadReportsAndGiveMemoryBackMeanwhile) {
  auto f = compile([](const Tensor& x) { return x.amax({0}) + x; },
                   recorded({{"slow_path_cudagraph_asserts", "true"}}));
  in_four_threads([&](size_t t, int i) -> std::string {
    if (t == 0) return functions_told().empty() || f.explain().empty() ? "nothing is told" : "";
    if (t == 1 && i % 8 == 0) empty_cache(gpu);
    Tensor x = numbers(4, t, i);
    return compared(f(there(x)), x.amax({0}) + x);
  });
}

TEST_F(Threads, RecordOnOneStream) {
  Stream common(gpu);
  auto f = compile([](const Tensor& x) { return x + x * 3.0; }, recorded());
  in_four_threads([&](size_t t, int i) {
    StreamGuard guard(common);
    Tensor x = numbers(3 + i / 20, t, i);
    return compared(f(there(x)), x * 4.0);
  });
}

}  // namespace
}  // namespace tenon::graphs
