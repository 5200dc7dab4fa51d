// torch.nn.functional.linear_cross_entropy with options: in PyTorch ops of its own, which take the
// batch in chunks. Here they are what they compute: a product and a cross entropy.
#include "core/sym/sym_int.h"
#include "ops/nn/reduction.h"
#include "ops/op.h"

#include <tenon/ops.h>

namespace tenon::ops {

namespace {

int64_t reduction_number(std::string_view reduction) {
  if (reduction == "none") return no_reduction;
  if (reduction == "mean") return mean_reduction;
  require(reduction == "sum", "linear_cross_entropy: reduction must be none, mean or sum, found {}",
          reduction);
  return sum_reduction;
}

// [N, C], in the dtype in which losses are accumulated.
Tensor logs_of_scores(const Tensor& input, const Tensor& linear_weight, const Tensor& bias,
                      Dtype acc_dtype) {
  require(input.dim() == 2 && linear_weight.dim() == 2,
          "linear_cross_entropy: input [N, F] and linear_weight [C, F] are expected, found shapes "
          "{} and {}",
          input.sizes(), linear_weight.sizes());
  Tensor cast_bias = bias.defined() ? to(bias, input.dtype()) : bias;
  Tensor scores = linear(input, to(linear_weight, input.dtype()), cast_bias);
  return log_softmax(scores, 1, acc_dtype);
}

/// What the loss is made of besides the scores.
struct Targets {
  Tensor target, weight;
  int64_t reduction;
  SymInt ignored;
  bool are_probabilities() const { return is_floating(target.dtype()); }
};

Tensor loss_of_logs(const Tensor& logs, const Targets& t) {
  if (!t.are_probabilities()) return nll_loss_nd(logs, t.target, t.weight, t.reduction, t.ignored);
  return cross_entropy_loss(logs, t.target, t.weight, t.reduction);
}

// The derivative of the loss with respect to the logarithms.
Tensor slope_of_logs(const Tensor& logs, const Targets& t) {
  if (!t.are_probabilities()) {
    auto [loss, total] = nll_loss_forward(logs, t.target, t.weight, t.reduction, t.ignored);
    return nll_loss_backward(ones_like(loss), logs, t.target, t.weight, t.reduction, t.ignored,
                             total);
  }
  Tensor share = t.weight.defined() ? mul(t.target, t.weight) : t.target;
  if (t.reduction == mean_reduction) share = div(share, logs.size(0));
  return neg(share);
}

Targets cast_targets(const Tensor& target, const Tensor& weight, int64_t reduction, SymInt ignored,
                     Dtype acc_dtype) {
  Tensor typed = is_floating(target.dtype()) ? to(target, acc_dtype) : target;
  return {typed, weight.defined() ? to(weight, acc_dtype) : weight, reduction, ignored};
}

using Results = std::tuple<Tensor, Tensor, Tensor, Tensor>;

// PyTorch computes the gradients with the loss. Those that are not asked for have no elements.
Results chunked_decomp(const Tensor& input, const Tensor& linear_weight, const Tensor& target,
                       const Tensor& bias, const Tensor& weight, std::string_view reduction,
                       SymInt ignored, double smoothing, SymInt, std::string_view, Dtype acc_dtype,
                       bool, bool input_grad, bool weight_grad, bool bias_grad) {
  require(smoothing == 0, "linear_cross_entropy: label_smoothing must be 0, found {}", smoothing);
  int64_t number = reduction_number(reduction);
  Targets t = cast_targets(target, weight, number, ignored, acc_dtype);
  Tensor logs = logs_of_scores(input, linear_weight, bias, acc_dtype);
  Tensor loss = to(loss_of_logs(logs, t), input.dtype());
  Tensor of_input = zeros({0, 0}, input.dtype()), of_weight = of_input;
  Tensor of_bias = zeros({0}, input.dtype());
  if (!input_grad && !weight_grad && !bias_grad) return {loss, of_input, of_weight, of_bias};
  Tensor fixed = logs.detach();
  Tensor slope = _log_softmax_backward_data(slope_of_logs(fixed, t), fixed, 1, fixed.dtype());
  slope = to(slope, input.dtype());
  if (input_grad) of_input = mm(slope, to(linear_weight.detach(), input.dtype()));
  if (weight_grad) of_weight = mm(transpose(slope, 0, 1), input.detach());
  if (bias_grad) of_bias = sum(slope, {0});
  return {loss, of_input, of_weight, of_bias};
}

Tensor no_reduction_decomp(const Tensor& input, const Tensor& linear_weight, const Tensor& target,
                           const Tensor& bias, const Tensor& weight, SymInt ignored, SymInt,
                           std::string_view, Dtype acc_dtype) {
  Targets t = cast_targets(target, weight, no_reduction, ignored, acc_dtype);
  return to(loss_of_logs(logs_of_scores(input, linear_weight, bias, acc_dtype), t), input.dtype());
}

}  // namespace

static constexpr OpDef nn_linear_cross_entropy_rows[] = {
    {.schema = "torch_nn::_linear_cross_entropy_batch_chunked(Tensor input, Tensor linear_weight, "
               "Tensor target, Tensor? linear_bias, Tensor? weight, str reduction, "
               "SymInt ignore_index, float label_smoothing, SymInt batch_chunk_size, "
               "str acc_policy, ScalarType acc_dtype, bool allow_retain_graph, "
               "bool compute_input_grad, bool compute_linear_weight_grad, "
               "bool compute_linear_bias_grad) -> (Tensor, Tensor, Tensor, Tensor)",
     .decomp = fn<chunked_decomp>},
    {.schema = "torch_nn::_linear_cross_entropy_batch_chunked_no_reduction(Tensor input, "
               "Tensor linear_weight, Tensor target, Tensor? linear_bias, Tensor? weight, "
               "SymInt ignore_index, SymInt batch_chunk_size, str acc_policy, "
               "ScalarType acc_dtype) -> Tensor",
     .decomp = fn<no_reduction_decomp>},
};

extern constinit const OpFamily op_family_nn_linear_cross_entropy{nn_linear_cross_entropy_rows};

}  // namespace tenon::ops
