// Programs that run for a while: plain on the CPU, and recorded on a device, with equal logs.
//
// Logs hold shapes and numbers.
#include "graphs.h"

#include <cmath>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tenon::graphs {
namespace {

/// One run of a program: callables as they are, or compiled with these options.
class Course {
 public:
  Course(Device device, std::optional<Options> options)
      : device(device), options_(std::move(options)) {}

  const Device device;

  Tensor row(const std::vector<float>& values) const { return moved(device, tensor(values)); }
  Tensor matrix(int64_t rows, int64_t columns, double begin = 0) const {
    Tensor t = (arange(rows * columns, Dtype::f32) % 7 - 3) * 0.25 + begin;
    return moved(device, t.reshape({rows, columns}));
  }
  template <class F>
  auto compile(F fn) const {
    Options options = options_.value_or(Options{});
    options.disable = !options_;
    return tenon::compile(std::move(fn), options);
  }

  template <class... T>
  void log(const T&... tensors) {
    Line& line = lines.emplace_back();
    (line.add(tensors), ...);
  }
  struct Line {
    std::string shapes;
    std::vector<double> values;

    void add(const Tensor& t) {
      shapes += t.defined() ? to_text(t.dtype()) + to_text(t.sizes()) + " " : "undefined ";
      if (!t.defined()) return;
      for (double v : moved(kCPU, t.detach()).to(Dtype::f64).to_vector<double>())
        values.push_back(v);
    }
  };
  std::vector<Line> lines;

 private:
  std::optional<Options> options_;
};

struct Program {
  std::string name;
  std::function<void(Course&)> body;
};

struct Net : nn::Module {
  nn::Linear in{3, 4}, out{4, 2};
  TENON_MODULE(Net, in, out)
  explicit Net(Device device) {
    NoGradGuard no_grad;
    int i = 0;
    for (const Tensor& p : parameters())
      p.copy_(((arange(p.numel()) % 5 - 2) * 0.25 + 0.125 * i++).reshape(p.sizes()));
    to(device);
  }
  Tensor forward(const Tensor& x) const { return out(in(x).relu()); }
};

// ---- state between calls

void AStateIsWrittenByEachCall(Course& run) {
  Tensor total = run.row({0, 0, 0});
  auto f = run.compile([&](const Tensor& x) {
    total.add_(x * 2.0);
    return total * 0.5;
  });
  for (int i = 0; i < 6; ++i) {
    Tensor mean = f(run.row({1, float(i), 2}));
    run.log(mean, total);
  }
  total.fill_(8);
  run.log(f(run.row({1, 1, 1})), total);
}

void AnArgumentIsWrittenInPlace(Course& run) {
  auto f = run.compile([](Tensor x, const Tensor& y) {
    x.mul_(2.0).add_(y);
    return x.sum();
  });
  Tensor a = run.row({1, 2}), b = run.row({3, 4});
  for (int i = 0; i < 6; ++i) {
    Tensor& x = i % 2 ? a : b;
    run.log(f(x, run.row({0.5, float(i)})), a, b);
  }
}

void ACapturedTensorIsReplaced(Course& run) {
  Tensor w = run.row({1, 2});
  auto f = run.compile([&](const Tensor& x) { return (x * w).relu(); });
  std::vector<Tensor> kept;
  for (int i = 0; i < 12; ++i) {
    if (i % 3 == 2) w = run.row({float(i), -1});
    kept.push_back(f(run.row({1, float(i) - 4})));
    run.log(kept.back());
  }
  for (const Tensor& t : kept) run.log(t);
}

void NumbersOfTheHostChange(Course& run) {
  Tensor scale = tensor(0.5);
  int64_t power = 1;
  auto f = run.compile([&](const Tensor& x, double shift) { return x * scale + shift; });
  for (int i = 0; i < 8; ++i) {
    scale.fill_(0.25 * double(power));
    run.log(f(run.row({1, 2, float(i)}), 0.5 * double(i % 3)));
    power = power * 2 % 7;
  }
}

// ---- results

void ResultsAreKept(Course& run) {
  auto f = run.compile([](const Tensor& x) { return std::pair(x * 2.0, x.sum() + 1.0); });
  std::vector<std::pair<Tensor, Tensor>> kept;
  for (int i = 0; i < 9; ++i) kept.push_back(f(run.row({float(i), 1})));
  for (const auto& [a, b] : kept) run.log(a, b);
}

void AResultIsTheNextArgument(Course& run) {
  auto f = run.compile([](const Tensor& x) { return x * 0.5 + 1.0; });
  Tensor x = run.row({8, -8, 3});
  for (int i = 0; i < 7; ++i) {
    x = f(x);
    run.log(x, f(f(x)));
  }
}

void ResultsAreViewsAndArguments(Course& run) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x + 1.0;
    return std::tuple(y, y.t(), x.select(0, 1), x, y.sum(0).unsqueeze(0));
  });
  for (int i = 0; i < 5; ++i) {
    Tensor x = run.matrix(2, 3, i);
    auto [y, turned, part, same, sums] = f(x);
    run.log(y, turned, part, same, sums);
    y.fill_(7);
    part.fill_(3);
    run.log(turned, x, sums);
  }
}

// ---- sizes and callables

void SizesTakeTurns(Course& run) {
  auto f = run.compile([](const Tensor& x) { return (x * 2.0).relu().sum(0); });
  for (int64_t n : {4, 7, 1, 32, 7, 4, 5, 4, 7, 1, 32, 1, 7, 64, 4}) run.log(f(run.matrix(n, 3)));
}

void SeveralCallablesOverOneModel(Course& run) {
  Net net(run.device);
  auto train = run.compile([&](const Tensor& x) {
    Tensor loss = net(x).square().mean();
    loss.backward();
    return loss.detach();
  });
  auto look = run.compile([&](const Tensor& x) {
    NoGradGuard no_grad;
    return net(x).argmax(1);
  });
  optim::SGD sgd(net.parameters(), {.lr = 0.0625});
  for (int i = 0; i < 6; ++i) {
    sgd.zero_grad();
    run.log(train(run.matrix(5, 3, 0.25 * i)));
    sgd.step();
    run.log(look(run.matrix(4, 3)), look(run.matrix(2, 3)));
  }
}

void FunctionsCallEachOthersResults(Course& run) {
  auto first = run.compile([](const Tensor& x) { return x * 2.0; });
  auto second = run.compile([](const Tensor& x) { return x.relu() + 1.0; });
  Tensor kept;
  for (int i = 0; i < 8; ++i) {
    Tensor a = first(run.row({float(i), -2}));
    Tensor b = i % 3 ? second(a) : second(second(a));
    if (i % 4 == 1) kept = b;
    run.log(a, b, kept);
  }
}

// ---- training

void AForwardABackwardAStep(Course& run) {
  Net net(run.device);
  optim::Adam adam(net.parameters(), {.lr = 0.125});
  auto f = run.compile([&](const Tensor& x) { return net(x).square().mean(); });
  for (int i = 0; i < 8; ++i) {
    adam.zero_grad();
    Tensor loss = f(run.matrix(4, 3, 0.5 * (i % 3)));
    loss.backward();
    run.log(loss, net.in.weight.grad(), net.out.bias.grad());
    adam.step();
  }
}

void AWholeStep(Course& run) {
  Net net(run.device);
  optim::SGD sgd(net.parameters(), {.lr = 0.0625, .momentum = 0.5});
  auto step = run.compile([&](const Tensor& x, const Tensor& y) {
    sgd.zero_grad();
    Tensor loss = (net(x) - y).square().mean();
    loss.backward();
    sgd.step();
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i) run.log(step(run.matrix(4, 3, 0.25 * i), run.matrix(4, 2)));
  run.log(net.in.weight, net.out.bias);
}

void GradientsAreAccumulated(Course& run) {
  Net net(run.device);
  auto f = run.compile([&](const Tensor& x) { return net(x).square().mean(); });
  for (int step = 0; step < 3; ++step) {
    net.zero_grad();
    for (int i = 0; i < 3; ++i) f(run.matrix(2 + step % 2, 3, 0.25 * i)).backward();
    run.log(net.in.weight.grad(), net.in.bias.grad());
  }
}

void BackwardsComeLate(Course& run) {
  Tensor w = run.row({0.5, -1, 2});
  w.requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (x * w).tanh().mul(w).sum(); });
  std::deque<Tensor> losses;
  for (int i = 0; i < 9; ++i) {
    losses.push_back(f(run.row({0, 1, float(i % 2)})));
    if (losses.size() < 3) continue;
    losses.front().backward();
    run.log(losses.front(), w.grad());
    losses.pop_front();
  }
  w.set_grad({});
  Tensor both = losses[0] + losses[1];
  both.backward();
  run.log(w.grad());
}

void ABackwardIsKept(Course& run) {
  Tensor w = run.row({1, 2});
  w.requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (x * w * w).sum(); });
  for (int i = 0; i < 5; ++i) {
    Tensor loss = f(run.row({1, float(i)}));
    loss.backward({}, true);
    loss.backward();
    run.log(w.grad());
  }
}

void ForwardsWithoutBackwards(Course& run) {
  Tensor w = run.row({1, 2});
  w.requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (x * w).relu().sum(); });
  std::vector<Tensor> held;
  for (int i = 0; i < 9; ++i) {
    Tensor loss = f(run.row({1, float(i) - 4}));
    run.log(loss);
    if (i % 3 == 0) held.push_back(loss);
    if (i % 4 == 1) loss.backward();
  }
  for (Tensor& loss : held) loss.backward();
  run.log(w.grad());
}

void GradientModesTakeTurns(Course& run) {
  Tensor w = run.row({1, -2});
  w.requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (x * w).sum(); });
  for (int i = 0; i < 8; ++i) {
    if (i % 2) {
      NoGradGuard no_grad;
      run.log(f(run.row({1, float(i)})));
    } else {
      f(run.row({1, float(i)})).backward();
      run.log(w.grad());
    }
  }
}

// ---- around the calls

void TheBodyLooksAtData(Course& run) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 2.0;
    return y.sum().item<float>() > 4 ? y + 1.0 : y - 1.0;
  });
  for (int i = 0; i < 8; ++i) run.log(f(run.row({float(i), 1})));
}

void EverythingIsForgotten(Course& run) {
  auto f = run.compile([](const Tensor& x) { return x * 2.0 + 1.0; });
  std::vector<Tensor> kept;
  for (int i = 0; i < 9; ++i) {
    kept.push_back(f(run.row({float(i), 3})));
    if (i % 4 == 3) tenon::reset();
  }
  for (const Tensor& t : kept) run.log(t);
}

void ThreadsCallOneFunction(Course& run) {
  auto f = run.compile([](const Tensor& x) { return (x * 2.0).sum(); });
  std::vector<std::vector<Tensor>> results(3);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 6; ++i) results[t].push_back(f(run.row({float(t), float(i)})));
    });
  for (std::thread& t : threads) t.join();
  for (const auto& list : results)
    for (const Tensor& t : list) run.log(t);
}

const std::vector<Program>& programs() {
#define PROGRAM(Name) \
  { #Name, &Name }
  static const std::vector<Program> list{PROGRAM(AStateIsWrittenByEachCall),
                                         PROGRAM(AnArgumentIsWrittenInPlace),
                                         PROGRAM(ACapturedTensorIsReplaced),
                                         PROGRAM(NumbersOfTheHostChange),
                                         PROGRAM(ResultsAreKept),
                                         PROGRAM(AResultIsTheNextArgument),
                                         PROGRAM(ResultsAreViewsAndArguments),
                                         PROGRAM(SizesTakeTurns),
                                         PROGRAM(SeveralCallablesOverOneModel),
                                         PROGRAM(FunctionsCallEachOthersResults),
                                         PROGRAM(AForwardABackwardAStep),
                                         PROGRAM(AWholeStep),
                                         PROGRAM(GradientsAreAccumulated),
                                         PROGRAM(BackwardsComeLate),
                                         PROGRAM(ABackwardIsKept),
                                         PROGRAM(ForwardsWithoutBackwards),
                                         PROGRAM(GradientModesTakeTurns),
                                         PROGRAM(TheBodyLooksAtData),
                                         PROGRAM(EverythingIsForgotten),
                                         PROGRAM(ThreadsCallOneFunction)};
#undef PROGRAM
  return list;
}

class Programs : public Graphs, public testing::WithParamInterface<Program> {
 protected:
  static void expect_same_logs(const Options& options) {
    Course plain(kCPU, std::nullopt), compiled(gpu, options);
    GetParam().body(plain);
    GetParam().body(compiled);
    ASSERT_EQ(compiled.lines.size(), plain.lines.size());
    for (size_t i = 0; i < plain.lines.size(); ++i) {
      const Course::Line &found = compiled.lines[i], &expected = plain.lines[i];
      ASSERT_EQ(found.shapes, expected.shapes) << "line " << i;
      for (size_t k = 0; k < expected.values.size(); ++k)
        ASSERT_NEAR(found.values[k], expected.values[k], 1e-4 + 1e-4 * std::abs(expected.values[k]))
            << "line " << i << ", number " << k;
    }
  }
};

TEST_P(Programs, AsTheyAre) {
  expect_same_logs(recorded({{"slow_path_cudagraph_asserts", "true"}}));
}
TEST_P(Programs, PoisonedAndRecordedAtOnce) {
  expect_same_logs(recorded({{"skip_cudagraph_warmup", "true"}, {"cuda_graph_poison", "true"}}));
}
TEST_P(Programs, WithWritesInTheGraph) {
  auto flags = config::patch({{"dynamo.cudagraph_backend_keep_input_mutation", true},
                              {"dynamo.cudagraph_backend_support_input_mutation", true}});
  expect_same_logs(recorded());
}

TEST_P(Programs, FusedAndPoisoned) {
  expect_same_logs(fused({{"slow_path_cudagraph_asserts", "true"}, {"cuda_graph_poison", "true"}}));
}

INSTANTIATE_TEST_SUITE_P(All, Programs, testing::ValuesIn(programs()),
                         [](const testing::TestParamInfo<Program>& info) {
                           return info.param.name;
                         });

}  // namespace
}  // namespace tenon::graphs
