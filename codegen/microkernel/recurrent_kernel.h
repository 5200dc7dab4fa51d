// The gates of recurrent cells, by lanes.
//
// Method: sigmoid through exp(-|x|) and tanh through exp(-2|x|) - 1, so that nothing overflows and
// small results keep their digits. Each is a quotient; a cell multiplies its quotients out and
// divides once where its value ends, since a division takes as long as ten other instructions.
// Weights of old values are whole before they meet them: those may be as large as f32 goes.
// Error: 3 ulp. NaN stays.
#pragma once

#include "kernels.h"
#include "vector_exp.h"

namespace microkernel::MICROKERNEL_LEVEL {

struct Quotient {
  Vector top, bottom;  // the bottom is between 1 and 2
  Vector value() const { return top / bottom; }
};

/// `rest` over the bottom is what lacks to 1.
struct Sigmoid : Quotient {
  Vector rest;
};
static inline Sigmoid sigmoid(Vector x) {
  Vector e = exp_of_negative(not_positive(x)), one = repeat(1.0f);
  return {{x < 0 ? e : one, e + 1}, x < 0 ? one : e};
}
static inline Quotient tanh(Vector x) {
  Vector m = expm1_of_negative(not_positive(x) * 2);
  return {x < 0 ? m : -m, m + 2};
}

/// One vector of units, by rows. `is_whole`: as many units as a vector has lanes.
template <bool is_whole>
struct Units {
  const GateBlock& block;
  int64_t gates, vector;

  int64_t count() const { return block.units - vector * lane_count; }
  Vector from(const float* p) const {
    p += vector * lane_count;
    return is_whole ? load(p) : load(p, count());
  }
  void to(float* p, Vector v) const {
    p += vector * lane_count;
    is_whole ? store(p, v) : store(p, v, count());
  }
  float* product_at(int64_t row, int64_t gate) const {
    return block.sums + row * block.sums_row + (vector * gates + gate) * lane_count;
  }

  Vector bias(int64_t gate) const {
    return block.bias ? from(block.bias + gate * block.size) : Vector{};
  }
  Vector input(int64_t row, int64_t gate) const {
    return from(block.input + row * block.input_row + gate * block.size);
  }
  /// What the state gives, without its bias.
  Vector product(int64_t row, int64_t gate) const { return load(product_at(row, gate)); }
  Vector sum(int64_t row, int64_t gate) const { return input(row, gate) + product(row, gate); }
  Vector state(int64_t row) const { return from(block.state + row * block.state_row); }
  Vector next_cell(int64_t row) const { return from(block.next_cell + row * block.next_cell_row); }
  void give(int64_t row, Vector state) const {
    to(block.next_state + row * block.next_state_row, state);
  }
};

// A cell's stages run each for all rows and units, one after the other: so what a stage waits for
// is behind it, and rows overlap in the processor, which holds some 300 instructions.
struct LstmCell {
  static constexpr int64_t gates = 4, stages = 2;
  template <class U>
  static void run(const U& u, int64_t stage) {
    const GateBlock& b = u.block;
    return stage == 0 ? remember(u, b) : show(u, b);
  }
  template <class U>
  static void remember(const U& u, const GateBlock& b) {
    Vector bias[] = {u.bias(0), u.bias(1), u.bias(2)};
    for (int64_t row = 0; row < b.rows; ++row) {
      Sigmoid in = sigmoid(u.sum(row, 0) + bias[0]), forget = sigmoid(u.sum(row, 1) + bias[1]);
      Quotient fresh = tanh(u.sum(row, 2) + bias[2]);
      Vector others = in.bottom * fresh.bottom, whole = 1 / (others * forget.bottom);
      Vector kept = forget.top * (others * whole);
      Vector added = in.top * fresh.top * (forget.bottom * whole);
      u.to(b.next_cell + row * b.next_cell_row, kept * u.from(b.cell + row * b.cell_row) + added);
    }
  }
  template <class U>
  static void show(const U& u, const GateBlock& b) {
    Vector bias = u.bias(3);
    for (int64_t row = 0; row < b.rows; ++row) {
      Sigmoid out = sigmoid(u.sum(row, 3) + bias);
      Quotient cell = tanh(u.next_cell(row));
      u.give(row, out.top * cell.top / (out.bottom * cell.bottom));
    }
  }
};
struct GruCell {
  static constexpr int64_t gates = 3, stages = 2;
  template <class U>
  static void run(const U& u, int64_t stage) {
    return stage == 0 ? reset(u, u.block) : update(u, u.block);
  }
  template <class U>
  static void reset(const U& u, const GateBlock& b) {
    Vector bias[] = {u.bias(0), u.bias(2)};
    for (int64_t row = 0; row < b.rows; ++row) {
      Vector part = sigmoid(u.sum(row, 0) + bias[0]).value();
      store(u.product_at(row, 2), u.input(row, 2) + part * (u.product(row, 2) + bias[1]));
    }
  }
  template <class U>
  static void update(const U& u, const GateBlock& b) {
    Vector bias = u.bias(1);
    for (int64_t row = 0; row < b.rows; ++row) {
      Sigmoid part = sigmoid(u.sum(row, 1) + bias);
      Quotient fresh = tanh(u.product(row, 2));
      Vector whole = 1 / (part.bottom * fresh.bottom);
      Vector kept = part.top * (fresh.bottom * whole);
      u.give(row, kept * u.state(row) + fresh.top * (part.rest * whole));
    }
  }
};
struct TanhCell {
  static constexpr int64_t gates = 1, stages = 1;
  template <class U>
  static void run(const U& u, int64_t) {
    Vector bias = u.bias(0);
    for (int64_t row = 0; row < u.block.rows; ++row)
      u.give(row, tanh(u.sum(row, 0) + bias).value());
  }
};
struct ReluCell {
  static constexpr int64_t gates = 1, stages = 1;
  template <class U>
  static void run(const U& u, int64_t) {
    Vector bias = u.bias(0);
    for (int64_t row = 0; row < u.block.rows; ++row) {
      Vector sum = u.sum(row, 0) + bias;
      u.give(row, sum <= 0 ? Vector{} : sum);  // NaN stays
    }
  }
};

template <class C>
static void apply_gates(const GateBlock& block) {
  for (int64_t stage = 0; stage < C::stages; ++stage) {
    int64_t vector = 0;
    for (; (vector + 1) * lane_count <= block.units; ++vector)
      C::run(Units<true>{block, C::gates, vector}, stage);
    if (vector * lane_count < block.units) C::run(Units<false>{block, C::gates, vector}, stage);
  }
}

}  // namespace microkernel::MICROKERNEL_LEVEL
