// Shape rules that many ops share, over symbolic sizes: broadcasting, views, reductions, strides of
// pointwise results. All follow ATen.
#pragma once

#include "core/tensor/tensor_impl.h"

#include <optional>
#include <span>

namespace tenon {

/// `dim` in [0, rank); a tensor without dimensions takes 0 and -1. Throws UserError otherwise.
int64_t wrap_dim(int64_t dim, int64_t rank);

/// Whether a condition holds: decided by a guard; on run-time numbers taken for true and recorded
/// as an assertion.
bool expect_true(SymBool condition);
/// What the facts, or a guard on the examples, say about a condition; nothing where only the run
/// knows. Unlike those of guard_or_false and guard_or_true, which take sizes of the run for 2 or
/// more, the answer holds for sizes of 0 and 1 too.
std::optional<bool> decided(SymBool condition);
/// Whether a size is 1: decided by a guard, false for a size that only run time knows.
bool is_one(SymInt size);
/// Whether two sizes are equal: decided by a guard; for run-time sizes recorded as an assertion.
bool sizes_match(SymInt a, SymInt b);

/// Tensors by address, so that a call need not copy their handles.
using TensorPointers = std::span<const Tensor* const>;
/// The addresses of a list of tensors.
InlineVector<const Tensor*, 12> pointers_to(std::span<const Tensor> tensors);

/// The common shape; throws UserError naming both shapes when they do not broadcast.
Dims broadcast_sizes(SymIntList a, SymIntList b);
Dims broadcast_sizes(TensorPointers tensors);
Dims broadcast_sizes(std::span<const Tensor> tensors);
/// Strides of a tensor seen as `sizes`: 0 for the dimensions that are repeated.
Dims broadcast_strides(SymIntList from_sizes, SymIntList from_strides, SymIntList sizes);

/// `shape` with its -1 (at most one) replaced so that it has `numel` elements.
Dims infer_shape(SymIntList shape, SymInt numel);
/// Strides of a view with `new_sizes` without moving data; nullopt when there is none.
std::optional<Dims> view_strides(SymIntList sizes, SymIntList strides, SymIntList new_sizes);

/// Strides of the dense result of a pointwise op: the order of dimensions of its inputs is kept.
Dims pointwise_strides(SymIntList sizes, TensorPointers inputs);
Dims pointwise_strides(SymIntList sizes, std::span<const Tensor> inputs);
/// Dense strides in the order of `t`'s own dimensions (memory format `preserve`).
Dims preserved_strides(const Tensor& t);
/// Whether elements may share a place in memory; where sizes are symbolic, the answer is guarded.
bool may_show_twice(SymIntList sizes, SymIntList strides);
/// Its dimensions as they lie in memory, the outermost one first.
std::vector<int64_t> dims_by_memory(const Tensor& t);
/// channels_last when the tensor is laid out so and not contiguous, else contiguous.
MemoryFormat suggest_memory_format(const Tensor& t);
/// Strides for an optional memory format, preserve meaning preserved_strides(t).
Dims strides_for(const Tensor& t, std::optional<MemoryFormat> format);

/// Bit d set = dimension d is reduced. No dims, or an empty list, means all.
uint64_t dims_mask(OptIntList dims, int64_t rank);
Dims reduced_sizes(SymIntList sizes, uint64_t mask, bool keepdim);

/// Throws UserError for sizes and strides that no view has: as many of both, none negative, the last
/// element within 64 bits (run-time sizes are left to the run).
void check_view(std::string_view op, SymIntList sizes, SymIntList strides);

SymInt product(SymIntList sizes);
/// The sizes of all dimensions but the last n.
inline SymIntList sizes_before(const Tensor& t, size_t n) {
  return SymIntList(t.sizes().data(), t.sizes().size() - n);
}

}  // namespace tenon
