// The gates of recurrent cells, by lanes.
//
// Method: sigmoid through exp(-|x|), so that nothing overflows; tanh through exp(-2|x|), and below
// 0.625, where that loses digits, by a polynomial in x^2 (Cephes, tanhf). Error: 2 ulp. NaN stays.
#pragma once

#include "kernels.h"
#include "vector_exp.h"

namespace microkernel::MICROKERNEL_LEVEL {

static inline Vector sigmoid(Vector x) {
  Vector e = exp_of_negative(x < 0 ? x : -x);
  return (x < 0 ? e : repeat(1.0f)) / (e + 1);
}

static inline Vector tanh(Vector x) {
  constexpr float terms[] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                             1.33314422036e-1f, -3.33332819422e-1f};
  Vector size = x < 0 ? -x : x, square = x * x;
  Vector near = square * terms[0] + terms[1];
  for (int i = 2; i < 5; ++i) near = near * square + terms[i];
  near = near * square * x + x;
  Vector e = exp_of_negative(size * -2);
  Vector far = (1 - e) / (1 + e);
  far = x < 0 ? -far : far;
  return size < 0.625f ? near : far;
}

/// One vector of units of one row.
struct Units {
  const GateBlock& block;
  int64_t row;

  Vector from(const float* p, int64_t step) const { return load(p + row * step, block.units); }
  Vector input(int64_t gate) const {
    return from(block.input + gate * block.size, block.input_row);
  }
  /// What the state gives, its bias added.
  Vector product(int64_t gate) const {
    Vector sum = load(block.sums + row * block.sums_row + gate * lane_count);
    return block.bias ? sum + load(block.bias + gate * block.size, block.units) : sum;
  }
  Vector sum(int64_t gate) const { return input(gate) + product(gate); }
  void give(Vector state) const {
    store(block.next_state + row * block.next_state_row, state, block.units);
  }
};

struct LstmCell {
  static void run(const Units& u) {
    const GateBlock& b = u.block;
    Vector in = sigmoid(u.sum(0)), forget = sigmoid(u.sum(1)), fresh = tanh(u.sum(2));
    Vector cell = forget * u.from(b.cell, b.cell_row) + in * fresh;
    store(b.next_cell + u.row * b.next_cell_row, cell, b.units);
    u.give(sigmoid(u.sum(3)) * tanh(cell));
  }
};
struct GruCell {
  static void run(const Units& u) {
    Vector reset = sigmoid(u.sum(0)), update = sigmoid(u.sum(1));
    Vector fresh = tanh(u.input(2) + reset * u.product(2));
    Vector state = u.from(u.block.state, u.block.state_row);
    u.give((state - fresh) * update + fresh);
  }
};
struct TanhCell {
  static void run(const Units& u) { u.give(tanh(u.sum(0))); }
};
struct ReluCell {
  static void run(const Units& u) {
    Vector sum = u.sum(0);
    u.give(sum <= 0 ? Vector{} : sum);  // NaN stays
  }
};

template <class C>
static void apply_gates(const GateBlock& block) {
  for (int64_t row = 0; row < block.rows; ++row) C::run({block, row});
}

}  // namespace microkernel::MICROKERNEL_LEVEL
