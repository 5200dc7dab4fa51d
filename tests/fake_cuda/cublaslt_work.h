// A product of the double of cuBLASLt, when it runs.
#pragma once

#include "inductor_cuda/api/cublaslt.h"

#include <cstddef>
#include <cstdint>

namespace fake_cublaslt {

namespace lt = inductor_cuda::lt;

struct Layout {
  lt::Type type;
  int64_t rows, columns, column_stride;
  int32_t batches = 1;
  int64_t batch_stride = 0;

  /// Elements from the first to the last one.
  int64_t span() const {
    if (rows == 0 || columns == 0 || batches == 0) return 0;
    return (batches - 1) * batch_stride + (columns - 1) * column_stride + rows;
  }
};

struct Operation {
  lt::Compute compute;
  lt::Type scale;
  lt::Transposition left = lt::as_is, right = lt::as_is;
  lt::Epilogue epilogue = lt::epilogue_none;
  const void* bias = nullptr;

  bool has_bias() const { return epilogue & lt::epilogue_bias; }
};

/// What was found for a problem; kept in the bytes of an algorithm.
struct Found {
  uint64_t problem;  // a digest
  uint64_t workspace_bytes;
  uint32_t reductions;
  uint32_t alignment_left, alignment_right, alignment_added, alignment_result;
};
static_assert(sizeof(Found) <= sizeof(lt::Algorithm));

struct Product {
  Operation operation;
  Layout left_layout, right_layout, added_layout, result_layout;
  double alpha, beta;
  const void *left, *right, *added;
  void *result, *workspace;
  Found found;

  int64_t inner() const {
    return operation.left == lt::as_is ? left_layout.columns : left_layout.rows;
  }
  /// 0, or 700 where an operand is no memory of the device.
  int32_t run(bool (*may_touch)(const void*, size_t)) const;
};

size_t bytes_of(lt::Type type);

}  // namespace fake_cublaslt
