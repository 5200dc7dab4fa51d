// Products element by element.
#include "cublaslt_work.h"

#include "numbers.h"

#include <cmath>
#include <utility>

namespace fake_cublaslt {

using fake_cuda::Number;

namespace {

Number number_of(lt::Type type) {
  return type == lt::type_f64    ? Number::f64
         : type == lt::type_f16  ? Number::f16
         : type == lt::type_bf16 ? Number::bf16
                                 : Number::f32;
}
double read(const void* base, int64_t at, lt::Type type) {
  return fake_cuda::read(base, at, number_of(type));
}

double activated(lt::Epilogue epilogue, double v) {
  if (epilogue & lt::epilogue_relu) return v <= 0 ? 0 : v;
  if (epilogue & lt::epilogue_gelu)
    return 0.5 * v * (1 + std::tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
  return v;
}

struct Runner {
  const Product& p;
  const Operation& op = p.operation;

  double element(const void* base, const Layout& layout, bool transposed, int64_t batch,
                 int64_t row, int64_t column) const {
    if (transposed) std::swap(row, column);
    double v =
        read(base, batch * layout.batch_stride + column * layout.column_stride + row, layout.type);
    return op.compute == lt::compute_tf32 ? fake_cuda::as_tf32(v) : v;
  }
  double sum(int64_t batch, int64_t row, int64_t column, int64_t from, int64_t to) const {
    double total = 0;
    for (int64_t k = from; k < to; ++k)
      total += element(p.left, p.left_layout, op.left == lt::transposed, batch, row, k) *
               element(p.right, p.right_layout, op.right == lt::transposed, batch, k, column);
    return op.compute == lt::compute_f64 ? total : static_cast<double>(static_cast<float>(total));
  }
  void finish(int64_t batch, int64_t row, int64_t column, double total) const {
    const Layout& layout = p.result_layout;
    double v = p.alpha * total;
    if (p.beta != 0)
      v += p.beta *
           read(p.added,
                batch * p.added_layout.batch_stride + column * p.added_layout.column_stride + row,
                p.added_layout.type);
    if (op.has_bias()) v += read(op.bias, row, layout.type);
    fake_cuda::write(p.result, batch * layout.batch_stride + column * layout.column_stride + row,
                     number_of(layout.type), activated(op.epilogue, v));
  }
  template <class F>
  void for_each(F&& body) const {
    for (int64_t b = 0; b < p.result_layout.batches; ++b)
      for (int64_t c = 0; c < p.result_layout.columns; ++c)
        for (int64_t r = 0; r < p.result_layout.rows; ++r) body(b, r, c);
  }
};

}  // namespace

size_t bytes_of(lt::Type type) { return type == lt::type_f64 ? 8 : type == lt::type_f32 ? 4 : 2; }

int32_t Product::run(bool (*may_touch)(const void*, size_t)) const {
  constexpr int32_t illegal_address = 700;
  auto is_there = [&](const void* base, const Layout& layout) {
    return may_touch(base, static_cast<size_t>(layout.span()) * bytes_of(layout.type));
  };
  size_t bias_bytes = static_cast<size_t>(result_layout.rows) * bytes_of(result_layout.type);
  if (!is_there(left, left_layout) || !is_there(right, right_layout) ||
      !is_there(result, result_layout) || (beta != 0 && !is_there(added, added_layout)) ||
      (operation.has_bias() && !may_touch(operation.bias, bias_bytes)) ||
      (found.workspace_bytes && !may_touch(workspace, found.workspace_bytes)))
    return illegal_address;
  Runner runner{*this};
  int64_t half = found.workspace_bytes ? inner() / 2 : 0;
  auto* parts = static_cast<double*>(workspace);
  int64_t at = 0;
  if (half)
    runner.for_each(
        [&](int64_t b, int64_t r, int64_t c) { parts[at++] = runner.sum(b, r, c, 0, half); });
  at = 0;
  runner.for_each([&](int64_t b, int64_t r, int64_t c) {
    double rest = runner.sum(b, r, c, half, inner());
    runner.finish(b, r, c, half ? parts[at++] + rest : rest);
  });
  return 0;
}

}  // namespace fake_cublaslt
