// Post-ops, one by one.
#include "post_ops.h"

#include <algorithm>

namespace onednn {

namespace {

using dnnl::algorithm;

void append(dnnl::post_ops& ops, PostOp op) {
  auto eltwise = [&](algorithm function, float alpha = 0, float beta = 0) {
    ops.append_eltwise(1, function, alpha, beta);
  };
  switch (op) {
    case PostOp::relu:
      return eltwise(algorithm::eltwise_relu);
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
    case PostOp::hardsigmoid:  // oneDNN has it from 2.7 on
      eltwise(algorithm::eltwise_linear, 1.0f / 6, 0.5f);
      return eltwise(algorithm::eltwise_clip_v2, 0, 1);
    case PostOp::add:
      return ops.append_sum();
  }
}

}  // namespace

bool has_operand(std::span<const PostOp> post_ops) {
  return std::ranges::count(post_ops, PostOp::add) > 0;
}

std::optional<dnnl::primitive_attr> attributes(std::span<const PostOp> post_ops) {
  if (std::ranges::count(post_ops, PostOp::add) > 1) return {};
  dnnl::post_ops ops;
  for (PostOp op : post_ops) append(ops, op);
  dnnl::primitive_attr attr = attributes();
  attr.set_post_ops(ops);
  return attr;
}

}  // namespace onednn
