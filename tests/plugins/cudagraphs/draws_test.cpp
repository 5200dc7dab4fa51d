// Random numbers of recorded functions beside those of the same calls in eager mode, on the device
// and on the CPU: the same bits, and a generator that stands where it would.
#include "graphs.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tenon::graphs {
namespace {

class Draws : public Graphs {};

Options eager() {
  Options options;
  options.disable = true;
  return options;
}

Tensor halves(Device device, std::vector<int64_t> sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return moved(device, ((arange(n, Dtype::f32) % 5) * 0.25).reshape(sizes));
}

/// What a program found: tensors, brought to the CPU, and where the generator stood behind them.
class Found {
 public:
  void add(const Tensor& t) {
    values_.push_back(moved(kCPU, t.detach()).clone());
    states_.push_back(rng_state());
  }
  void expect(const Found& wanted, const std::string& what, bool is_exact = true) const {
    ASSERT_EQ(values_.size(), wanted.values_.size());
    for (size_t i = 0; i < values_.size(); ++i) {
      std::string at = what + ", value " + std::to_string(i);
      EXPECT_EQ(states_[i], wanted.states_[i]) << at;
      if (is_exact)
        EXPECT_TRUE(equal(values_[i], wanted.values_[i])) << at << "\n"
                                                          << values_[i] << "\n"
                                                          << wanted.values_[i];
      else
        expect_equal(values_[i], wanted.values_[i], at);
    }
  }

 private:
  std::vector<Tensor> values_;
  std::vector<RngState> states_;
};

using Program = std::function<void(Device, const Options&, Found&)>;

/// The program recorded gives the bits that it gives in eager mode on the device and on the CPU. Of
/// numbers that are rounded, fused code has others.
void expect_as_eager(const Program& program, const std::string& what, bool is_exact = true,
                     std::map<std::string, std::string> options = {}) {
  auto run = [&](Device device, const Options& how) {
    Found out;
    manual_seed(5);
    program(device, how, out);
    return out;
  };
  Found on_device = run(gpu, eager()), on_cpu = run(kCPU, eager());
  Found found = run(gpu, recorded(options));
  found.expect(on_device, what + " beside eager mode on the device");
  found.expect(on_cpu, what + " beside the CPU", is_exact);
  Found of_fused = run(gpu, fused(options));
  of_fused.expect(on_device, what + ", fused, beside eager mode on the device", is_exact);
}

// Fused code of kernels alone is recorded at its first call.
int64_t replays_of(const Options& how, int calls) {
  return how.disable ? 0 : how.backend == "inductor" ? calls - 1 : calls - 2;
}

// ---- each op

struct Op {
  std::string name;
  std::function<Tensor(const Tensor&)> body;
  bool is_exact = true;  // normal numbers of a GPU are the CPU's within one unit of the last place
};

const std::vector<Op>& ops() {
  static const std::vector<Op> list{
      {"rand_like", [](const Tensor& x) { return x + rand_like(x); }},
      {"randn_like", [](const Tensor& x) { return x + randn_like(x); }, false},
      {"randint_like", [](const Tensor& x) { return x + randint_like(x, 100); }},
      {"bernoulli", [](const Tensor& x) { return x * bernoulli(x); }},
      {"bernoulli_", [](const Tensor& x) { return x * empty_like(x).bernoulli_(0.25); }},
      {"uniform_", [](const Tensor& x) { return x * empty_like(x).uniform_(-1, 1); }},
      {"normal_", [](const Tensor& x) { return x * empty_like(x).normal_(1, 2); }, false},
      {"exponential_", [](const Tensor& x) { return x * empty_like(x).exponential_(); }, false},
      {"dropout", [](const Tensor& x) { return dropout(x, 0.5, true); }},
      {"alpha_dropout", [](const Tensor& x) { return alpha_dropout(x, 0.5, true); }, false},
      {"feature_dropout", [](const Tensor& x) { return feature_dropout(x, 0.5, true); }},
      {"several", [](const Tensor& x) {
         return rand_like(x) * bernoulli(x) + dropout(x, 0.25, true) - rand_like(x);
       }}};
  return list;
}

TEST_F(Draws, OfEachOpAreThoseOfEagerCalls) {
  for (const Op& op : ops()) {
    expect_as_eager(
        [&](Device device, const Options& how, Found& out) {
          auto f = compile(op.body, how);
          for (int i = 0; i < 7; ++i) {
            if (i == 5) manual_seed(99);
            out.add(f(halves(device, {3, 7})));
          }
          EXPECT_EQ(n_replays(), replays_of(how, 7)) << op.name << ": " << f.explain();
        },
        op.name, op.is_exact);
  }
  EXPECT_EQ(skips("unsafe_op"), 0);
}

// What the CPU draws would be repeated.
TEST_F(Draws, OfTheCpuAreNotRecordedAndStayThose) {
  for (const char* divides : {"false", "true"})
    expect_as_eager(
        [&](Device device, const Options& how, Found& out) {
          auto f = compile(
              [](const Tensor& x) {
                Tensor y = dropout(x * 2.0, 0.5, true) + 1.0;
                return y + multinomial(y, 4, true) + rand_like(y);
              },
              how);
          for (int i = 0; i < 6; ++i) out.add(f(halves(device, {4})));
        },
        "pieces", true, {{"graph_partition", divides}});
  EXPECT_GT(skips("unsafe_op"), 0);
}

// ---- training

// The product is a library's on a GPU: its operands are copied, which takes a second recording.
TEST_F(Draws, OfDropoutInTrainingAreThoseOfEagerCalls) {
  expect_as_eager(
      [](Device device, const Options& how, Found& out) {
        Tensor w = moved(device, ones({8, 8}) * 0.25);
        w.requires_grad_();
        auto f = compile(
            [&](const Tensor& x) {
              Tensor hidden = dropout(x.matmul(w), 0.5, true).relu();
              return dropout(hidden.matmul(w), 0.5, true).sum();
            },
            how);
        for (int i = 0; i < 8; ++i) {
          if (i == 5) manual_seed(3);
          w.set_grad({});
          Tensor loss = f(halves(device, {4, 8}));
          if (i != 6) loss.backward();
          out.add(loss);
          if (i != 6) out.add(w.grad());
        }
        EXPECT_EQ(n_replays() >= 11, !how.disable) << f.explain();
      },
      "training");
  EXPECT_EQ(skips("unsafe_op"), 0);
}

TEST_F(Draws, OfAWholeStepAreThoseOfEagerCalls) {
  expect_as_eager(
      [](Device device, const Options& how, Found& out) {
        Tensor w = moved(device, ones({6, 6}) * 0.5);
        w.requires_grad_();
        optim::SGD sgd({w}, {.lr = 0.0625});
        auto step = compile(
            [&](const Tensor& x) {
              sgd.zero_grad();
              Tensor loss = dropout(x * w, 0.5, true).square().sum();
              loss.backward();
              sgd.step();
              return loss.detach();
            },
            how);
        for (int i = 0; i < 6; ++i) out.add(step(halves(device, {6, 6})));
        out.add(w);
      },
      "a whole step", false);  // sums are rounded
}

// A forward that is called twice before its backwards: each backward has the mask of its forward.
TEST_F(Draws, OfForwardsThatWaitAreKept) {
  expect_as_eager(
      [](Device device, const Options& how, Found& out) {
        Tensor w = moved(device, ones({16}));
        w.requires_grad_();
        auto f = compile([&](const Tensor& x) { return (dropout(x, 0.5, true) * w).sum(); }, how);
        for (int i = 0; i < 5; ++i) {
          w.set_grad({});
          Tensor first = f(halves(device, {16})), second = f(halves(device, {16}) + 1.0);
          second.backward();
          out.add(w.grad());
          first.backward();
          out.add(w.grad());
        }
      },
      "waiting forwards");
}

// ---- several functions, sizes, resets

TEST_F(Draws, OfFunctionsThatTakeTurnsAreThoseOfEagerCalls) {
  for (const char* at_once : {"false", "true"})
    expect_as_eager(
        [](Device device, const Options& how, Found& out) {
          auto noise = compile([](const Tensor& x) { return x + rand_like(x); }, how);
          auto drop = compile([](const Tensor& x) { return dropout(x, 0.5, true) * 2.0; }, how);
          auto plain = compile([](const Tensor& x) { return x * 2.0; }, how);
          for (int i = 0; i < 24; ++i) {
            Tensor x = halves(device, {2 + i % 3, 5});
            if (i == 9) reset();
            if (i % 7 == 3) manual_seed(static_cast<uint64_t>(i));
            if (i % 5 == 4) out.add(rand_like(x));
            RngState before = rng_state();
            out.add(drop(noise(plain(x))));
            if (i % 6 == 5) set_rng_state(before);
            out.add(noise(x));
          }
        },
        "several functions", true, {{"skip_cudagraph_warmup", at_once}});
}

// Each waits for its turn, so that the order of draws is known.
TEST_F(Draws, OfThreadsThatTakeTurnsAreThoseOfEagerCalls) {
  expect_as_eager(
      [](Device device, const Options& how, Found& out) {
        auto f = compile([](const Tensor& x) { return dropout(x, 0.5, true) + rand_like(x); }, how);
        std::mutex taking_turns;
        std::condition_variable next;
        int turn = 0;
        auto work = [&](int mine) {
          for (int i = 0; i < 7; ++i) {
            std::unique_lock lock(taking_turns);
            next.wait(lock, [&] { return turn % 2 == mine; });
            out.add(f(halves(device, {5, 3 + mine})));
            ++turn;
            next.notify_all();
          }
        };
        std::thread first(work, 0), second(work, 1);
        first.join();
        second.join();
      },
      "threads");
}

TEST_F(Draws, OfManyCallsAreThoseOfEagerCalls) {
  expect_as_eager(
      [](Device device, const Options& how, Found& out) {
        auto f = compile([](const Tensor& x) { return dropout(x, 0.5, true); }, how);
        Tensor x = halves(device, {9});
        for (int i = 0; i < 200; ++i) {
          Tensor y = f(x);
          if (i % 20 == 19) out.add(y);
        }
      },
      "many calls");
}

}  // namespace
}  // namespace tenon::graphs
