// What recording a body costs, by how many tensors it captures and writes.
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <vector>

namespace tenon {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_of_first_call(int n_parameters) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < n_parameters; ++i) parameters.push_back(ones({2, 2}).requires_grad_());
  optim::Adam optimizer(parameters);
  auto step = compile(
      [&](const Tensor& x) {
        Tensor h = x;
        for (const Tensor& p : parameters) h = (h * p).tanh();
        optimizer.zero_grad();
        h.sum().backward();
        optimizer.step();
        return h.detach();
      },
      {.backend = "eager"});
  Tensor x = ones({2, 2});
  double begun = cpu_seconds();
  step(x);
  return cpu_seconds() - begun;
}

// The best of three: others use the machine, too. Each write once cost a look at each pair of tensors,
// which made this 38 times as much.
TEST(CostOfRecording, AStepWithFourTimesTheParametersCostsLittleMoreThanFourTimes) {
  double few = std::numeric_limits<double>::infinity(), many = few;
  for (int i = 0; i < 3; ++i) {
    few = std::min(few, seconds_of_first_call(100));
    many = std::min(many, seconds_of_first_call(400));
  }
  EXPECT_LT(many, 10 * few);
}

}  // namespace
}  // namespace tenon
