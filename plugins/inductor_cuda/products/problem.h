// A product at the sizes of a call.
#pragma once

#include <loopir/program.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace inductor_cuda {

using loopir::Id;
using loopir::none;

/// What is done to a sum before it is stored, behind all additions.
enum class Function : uint8_t { identity, relu, gelu_tanh };

/// An epilogue as products here have it.
struct Finish {
  std::optional<loopir::View> added;  // to the result, in its layout
  Function function = Function::identity;
};
/// Nothing where it is another one.
std::optional<Finish> finish_of(const std::vector<loopir::EpilogueOp>& epilogue);

/// Strides are in elements.
struct Matrix {
  Id buffer = none;
  int64_t offset = 0, batch = 0, row = 0, column = 0;
};

/// result[b] = function(alpha * (left[b] x right[b]) + bias of each column + added[b]).
struct Problem {
  int32_t dtype = TN_F32, result_dtype = TN_F32;  // of the operands; of the result and `added`
  int32_t bias_dtype = TN_F32;
  int64_t batches = 1, m = 0, n = 0, k = 0;
  Matrix left, right, result;
  std::optional<Matrix> bias, added;
  double alpha = 1;
  Function function = Function::identity;

  bool is_empty() const { return batches == 0 || m == 0 || n == 0; }
};
Problem problem_of(const loopir::Program& program, const loopir::Product& product,
                   std::span<const int64_t> table);

/// Where a matrix begins.
void* place_of(const Matrix& matrix, int32_t dtype, std::span<void* const> pointers);

}  // namespace inductor_cuda
