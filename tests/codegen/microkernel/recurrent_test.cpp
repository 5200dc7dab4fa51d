// Steps of recurrent cells beside the same in f64, at each level of vectors: units that fill
// vectors and groups or not, rows of one tile or many, side by side or apart, with and without a
// bias.
#include "codegen/microkernel/levels.h"
#include "plugins/random_numbers.h"

#include <gtest/gtest.h>
#include <microkernel/recurrent.h>

#include <cmath>
#include <vector>

namespace {

using microkernel::Cell;
using microkernel::RecurrentStep;
using microkernel::RecurrentWeights;

struct StepShape {
  Cell cell;
  int64_t rows, size;
  int64_t gap = 0;  // elements between rows
  bool has_bias = true;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

using MicrokernelRecurrent = testing::TestWithParam<StepShape>;

/// Rows with `gap` elements between them, in memory of exactly its size.
struct Rows {
  Rows(int64_t rows, int64_t length, int64_t gap, unsigned seed)
      : length(length), row(length + gap), numbers(random_numbers<float>(rows * row - gap, seed)) {}

  double at(int64_t r, int64_t i) const { return double(numbers[size_t(r * row + i)]); }
  /// What lies between the rows.
  std::vector<float> gaps() const {
    std::vector<float> out;
    for (size_t i = 0; i < numbers.size(); ++i)
      if (int64_t(i) % row >= length) out.push_back(numbers[i]);
    return out;
  }

  int64_t length, row;
  std::vector<float> numbers;
};

/// What one step reads; all rows lie in ways of their own.
struct Step {
  explicit Step(const StepShape& s)
      : shape(s),
        gates(microkernel::gates_of(s.cell)),
        weights(random_numbers<float>(gates * s.size * s.size, 1)),
        bias(random_numbers<float>(s.has_bias ? gates * s.size : 0, 2)),
        input(s.rows, gates * s.size, s.gap, 3),
        state(s.rows, s.size, 2 * s.gap, 4),
        cell(s.rows, s.size, 3 * s.gap, 5) {}

  /// What the input and the state give to a unit's gate.
  std::pair<double, double> sums(int64_t row, int64_t unit, int64_t gate) const {
    size_t column = size_t(gate * shape.size + unit);
    double product = shape.has_bias ? double(bias[column]) : 0;
    for (int64_t k = 0; k < shape.size; ++k)
      product += state.at(row, k) * double(weights[column * size_t(shape.size) + size_t(k)]);
    return {input.at(row, int64_t(column)), product};
  }
  double sum(int64_t row, int64_t unit, int64_t gate) const {
    auto [in, product] = sums(row, unit, gate);
    return in + product;
  }
  double next_cell(int64_t row, int64_t unit) const {
    return sigmoid(sum(row, unit, 1)) * cell.at(row, unit) +
           sigmoid(sum(row, unit, 0)) * std::tanh(sum(row, unit, 2));
  }
  double next_state(int64_t row, int64_t unit) const {
    switch (shape.cell) {
      case Cell::lstm:
        return sigmoid(sum(row, unit, 3)) * std::tanh(next_cell(row, unit));
      case Cell::gru: {
        auto [in, product] = sums(row, unit, 2);
        double fresh = std::tanh(in + sigmoid(sum(row, unit, 0)) * product);
        return (state.at(row, unit) - fresh) * sigmoid(sum(row, unit, 1)) + fresh;
      }
      case Cell::tanh:
        return std::tanh(sum(row, unit, 0));
      default:
        return std::max(sum(row, unit, 0), 0.0);
    }
  }

  StepShape shape;
  int64_t gates;
  std::vector<float> weights, bias;
  Rows input, state, cell;
};

/// The step in three parts. An LSTM whose rows lie side by side writes its cell in place.
void run(const Step& s, Rows& next, Rows& next_cell) {
  int64_t rows = s.shape.rows;
  RecurrentWeights weights(s.shape.cell, s.shape.size, rows);
  std::vector<float> packed(size_t(weights.bytes() / 4)), scratch(size_t(weights.scratch(rows)));
  weights.pack(s.weights.data(), s.shape.size, 1, packed.data());
  bool is_lstm = s.shape.cell == Cell::lstm;
  const Rows& cell = s.shape.gap ? s.cell : next_cell;
  RecurrentStep step{.input = s.input.numbers.data(),
                     .input_row = s.input.row,
                     .bias = s.shape.has_bias ? s.bias.data() : nullptr,
                     .state = s.state.numbers.data(),
                     .state_row = s.state.row,
                     .cell = is_lstm ? cell.numbers.data() : nullptr,
                     .cell_row = cell.row,
                     .next_state = next.numbers.data(),
                     .next_state_row = next.row,
                     .next_cell = is_lstm ? next_cell.numbers.data() : nullptr,
                     .next_cell_row = next_cell.row};
  int64_t half = rows / 2, groups = weights.groups();
  microkernel::step(weights, packed.data(), step, 0, half, 0, groups, scratch.data());
  microkernel::step(weights, packed.data(), step, half, rows, 0, groups / 2, scratch.data());
  microkernel::step(weights, packed.data(), step, half, rows, groups / 2, groups, scratch.data());
}

void check(const StepShape& shape) {
  Step s(shape);
  Rows next(shape.rows, shape.size, 4 * shape.gap, 6), next_cell = s.cell;
  if (shape.gap) next_cell = Rows(shape.rows, shape.size, 5 * shape.gap, 7);
  std::vector<float> gaps = next.gaps(), cell_gaps = next_cell.gaps();
  run(s, next, next_cell);
  EXPECT_EQ(next.gaps(), gaps);
  EXPECT_EQ(next_cell.gaps(), cell_gaps);
  double tolerance = 1e-6 * std::sqrt(double(shape.size) + 10);
  for (int64_t row = 0; row < shape.rows; ++row)
    for (int64_t unit = 0; unit < shape.size; ++unit) {
      ASSERT_NEAR(next.at(row, unit), s.next_state(row, unit), tolerance) << row << ", " << unit;
      if (shape.cell == Cell::lstm) {
        ASSERT_NEAR(next_cell.at(row, unit), s.next_cell(row, unit), tolerance);
      }
    }
}

TEST_P(MicrokernelRecurrent, EqualsDoubleAtEachLevel) {
  at_each_level([] { check(GetParam()); });
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, MicrokernelRecurrent,
    testing::Values(StepShape{Cell::lstm, 1, 1}, StepShape{Cell::lstm, 3, 17},
                    StepShape{Cell::lstm, 8, 80}, StepShape{Cell::lstm, 101, 40},
                    StepShape{Cell::gru, 2, 5}, StepShape{Cell::gru, 8, 64},
                    StepShape{Cell::gru, 60, 130}, StepShape{Cell::tanh, 4, 260},
                    StepShape{Cell::tanh, 1, 16}, StepShape{Cell::relu, 7, 33},
                    StepShape{Cell::relu, 16, 300}, StepShape{Cell::lstm, 9, 37, 3, true},
                    StepShape{Cell::lstm, 5, 48, 0, false}, StepShape{Cell::gru, 60, 21, 2, false},
                    StepShape{Cell::tanh, 6, 50, 1, true}));

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
