// The iteration space of strided operands; see stride_grid.h.
#include "core/tensor/stride_grid.h"

#include <cstdlib>

namespace tenon {
namespace {

int64_t stride_of(const Operand& operand, size_t dim) {
  return operand.strides == nullptr ? 0 : operand.strides[dim];
}

// Inner dimension first: by the strides of the first operand, in the given order where they tie.
// Inserted one by one, as dimensions are few.
InlineVector<size_t, 8> order_of(const Operand& first, std::span<const int64_t> sizes) {
  InlineVector<size_t, 8> order;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    size_t at = order.size();
    while (at > 0 && std::abs(stride_of(first, order[at - 1])) > std::abs(stride_of(first, d)))
      --at;
    order.insert(at, d);
  }
  return order;
}

}  // namespace

int64_t StrideGrid::n_rows() const {
  int64_t rows = 1;
  for (size_t d = 1; d < sizes.size(); ++d) rows *= sizes[d];
  return rows;
}

StrideGrid make_grid(std::span<const Operand* const> operands, std::span<const int64_t> sizes) {
  StrideGrid grid;
  grid.n_operands = operands.size();
  for (size_t d : order_of(*operands[0], sizes)) {
    bool merges = !grid.sizes.empty();
    for (size_t i = 0; merges && i < operands.size(); ++i) {
      int64_t inner = grid.strides[(grid.n_dims() - 1) * grid.n_operands + i];
      merges =
          stride_of(*operands[i], d) * itemsize(operands[i]->dtype) == inner * grid.sizes.back();
    }
    if (merges) {
      grid.sizes.back() *= sizes[d];
      continue;
    }
    grid.sizes.push_back(sizes[d]);
    for (const Operand* operand : operands)
      grid.strides.push_back(stride_of(*operand, d) * itemsize(operand->dtype));
  }
  return grid;
}

bool is_dense(const Operand& operand, std::span<const int64_t> sizes) {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (stride_of(operand, d) != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

bool is_single(const Operand& operand, std::span<const int64_t> sizes) {
  if (operand.strides == nullptr) return true;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1 && operand.strides[d] != 0) return false;
  return true;
}

RowCursor::RowCursor(const StrideGrid& grid, int64_t row) : grid_(&grid) {
  offsets_.resize(grid.n_operands);
  for (size_t d = 1; d < grid.n_dims(); ++d) {
    int64_t index = row % grid.sizes[d];
    row /= grid.sizes[d];
    index_.push_back(index);
    const int64_t* strides = grid.strides_of(d);
    for (size_t i = 0; i < grid.n_operands; ++i) offsets_[i] += index * strides[i];
  }
}

void RowCursor::advance() {
  for (size_t d = 1; d < grid_->n_dims(); ++d) {
    const int64_t* strides = grid_->strides_of(d);
    bool wraps = ++index_[d - 1] == grid_->sizes[d];
    int64_t steps = wraps ? 1 - grid_->sizes[d] : 1;
    for (size_t i = 0; i < grid_->n_operands; ++i) offsets_[i] += steps * strides[i];
    if (!wraps) return;
    index_[d - 1] = 0;
  }
}

}  // namespace tenon
