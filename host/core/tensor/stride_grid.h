// The iteration space of strided operands, with as few dimensions as their strides allow.
#pragma once

#include "core/inline_vector.h"
#include "core/kernels/pointwise_loop.h"

#include <span>

namespace tenon {

/// Dimensions are ordered from the inner one, that of the first operand with the smallest stride.
/// Those that all operands step through as one are merged; those of size 1 are gone.
struct StrideGrid {
  size_t n_operands = 0;
  InlineVector<int64_t, 8> sizes;
  InlineVector<int64_t, 48> strides;  ///< bytes; row of operands for each dimension

  size_t n_dims() const { return sizes.size(); }
  const int64_t* strides_of(size_t dim) const { return strides.data() + dim * n_operands; }
  int64_t inner_size() const { return sizes.empty() ? 1 : sizes[0]; }
  int64_t inner_stride(size_t operand) const { return sizes.empty() ? 0 : strides[operand]; }
  /// Product of all sizes but the inner one.
  int64_t n_rows() const;
};

StrideGrid make_grid(std::span<const Operand* const> operands, std::span<const int64_t> sizes);

/// The elements lie one after the other in the order of the iteration.
bool is_dense(const Operand& operand, std::span<const int64_t> sizes);
/// One element for the whole iteration.
bool is_single(const Operand& operand, std::span<const int64_t> sizes);

/// Walks over the rows of a grid and keeps the byte offset of each operand's row.
class RowCursor {
 public:
  RowCursor(const StrideGrid& grid, int64_t row);
  void advance();
  int64_t offset(size_t operand) const { return offsets_[operand]; }

 private:
  const StrideGrid* grid_;
  InlineVector<int64_t, 8> index_;  // of the dimensions 1, 2, ...
  InlineVector<int64_t, 12> offsets_;
};

}  // namespace tenon
