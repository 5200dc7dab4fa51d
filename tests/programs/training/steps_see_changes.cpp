// Whole steps of training see what changes between calls, as any body does.
#include "program.h"

#include <random>

namespace tenon::programs {
namespace {

struct Line {
  Tensor w = row({1, 2}).requires_grad_();
  /// One step down a loss, of which it gives the value.
  Tensor step(const Tensor& x, double rate) {
    w.set_grad({});
    Tensor loss = (x * w).square().sum() * 0.5;
    loss.backward();
    NoGradGuard no_grad;
    w.sub_(w.grad() * rate);
    return loss.detach();
  }
};

TENON_PROGRAM(ARateByReference, 3) {
  Line line;
  double rate = 0.5;
  auto step = run.compile([&](const Tensor& x) { return line.step(x, rate); });
  for (int i = 0; i < 8; ++i, rate *= 0.5) run.log(step(row({1, 0.5})), line.w);
}

TENON_PROGRAM(ARateAsAnArgument, 3) {
  Line line;
  auto step = run.compile([&](const Tensor& x, double rate) { return line.step(x, rate); });
  for (int i = 0; i < 8; ++i) run.log(step(row({1, 0.5}), 1.0 / (2 << i)), line.w);
}

TENON_PROGRAM(AWarmUpThatEnds, 4) {
  Line line;
  int steps = 0;
  auto step = run.compile([&](const Tensor& x) { return line.step(x, ++steps < 4 ? 0.125 : 0.5); });
  for (int i = 0; i < 8; ++i) run.log(step(row({1, 0.5})), line.w, steps);
}

TENON_PROGRAM(AStepThatPrintsAndCounts, 2) {
  Line line;
  std::string printed;
  auto step = run.compile([&](const Tensor& x) {
    printed += "step;";
    return line.step(x, 0.25);
  });
  for (int i = 0; i < 5; ++i) run.log(step(row({1, 0.5})), printed);
}

TENON_PROGRAM(BatchesThatTheBodyTakesItself, 3) {
  Line line;
  std::vector<Tensor> batches{row({1, 0.5}), row({0.5, 1}), row({2, 0})};
  size_t at = 0;
  auto step = run.compile([&] { return line.step(batches[at++ % batches.size()], 0.125); });
  for (int i = 0; i < 7; ++i) run.log(step(), line.w, int(at));
}

TENON_PROGRAM(TwoModelsInTurn, 3) {
  Line lines[2];
  Line* current = &lines[0];
  auto step = run.compile([&](const Tensor& x) { return current->step(x, 0.125); });
  for (int i = 0; i < 8; ++i) {
    current = &lines[i % 3 == 0];
    run.log(step(row({1, float(i)})), lines[0].w, lines[1].w);
  }
}

TENON_PROGRAM(AWeightIsReplacedBetweenSteps, 3) {
  Line line;
  Tensor old = line.w;
  auto step = run.compile([&](const Tensor& x) { return line.step(x, 0.125); });
  for (int i = 0; i < 8; ++i) {
    run.log(step(row({1, 0.5})), line.w, old);
    if (i % 3 == 1) line.w = row({float(i), 1}).requires_grad_();
  }
}

TENON_PROGRAM(NoiseByTheProgramsOwnDice, 5) {
  Line line;
  std::mt19937 dice(2);
  auto step =
      run.compile([&](const Tensor& x) { return line.step(x + double(dice() % 4) * 0.25, 0.125); });
  for (int i = 0; i < 8; ++i) run.log(step(row({1, 0.5})), line.w);
}

TENON_PROGRAM(NoiseByTheGenerator, 2) {
  Line line;
  auto step =
      run.compile([&](const Tensor& x) { return line.step(x + randint(0, 4, {2}) * 0.25, 0.125); });
  for (int i = 0; i < 6; ++i) run.log(step(row({1, 0.5})), line.w);
}

TENON_PROGRAM(AStepThatThrowsNowAndThen, 3) {
  Line line;
  int steps = 0;
  auto step = run.compile([&](const Tensor& x) {
    if (++steps % 3 == 0) throw std::runtime_error("no batch");
    return line.step(x, 0.125);
  });
  for (int i = 0; i < 8; ++i) {
    run.log_error([&] { run.log(step(row({1, 0.5}))); });
    run.log(line.w, steps);
  }
}

TENON_PROGRAM(TheStepBecomesAnEvaluation, 4) {
  Line line;
  bool trains = true;
  auto step = run.compile([&](const Tensor& x) {
    if (trains) return line.step(x, 0.125);
    NoGradGuard no_grad;
    return (x * line.w).square().sum() * 0.5;
  });
  for (int i = 0; i < 12; ++i) {
    trains = i % 3 != 2;
    run.log(step(row({1, 0.5})), line.w);
  }
}

TENON_PROGRAM(ThreadsThatEachTrain, 3) {
  std::vector<Line> lines(3);
  auto step = run.compile([&](const Tensor& x, int i) { return lines[size_t(i)].step(x, 0.125); });
  in_threads(3, [&](int i) {
    for (int k = 0; k < 8; ++k) step(row({1, float(i)}), i);
  });
  for (const Line& line : lines) run.log(line.w);
}

TENON_PROGRAM(AHistoryOfLosses, 3) {
  Line line;
  std::vector<Tensor> history;
  auto step = run.compile([&](const Tensor& x) {
    history.push_back(line.step(x, 0.125));
    return history.back() * 2.0;
  });
  for (int i = 0; i < 5; ++i) run.log(step(row({1, 0.5})));
  run.log(history);
}

TENON_PROGRAM(AHookOnAWeight, 3) {
  Line line;
  int calls = 0;
  autograd::register_hook(line.w, [&](const Tensor& g) {
    ++calls;
    return g * 0.5;
  });
  auto step = run.compile([&](const Tensor& x) { return line.step(x, 0.125); });
  for (int i = 0; i < 5; ++i) run.log(step(row({1, 0.5})), line.w, calls);
}

}  // namespace
}  // namespace tenon::programs
