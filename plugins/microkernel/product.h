// Products with a matrix that was packed before, in f32.
//
// The matrix is packed once into memory of the caller; multiply() then does any part of the result,
// on any thread, with no memory of its own and no preparation for a number of rows.
#pragma once

#include "kernels.h"

#include <span>

namespace microkernel {

/// A matrix right[k, n] in panels of columns, made by pack().
struct Panels {
  int64_t k, n;
  int64_t count() const;
  /// Columns before a panel.
  int64_t column(int64_t panel) const;
  /// Floats; best aligned to 64 bytes.
  int64_t size() const;
  /// Panels [begin, end) from a matrix with element (k, n) at these strides.
  void pack(const float* right, int64_t k_stride, int64_t n_stride, int64_t begin, int64_t end,
            float* packed) const {
    pack_rows(0, k, right, k_stride, n_stride, begin, end, packed);
  }
  /// Rows [row, row + rows) of k of them, from a matrix that has only those.
  void pack_rows(int64_t row, int64_t rows, const float* right, int64_t k_stride, int64_t n_stride,
                 int64_t begin, int64_t end, float* packed) const;
};

/// result[m, n] = left[m, k] x right[k, n] + bias[n], then `finish`. `left` has any strides; rows
/// of `result` are dense, from row to row there are `result_row` elements.
struct Product {
  Panels panels;
  const float* left;
  int64_t left_row, left_column;
  const float* right;  ///< what pack() made; or, where `right_row` is not 0, the matrix itself
  int64_t right_row;   ///< rows are dense then, and n is a multiple of whole_columns()
  const float* bias;   ///< or null
  float* result;       ///< overlaps no operand: sums wait in it
  int64_t result_row;
  std::span<const Finish> finish;
  int64_t place = 0;  ///< of row 0 in the result and in the operands of `finish`
};

/// Columns of a vector.
int64_t whole_columns();

/// Rows [row, row_end) of panels [panel, panel_end). Parts may run at the same time.
void multiply(const Product& product, int64_t row, int64_t row_end, int64_t panel,
              int64_t panel_end);

}  // namespace microkernel
