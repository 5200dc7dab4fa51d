// Recordings that run for long, in several threads and in several processes: results stay right, and
// memory stays what it was.
//
// TENON_TEST_GRAPH_REPLAYS: how many calls a run has (100000 on a GPU, 2000 over the double).
#include "graphs.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

extern char** environ;

namespace tenon::graphs {
namespace {

class LongRuns : public Graphs {
 protected:
  static int calls() {
    constexpr int on_a_gpu = 100000, over_the_double = 2000;
    const char* given = std::getenv("TENON_TEST_GRAPH_REPLAYS");
    return given ? std::atoi(given) : is_double() ? over_the_double : on_a_gpu;
  }
};

/// Inputs at other addresses each time, of which some are kept for a while.
class Inputs {
 public:
  Tensor next() {
    Tensor& place = kept_[turn_++ % kept_.size()];
    place = there(full({64}, static_cast<double>(turn_ % 7)));
    return place;
  }
  double value() const { return static_cast<double>(turn_ % 7); }

 private:
  std::vector<Tensor> kept_ = std::vector<Tensor>(5);
  size_t turn_ = 0;
};

void expect_bounded(const std::function<void(int)>& call, int n) {
  constexpr int first_calls = 100;
  for (int i = 0; i < first_calls; ++i) call(i);
  synchronize(gpu);
  int64_t held = memory_stats(gpu).allocated_bytes, reserved = memory_stats(gpu).reserved_bytes;
  int64_t recordings = n_recordings();
  for (int i = 0; i < n; ++i) call(i);
  synchronize(gpu);
  constexpr int64_t slack = int64_t{1} << 20, slack_of_pool = int64_t{64} << 20;
  EXPECT_LE(memory_stats(gpu).allocated_bytes, held + slack);
  EXPECT_LE(memory_stats(gpu).reserved_bytes, reserved + slack_of_pool);
  EXPECT_EQ(n_recordings(), recordings);
}

TEST_F(LongRuns, ChangingInputsLeaveMemoryBounded) {
  Inputs inputs;
  Tensor w = there(full({64}, 0.5));
  for (const Options& options : {recorded(), fused()}) {
    auto f =
        compile([&](const Tensor& x) { return std::pair(x * w + 1.0, (x + w).sum()); }, options);
    expect_bounded(
        [&](int i) {
          auto [y, total] = f(inputs.next());
          if (i % 1000 != 999) return;
          expect_equal(y, full({64}, inputs.value() * 0.5 + 1));
          expect_equal(total, full({}, 64 * (inputs.value() + 0.5)));
        },
        calls() / 2);
  }
}

TEST_F(LongRuns, StepsOfTrainingLeaveMemoryBounded) {
  Tensor w = there(full({64}, 0.5));
  w.requires_grad_();
  Inputs inputs;
  auto f = compile([&](const Tensor& x) { return (x * w).square().mean(); }, fused());
  expect_bounded(
      [&](int i) {
        w.set_grad({});
        f(inputs.next()).backward();
        if (i % 1000 != 999) return;
        expect_equal(w.grad(), full({64}, inputs.value() * inputs.value() / 64));
      },
      calls() / 10);
}

TEST_F(LongRuns, FourThreadsWithFunctionsOfTheirOwnAndOneInCommon) {
  auto shared = compile([](const Tensor& x) { return (x * 2.0).sum(); }, fused());
  std::vector<std::thread> threads;
  std::vector<std::string> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      auto own =
          compile([t](const Tensor& x) { return x * 0.5 + static_cast<double>(t); }, recorded());
      for (int i = 0; i < calls() / 50 && wrong[t].empty(); ++i) {
        double value = static_cast<double>(i % 5);
        Tensor x = there(full({32}, value));
        float total = shared(x).item<float>(), first = own(x).select(0, 0).item<float>();
        if (total != 64 * value) wrong[t] = "a sum is " + std::to_string(total);
        if (first != value * 0.5 + static_cast<double>(t))
          wrong[t] = "an element is " + std::to_string(first);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& what : wrong) EXPECT_EQ(what, "");
}

// Both at once on one device; each is this program with this test alone.
TEST_F(LongRuns, TwoProcesses) {
  std::string program = "/proc/self/exe";
  std::string filter = "--gtest_filter=LongRuns.StepsOfTraining*", brief = "--gtest_brief=1";
  std::vector<char*> arguments{program.data(), filter.data(), brief.data(), nullptr};
  std::vector<pid_t> children(2);
  for (pid_t& child : children)
    ASSERT_EQ(::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments.data(), environ),
              0);
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }
}

}  // namespace
}  // namespace tenon::graphs
