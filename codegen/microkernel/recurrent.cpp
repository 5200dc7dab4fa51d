// Weights by groups of units, and a step as a product and gates for each group.
//
// Problem: a step depends on the one before, so its product has as many rows as the batch, mostly
// few, and reads all weights; its gates would be as many kernels over small tensors.
//
// Method: a group is some vectors of units; its columns are, for each of those vectors, one vector
// of each gate. A group's product goes to scratch memory that stays in the first-level cache, and
// the gates read it from there. How wide panels are depends on the rows: eight rows pass a panel of
// three vectors once, and one of four twice.
//
// What the gates read besides was written long ago, and half of the state by another core a moment
// ago: both are fetched before they are asked for. A product would wait for each line of the state,
// some 0.1 us each from another core's cache.
//
// Cost: the product's; the gates take some 40 instructions a vector and gate.
#include "recurrent.h"

#include <algorithm>
#include <vector>

namespace microkernel {

namespace {

constexpr int64_t usual_vectors = 16;  // columns of a group: some panels, whose sums stay near
constexpr int64_t most_rows = 48;      // of a product, for the same reason

int64_t float_lanes() { return kernels().f32.lanes; }
int64_t passes(int64_t rows, int64_t tile) { return (rows + tile - 1) / tile; }

void fetch(const float* from, int64_t n) {
  constexpr int64_t line = 16;
  for (int64_t i = 0; i < n; i += line) __builtin_prefetch(from + i, 0, 2);
}

/// The product of a group's weights with all rows, panel by panel; meanwhile the input of the gates
/// comes near.
void multiply_group(const Panels& panels, const float* right, const RecurrentStep& s, int64_t row,
                    int64_t row_end, int64_t unit, int64_t units, int64_t gates, float* sums) {
  int64_t rows = row_end - row, count = panels.count();
  Product product{
      panels, s.state + row * s.state_row, s.state_row, 1, right, 0, nullptr, sums, panels.n, {}};
  for (int64_t p = 0; p < count; ++p) {
    for (int64_t r = row + rows * p / count; r < row + rows * (p + 1) / count; ++r)
      for (int64_t gate = 0; gate < gates; ++gate)
        fetch(s.input + r * s.input_row + gate * panels.k + unit, units);
    multiply(product, 0, rows, p, p + 1);
  }
}

// Of the widest panel and one a vector narrower, that which fewer tiles of rows pass.
int64_t panel_vectors_for(int64_t rows) {
  const Kernels& k = kernels();
  int64_t widest = k.f32.panel / k.f32.lanes;
  if (widest < 3) return widest;
  bool is_narrower_better =
      passes(rows, k.rows_of_tile(widest - 1)) < passes(rows, k.rows_of_tile(widest));
  return is_narrower_better ? widest - 1 : widest;
}

}  // namespace

RecurrentWeights::RecurrentWeights(Cell cell, int64_t size, int64_t rows)
    : cell_(cell),
      size_(size),
      blocks_((size + float_lanes() - 1) / float_lanes()),
      panel_vectors_(panel_vectors_for(rows)) {
  int64_t usual = usual_vectors / gates_of(cell);
  int64_t groups = (blocks_ + usual - 1) / usual;
  groups_ = std::min(blocks_, groups + groups % 2);  // for two threads
}

int64_t RecurrentWeights::unit(int64_t group) const {
  return std::min(block(group) * float_lanes(), size_);
}

Panels RecurrentWeights::panels(int64_t group) const {
  int64_t vectors = (block(group + 1) - block(group)) * gates_of(cell_);
  return {size_, vectors * float_lanes(), Element::f32, passes(vectors, panel_vectors_)};
}

int64_t RecurrentWeights::bytes() const {
  return blocks_ * gates_of(cell_) * float_lanes() * size_ * size_of(Element::f32);
}

int64_t RecurrentWeights::scratch(int64_t rows) const {
  int64_t widest = 0;
  for (int64_t g = 0; g < groups_; ++g) widest = std::max(widest, panels(g).n);
  return std::min(rows, most_rows) * widest;
}

void RecurrentWeights::pack(const float* weights, int64_t row, int64_t column, void* packed) const {
  int64_t gates = gates_of(cell_), width = float_lanes();
  std::vector<float> columns;  // of a group, as its products have them; those of no unit are 0
  for (int64_t g = 0; g < groups_; ++g) {
    Panels p = panels(g);
    columns.assign(static_cast<size_t>(p.n * size_), 0);
    for (int64_t j = 0; j < p.n; ++j) {
      int64_t unit = (block(g) + j / (gates * width)) * width + j % width;
      if (unit >= size_) continue;
      const float* from = weights + (j / width % gates * size_ + unit) * row;
      for (int64_t k = 0; k < size_; ++k)
        columns[static_cast<size_t>(j * size_ + k)] = from[k * column];
    }
    float* to = static_cast<float*>(packed) + block(g) * gates * width * size_;
    p.pack(columns.data(), 1, size_, 0, p.count(), to);
  }
}

void step(const RecurrentWeights& weights, const void* packed, const RecurrentStep& s, int64_t row,
          int64_t row_end, int64_t group, int64_t group_end, float* scratch) {
  int64_t gates = gates_of(weights.cell()), size = weights.size();
  if (row_end - row > most_rows) {
    int64_t half = row + (row_end - row) / 2;
    step(weights, packed, s, row, half, group, group_end, scratch);
    return step(weights, packed, s, half, row_end, group, group_end, scratch);
  }
  for (int64_t r = row; r < row_end; ++r) fetch(s.state + r * s.state_row, size);
  for (int64_t g = group; g < group_end; ++g) {
    Panels p = weights.panels(g);
    int64_t first = weights.unit(g), end = weights.unit(g + 1);
    const float* right = static_cast<const float*>(packed) + first * gates * size;
    multiply_group(p, right, s, row, row_end, first, end - first, gates, scratch);
    auto at = [&](auto* p, int64_t step) { return p ? p + row * step + first : nullptr; };
    kernels().gates[static_cast<size_t>(weights.cell())](
        {row_end - row, end - first, size, scratch, p.n, at(s.input, s.input_row), s.input_row,
         at(s.bias, 0), at(s.state, s.state_row), s.state_row, at(s.cell, s.cell_row), s.cell_row,
         at(s.next_state, s.next_state_row), s.next_state_row, at(s.next_cell, s.next_cell_row),
         s.next_cell_row});
  }
}

}  // namespace microkernel
