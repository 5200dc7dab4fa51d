// Views to matrices.
#include "problem.h"

namespace inductor_cuda {

using loopir::EpilogueOp;
using loopir::View;

namespace {

std::optional<Function> function_of(EpilogueOp::Kind kind) {
  if (kind == EpilogueOp::Kind::relu) return Function::relu;
  if (kind == EpilogueOp::Kind::gelu_tanh) return Function::gelu_tanh;
  return std::nullopt;
}

struct Reader {
  const loopir::Program& program;
  std::span<const int64_t> table;

  int64_t value(Id index) const { return program.expressions.evaluate(index, table); }
  int32_t dtype(const View& v) const { return program.buffers[v.buffer].dtype; }
  Matrix matrix(const View& v) const {
    size_t rank = v.sizes.size();
    return {.buffer = v.buffer,
            .offset = value(v.offset),
            .batch = rank > 2 ? value(v.strides[0]) : 0,
            .row = rank > 1 ? value(v.strides[rank - 2]) : 0,
            .column = value(v.strides[rank - 1])};
  }
};

}  // namespace

std::optional<Finish> finish_of(const std::vector<EpilogueOp>& epilogue) {
  Finish out;
  for (const EpilogueOp& op : epilogue) {
    if (out.function != Function::identity) return std::nullopt;
    if (op.kind == EpilogueOp::Kind::add) {
      if (out.added) return std::nullopt;
      out.added = op.operand;
      continue;
    }
    auto function = function_of(op.kind);
    if (!function) return std::nullopt;
    out.function = *function;
  }
  return out;
}

Problem problem_of(const loopir::Program& program, const loopir::Product& product,
                   std::span<const int64_t> table) {
  Reader read{program, table};
  const loopir::Ids& sizes = product.result.sizes;
  Problem out;
  out.dtype = read.dtype(product.left);
  out.result_dtype = read.dtype(product.result);
  out.batches = sizes.size() > 2 ? read.value(sizes[0]) : 1;
  out.m = read.value(sizes[sizes.size() - 2]);
  out.n = read.value(sizes.back());
  out.k = read.value(product.left.sizes.back());
  out.left = read.matrix(product.left);
  out.right = read.matrix(product.right);
  out.result = read.matrix(product.result);
  out.alpha = product.alpha;
  if (product.bias) {
    out.bias = read.matrix(*product.bias);
    out.bias_dtype = read.dtype(*product.bias);
  }
  auto finish = finish_of(product.epilogue);
  if (!finish)
    throw tenon::plugin::error(TN_INTERNAL, "a product has an epilogue that no kernel has");
  out.function = finish->function;
  // In the layout of the result, which may be a part of its buffer.
  if (finish->added) {
    out.added = out.result;
    out.added->buffer = finish->added->buffer;
  }
  return out;
}

void* place_of(const Matrix& matrix, int32_t dtype, std::span<void* const> pointers) {
  return static_cast<char*>(pointers[matrix.buffer]) + matrix.offset * loopir::item_size(dtype);
}

}  // namespace inductor_cuda
