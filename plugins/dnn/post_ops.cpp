// Post-ops, one by one.
#include "post_ops.h"

#include <algorithm>

namespace onednn {

namespace {

using dnnl::algorithm;
using Kind = PostOp::Kind;

void append(dnnl::post_ops& ops, algorithm function, float alpha = 0, float beta = 0) {
  ops.append_eltwise(1, function, alpha, beta);
}

void append(dnnl::post_ops& ops, const PostOp& op) {
  switch (op.kind) {
    case Kind::relu:
      return append(ops, algorithm::eltwise_relu, op.alpha);
    case Kind::gelu_erf:
      return append(ops, algorithm::eltwise_gelu_erf);
    case Kind::gelu_tanh:
      return append(ops, algorithm::eltwise_gelu_tanh);
    case Kind::tanh:
      return append(ops, algorithm::eltwise_tanh);
    case Kind::logistic:
      return append(ops, algorithm::eltwise_logistic);
    case Kind::swish:
      return append(ops, algorithm::eltwise_swish, op.alpha);
    case Kind::hardswish:
      return append(ops, algorithm::eltwise_hardswish);
    case Kind::hardsigmoid:  // oneDNN has it from 2.7 on
      append(ops, algorithm::eltwise_linear, 1.0f / 6, 0.5f);
      return append(ops, algorithm::eltwise_clip_v2, 0, 1);
    case Kind::clip:
      return append(ops, algorithm::eltwise_clip_v2, op.alpha, op.beta);
    case Kind::linear:
      return append(ops, algorithm::eltwise_linear, op.alpha, op.beta);
    case Kind::add:
      return ops.append_sum();
    case Kind::multiply:
      break;
  }
}

int64_t count(std::span<const PostOp> post_ops, Kind kind) {
  return std::ranges::count(post_ops, kind, &PostOp::kind);
}

}  // namespace

bool has_operand(std::span<const PostOp> post_ops) { return count(post_ops, Kind::add) > 0; }

std::optional<dnnl::primitive_attr> attributes(std::span<const PostOp> post_ops) {
  if (count(post_ops, Kind::multiply) > 0 || count(post_ops, Kind::add) > 1) return {};
  dnnl::post_ops ops;
  for (const PostOp& op : post_ops) append(ops, op);
  dnnl::primitive_attr attr = attributes();
  attr.set_post_ops(ops);
  return attr;
}

}  // namespace onednn
