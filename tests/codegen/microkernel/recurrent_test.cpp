// Steps of recurrent cells beside the same in f64, at each level of vectors: units that fill vectors
// and groups or not, rows of one tile or many.
#include "plugins/random_numbers.h"

#include <gtest/gtest.h>
#include <microkernel/recurrent.h>

#include <cmath>
#include <vector>

namespace {

using microkernel::Cell;
using microkernel::Kernels;
using microkernel::RecurrentStep;
using microkernel::RecurrentWeights;

struct StepShape {
  Cell cell;
  int64_t rows, size;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

class MicrokernelRecurrent : public testing::TestWithParam<StepShape> {
 protected:
  ~MicrokernelRecurrent() override { microkernel::use(usual); }
  const Kernels& usual = microkernel::kernels();
};

/// One step, with all memory of exactly its size.
struct Step {
  explicit Step(const StepShape& s)
      : shape(s),
        gates(microkernel::gates_of(s.cell)),
        weights(random_numbers<float>(gates * s.size * s.size, 1)),
        bias(random_numbers<float>(gates * s.size, 2)),
        input(random_numbers<float>(s.rows * gates * s.size, 3)),
        state(random_numbers<float>(s.rows * s.size, 4)),
        cell(random_numbers<float>(s.rows * s.size, 5)) {}

  /// What the input and the state give to a unit's gate.
  std::pair<double, double> sums(int64_t row, int64_t unit, int64_t gate) const {
    size_t column = size_t(gate * shape.size + unit);
    double product = double(bias[column]);
    for (int64_t k = 0; k < shape.size; ++k)
      product += double(state[size_t(row * shape.size + k)]) *
                 double(weights[column * size_t(shape.size) + size_t(k)]);
    return {double(input[size_t(row * gates * shape.size) + column]), product};
  }
  double sum(int64_t row, int64_t unit, int64_t gate) const {
    auto [in, product] = sums(row, unit, gate);
    return in + product;
  }
  double next_cell(int64_t row, int64_t unit) const {
    double before = double(cell[size_t(row * shape.size + unit)]);
    return sigmoid(sum(row, unit, 1)) * before +
           sigmoid(sum(row, unit, 0)) * std::tanh(sum(row, unit, 2));
  }
  double next_state(int64_t row, int64_t unit) const {
    double before = double(state[size_t(row * shape.size + unit)]);
    switch (shape.cell) {
      case Cell::lstm:
        return sigmoid(sum(row, unit, 3)) * std::tanh(next_cell(row, unit));
      case Cell::gru: {
        auto [in, product] = sums(row, unit, 2);
        double fresh = std::tanh(in + sigmoid(sum(row, unit, 0)) * product);
        return (before - fresh) * sigmoid(sum(row, unit, 1)) + fresh;
      }
      case Cell::tanh:
        return std::tanh(sum(row, unit, 0));
      default:
        return std::max(sum(row, unit, 0), 0.0);
    }
  }

  StepShape shape;
  int64_t gates;
  std::vector<float> weights, bias, input, state, cell;
};

void check(const StepShape& shape) {
  Step s(shape);
  int64_t n = shape.size;
  RecurrentWeights weights(shape.cell, n, shape.rows);
  std::vector<float> packed(size_t(weights.bytes() / 4)),
      scratch(size_t(weights.scratch(shape.rows))), next(size_t(shape.rows * n)), cell = s.cell;
  weights.pack(s.weights.data(), n, 1, packed.data());
  bool is_lstm = shape.cell == Cell::lstm;
  RecurrentStep step{s.input.data(),
                     s.gates * n,
                     s.bias.data(),
                     s.state.data(),
                     n,
                     is_lstm ? cell.data() : nullptr,
                     n,
                     next.data(),
                     n,
                     is_lstm ? cell.data() : nullptr,
                     n};
  int64_t half = shape.rows / 2, groups = weights.groups();
  microkernel::step(weights, packed.data(), step, 0, half, 0, groups, scratch.data());
  microkernel::step(weights, packed.data(), step, half, shape.rows, 0, groups / 2, scratch.data());
  microkernel::step(weights, packed.data(), step, half, shape.rows, groups / 2, groups,
                    scratch.data());
  double tolerance = 1e-6 * std::sqrt(double(n) + 10);
  for (int64_t row = 0; row < shape.rows; ++row)
    for (int64_t unit = 0; unit < n; ++unit) {
      size_t at = size_t(row * n + unit);
      ASSERT_NEAR(double(next[at]), s.next_state(row, unit), tolerance) << row << ", " << unit;
      if (is_lstm) {
        ASSERT_NEAR(double(cell[at]), s.next_cell(row, unit), tolerance);
      }
    }
}

TEST_P(MicrokernelRecurrent, EqualsDoubleAtEachLevel) {
  check(GetParam());
  microkernel::use(microkernel::kernels_base);
  check(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shapes, MicrokernelRecurrent,
                         testing::Values(StepShape{Cell::lstm, 1, 1}, StepShape{Cell::lstm, 3, 17},
                                         StepShape{Cell::lstm, 8, 80},
                                         StepShape{Cell::lstm, 101, 40}, StepShape{Cell::gru, 2, 5},
                                         StepShape{Cell::gru, 8, 64}, StepShape{Cell::gru, 60, 130},
                                         StepShape{Cell::tanh, 4, 260},
                                         StepShape{Cell::tanh, 1, 16}, StepShape{Cell::relu, 7, 33},
                                         StepShape{Cell::relu, 16, 300}));

TEST(MicrokernelGates, AreExactAtTheirEnds) {
  // One unit without weights: what the input says, through the gate.
  for (double x : {-200.0, -87.0, -30.0, -1.0, -0.7, -0.6, -1e-3, -1e-20, 0.0, 1e-30, 1e-4, 0.3,
                   0.62, 0.63, 2.0, 9.0, 40.0, 1e30}) {
    float weight = 0, state = 0, next = 0, input = float(x);
    RecurrentWeights weights(Cell::tanh, 1, 1);
    std::vector<float> packed(size_t(weights.bytes() / 4)), scratch(size_t(weights.scratch(1)));
    weights.pack(&weight, 1, 1, packed.data());
    RecurrentStep step{&input, 1, nullptr, &state, 1, nullptr, 0, &next, 1, nullptr, 0};
    microkernel::step(weights, packed.data(), step, 0, 1, 0, 1, scratch.data());
    double expected = std::tanh(double(input));
    EXPECT_NEAR(double(next), expected, 3e-7 * std::abs(expected)) << x;
  }
}

}  // namespace
