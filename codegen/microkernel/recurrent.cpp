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
  groups_ = groups == 1 ? 1 : std::min(blocks_, groups + groups % 2);  // for two threads
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
  int64_t width = float_lanes(), gates = gates_of(weights.cell()), size = weights.size();
  if (row_end - row > most_rows) {
    int64_t half = row + (row_end - row) / 2;
    step(weights, packed, s, row, half, group, group_end, scratch);
    return step(weights, packed, s, half, row_end, group, group_end, scratch);
  }
  for (int64_t g = group; g < group_end; ++g) {
    Panels p = weights.panels(g);
    int64_t first = weights.unit(g), end = weights.unit(g + 1);
    const float* right = static_cast<const float*>(packed) + first * gates * size;
    multiply({p, s.state + row * s.state_row, s.state_row, 1, right, 0, nullptr, scratch, p.n, {}},
             0, row_end - row, 0, p.count());
    for (int64_t unit = first; unit < end; unit += width) {
      GateBlock block{row_end - row,
                      std::min(width, end - unit),
                      size,
                      scratch + (unit - first) * gates,
                      p.n,
                      s.input + row * s.input_row + unit,
                      s.input_row,
                      s.bias ? s.bias + unit : nullptr,
                      s.state + row * s.state_row + unit,
                      s.state_row,
                      s.cell ? s.cell + row * s.cell_row + unit : nullptr,
                      s.cell_row,
                      s.next_state + row * s.next_state_row + unit,
                      s.next_state_row,
                      s.next_cell ? s.next_cell + row * s.next_cell_row + unit : nullptr,
                      s.next_cell_row};
      kernels().gates[static_cast<size_t>(weights.cell())](block);
    }
  }
}

}  // namespace microkernel
