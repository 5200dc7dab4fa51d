// Post-ops, one by one.
#include "post_ops.h"

#include "bf16.h"

#include <algorithm>

namespace onednn {

namespace {

using dnnl::algorithm;

void append(dnnl::post_ops& ops, PostOp op) {
  auto eltwise = [&](algorithm function, float alpha = 0, float beta = 0) {
    ops.append_eltwise(1, function, alpha, beta);
  };
  switch (op) {
    case PostOp::gelu:
      return eltwise(algorithm::eltwise_gelu_erf);
    case PostOp::tanh:
      return eltwise(algorithm::eltwise_tanh);
    case PostOp::sigmoid:
      return eltwise(algorithm::eltwise_logistic);
    case PostOp::silu:
      return eltwise(algorithm::eltwise_swish, 1);
    case PostOp::hardswish:
      return eltwise(algorithm::eltwise_hardswish);
    case PostOp::add:
      return ops.append_sum();
    case PostOp::relu:
    case PostOp::hardsigmoid:
      return;  // done_behind()
  }
}

bool loses_nan(PostOp op) { return op == PostOp::relu || op == PostOp::hardsigmoid; }

template <class F>
void for_each_number(void* numbers, size_t bytes, int32_t dtype, F f) {
  if (dtype == TN_F32) {
    auto* x = static_cast<float*>(numbers);
    for (size_t i = 0; i < bytes / sizeof(float); ++i) x[i] = f(x[i]);
    return;
  }
  auto* x = static_cast<uint16_t*>(numbers);
  for (size_t i = 0; i < bytes / sizeof(uint16_t); ++i) x[i] = to_bf16(f(from_bf16(x[i])));
}

}  // namespace

bool has_operand(std::span<const PostOp> post_ops) {
  return std::ranges::count(post_ops, PostOp::add) > 0;
}

std::optional<PostOp> done_behind(std::span<const PostOp> post_ops) {
  return !post_ops.empty() && loses_nan(post_ops.back()) ? std::optional(post_ops.back())
                                                         : std::nullopt;
}

void apply(PostOp op, void* numbers, size_t bytes, int32_t dtype) {
  if (op == PostOp::relu)
    for_each_number(numbers, bytes, dtype, [](float x) { return x < 0 ? 0 : x; });
  else
    for_each_number(numbers, bytes, dtype, [](float x) {
      float low = x + 3 < 0 ? 0 : x + 3;
      return (low > 6 ? 6 : low) / 6;
    });
}

std::optional<dnnl::primitive_attr> attributes(std::span<const PostOp> post_ops) {
  if (std::ranges::any_of(post_ops, loses_nan)) return {};
  if (std::ranges::count(post_ops, PostOp::add) > 1) return {};
  dnnl::post_ops ops;
  for (PostOp op : post_ops) append(ops, op);
  dnnl::primitive_attr attr = attributes();
  attr.set_post_ops(ops);
  return attr;
}

}  // namespace onednn
