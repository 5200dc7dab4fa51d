// Recurrent layers in f32: the product of a state with packed weights, and the gates behind it.
#pragma once

#include "product.h"

namespace microkernel {

/// How a state follows from sums s of gates: s is what the input gives plus what the state gives.
///   lstm: i, f, g, o = sigmoid(s0), sigmoid(s1), tanh(s2), sigmoid(s3);
///         cell = f * cell + i * g; state = o * tanh(cell)
///   gru:  r, z = sigmoid(s0), sigmoid(s1); n = tanh(input's part of s2 + r * the state's part);
///         state = (state - n) * z + n
///   tanh, relu: state = that of s0
enum class Cell : uint8_t { lstm, gru, tanh, relu };
constexpr int64_t gates_of(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

/// The weights [gates * size, size] of a state, packed in groups of units with all of their gates
/// side by side: so a group's sums are complete, and near, when its gates are computed.
class RecurrentWeights {
 public:
  /// For products with `rows` rows; another number is as right, and slower.
  RecurrentWeights(Cell cell, int64_t size, int64_t rows);
  int64_t groups() const { return groups_; }
  /// Bytes of all groups; best aligned to 64.
  int64_t bytes() const;
  /// `row` elements from one gate of one unit to the next one.
  void pack(const float* weights, int64_t row, int64_t column, void* packed) const;
  /// Floats of scratch memory that a step of so many rows needs.
  int64_t scratch(int64_t rows) const;

  /// Packed weights of one form serve products of any number of rows.
  uint64_t form() const { return static_cast<uint64_t>(panel_vectors_); }
  Cell cell() const { return cell_; }
  int64_t size() const { return size_; }
  /// The first unit of a group.
  int64_t unit(int64_t group) const;
  Panels panels(int64_t group) const;

 private:
  int64_t block(int64_t group) const { return blocks_ * group / groups_; }

  Cell cell_;
  int64_t size_, blocks_, groups_;  // blocks: a vector of units each
  int64_t panel_vectors_;           // at most, in the panels of a group
};

/// One step of some rows. Rows are dense; `_row` is the step from one to the next.
struct RecurrentStep {
  const float* input;  ///< [rows, gates * size]
  int64_t input_row;
  const float* bias;   ///< [gates * size], of the state's product; or null
  const float* state;  ///< [rows, size], as it was
  int64_t state_row;
  const float* cell;  ///< of an LSTM: [rows, size], as it was
  int64_t cell_row;
  float* next_state;  ///< does not overlap `state`
  int64_t next_state_row;
  float* next_cell;  ///< may be `cell`
  int64_t next_cell_row;
};

/// Rows [row, row_end) of the units of groups [group, group_end). Parts may run at the same time,
/// each with scratch memory of its own.
void step(const RecurrentWeights& weights, const void* packed, const RecurrentStep& step,
          int64_t row, int64_t row_end, int64_t group, int64_t group_end, float* scratch);

}  // namespace microkernel
