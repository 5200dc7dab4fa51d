// Products with a matrix that was packed before.
//
// The matrix is packed once into memory of the caller; multiply() then does any part of the result,
// on any thread, with no memory of its own and no preparation for a number of rows.
#pragma once

#include "kernels.h"

#include <span>

namespace microkernel {

/// What is multiplied. Products of bf16 are summed in f32, and their bias is in f32.
enum class Element : uint8_t { f32, f64, bf16 };
/// Whether this processor has kernels for it; all have them for f32 and f64.
bool has_products_of(Element element);
/// Bytes of a number.
constexpr int64_t size_of(Element element) {
  return element == Element::f32 ? 4 : element == Element::f64 ? 8 : 2;
}
/// How many of k one step takes.
constexpr int64_t step_of(Element element) { return element == Element::bf16 ? 2 : 1; }

/// A matrix right[k, n] in panels of columns, made by pack().
struct Panels {
  int64_t k, n;
  Element element = Element::f32;
  int64_t least_count = 0;  ///< more panels than the widest ones would be: narrower
  int64_t count() const;
  /// Columns before a panel.
  int64_t column(int64_t panel) const;
  /// Numbers; best aligned to 64 bytes.
  int64_t size() const;
  int64_t bytes() const { return size() * size_of(element); }
  /// Panels [begin, end) from a matrix with element (k, n) at these strides.
  void pack(const void* right, int64_t k_stride, int64_t n_stride, int64_t begin, int64_t end,
            void* packed) const {
    pack_rows(0, k, right, k_stride, n_stride, begin, end, packed);
  }
  /// Rows [row, row + rows) of k of them, from a matrix that has only those; `row` begins a step.
  void pack_rows(int64_t row, int64_t rows, const void* right, int64_t k_stride, int64_t n_stride,
                 int64_t begin, int64_t end, void* packed) const;
};

/// result[m, n] = left[m, k] x right[k, n] + bias[n], then `finish`. Rows of `result` are dense,
/// from row to row there are `result_row` elements.
struct Product {
  Panels panels;
  const void* left;
  int64_t left_row;   ///< from a row to the next
  int64_t left_step;  ///< from a step of k to the next; numbers of a step are side by side
  const void* right;  ///< what pack() made; or, where `right_row` is not 0, the matrix itself
  int64_t right_row;  ///< rows are dense then, and n is a multiple of whole_columns()
  const void* bias;   ///< or null
  void* result;       ///< overlaps no operand: sums wait in it
  int64_t result_row;
  std::span<const Finish> finish;
  int64_t place = 0;        ///< of row 0 in the result and in the operands of `finish`
  bool is_rounded = false;  ///< the result of bf16 is in bf16, not f32
};

/// A left side of any strides as one that Product takes: packed[step of k][row].
struct PackedLeft {
  int64_t m, k;
  Element element;
  int64_t row() const { return step_of(element); }  ///< Product::left_row
  int64_t step() const;                             ///< Product::left_step
  int64_t steps() const { return (k + step_of(element) - 1) / step_of(element); }
  int64_t bytes() const { return steps() * step() * size_of(element); }
  /// Steps [begin, end) of k.
  void pack(const void* left, int64_t m_stride, int64_t k_stride, int64_t begin, int64_t end,
            void* packed) const;
};

/// Columns of a vector.
int64_t whole_columns(Element element = Element::f32);

/// Rows [row, row_end) of panels [panel, panel_end). Parts may run at the same time.
void multiply(const Product& product, int64_t row, int64_t row_end, int64_t panel,
              int64_t panel_end);

}  // namespace microkernel
