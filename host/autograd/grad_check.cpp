// Gradients against central differences.
//
// Method: for each result a fixed random cotangent c gives the number L = sum(c * f(x)). Its
// gradient by the tape is compared, element by element, with (L(x + eps) - L(x - eps)) / (2 eps).
// Second order: the same for the function that maps x and c to the gradients. Cost: two runs of `f`
// for each element.
#include <tenon/autograd.h>

#include "core/error.h"
#include "core/tensor/tensor_impl.h"

#include <tenon/ops/create.h>

#include <cmath>

namespace tenon::autograd {

namespace {

using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

bool is_checked(const Tensor& t) { return t.defined() && t.dtype() == Dtype::f64; }

// Numbers between -1 and 1 that no run shares by accident and every run repeats.
Tensor cotangent_for(const Tensor& result, size_t number) {
  Tensor c = zeros_like(result).contiguous();
  auto* values = c.data_ptr<double>();
  int64_t n = c.numel().guard_int();
  for (int64_t i = 0; i < n; ++i)
    values[i] = std::sin(1.0 + 0.7 * static_cast<double>(i) + 2.3 * static_cast<double>(number));
  return c;
}

double weighted(const TensorFunction& f, const std::vector<Tensor>& inputs,
                const std::vector<Tensor>& cotangents) {
  NoGradGuard no_grad;
  std::vector<Tensor> results = f(inputs);
  double sum = 0;
  for (size_t r = 0; r < results.size(); ++r)
    if (cotangents[r].defined()) sum += (results[r] * cotangents[r]).sum().to_vector<double>()[0];
  return sum;
}

// Dense copies, so that an element can be moved alone.
std::vector<Tensor> leaves_of(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& t : inputs)
    leaves.push_back(is_checked(t) ? t.detach().clone(MemoryFormat::contiguous) : t);
  return leaves;
}

std::vector<Tensor> cotangents_of(const std::vector<Tensor>& results) {
  std::vector<Tensor> out;
  for (size_t r = 0; r < results.size(); ++r)
    out.push_back(is_checked(results[r]) ? cotangent_for(results[r], r) : Tensor());
  return out;
}

std::vector<Tensor> gradients(const TensorFunction& f, const std::vector<Tensor>& leaves,
                              const std::vector<Tensor>& cotangents, bool create_graph) {
  std::vector<Tensor> results = f(leaves), outputs, weights, wanted;
  for (size_t r = 0; r < results.size(); ++r)
    if (cotangents[r].defined() && results[r].requires_grad()) {
      outputs.push_back(results[r]);
      weights.push_back(cotangents[r]);
    }
  for (const Tensor& t : leaves)
    if (is_checked(t) && t.requires_grad()) wanted.push_back(t);
  if (outputs.empty() || wanted.empty()) return std::vector<Tensor>(wanted.size());
  return grad(outputs, wanted,
              {.grad_outputs = weights, .create_graph = create_graph, .allow_unused = true});
}

std::string compare(const TensorFunction& f, const std::vector<Tensor>& inputs,
                    const GradCheckOptions& o, const char* order) {
  std::vector<Tensor> moved = leaves_of(inputs), leaves = leaves_of(inputs);
  for (const Tensor& t : leaves)
    if (is_checked(t)) t.requires_grad_();
  std::vector<Tensor> cotangents;
  {
    NoGradGuard no_grad;
    cotangents = cotangents_of(f(moved));
  }
  std::vector<Tensor> tape = gradients(f, leaves, cotangents, false);
  size_t next = 0;
  for (size_t i = 0; i < moved.size(); ++i) {
    if (!is_checked(moved[i])) continue;
    Tensor ours = tape[next++];
    std::vector<double> found;
    if (ours.defined()) found = ours.detach().to_vector<double>();
    auto* x = moved[i].data_ptr<double>();
    int64_t n = moved[i].numel().guard_int();
    for (int64_t k = 0; k < n; ++k) {
      double at = x[k];
      x[k] = at + o.eps;
      double above = weighted(f, moved, cotangents);
      x[k] = at - o.eps;
      double below = weighted(f, moved, cotangents);
      x[k] = at;
      double expected = (above - below) / (2 * o.eps), got = found.empty() ? 0 : found[k];
      if (std::abs(got - expected) <= o.atol + o.rtol * std::abs(expected)) continue;
      return message(
          "{} derivative with respect to input {}, element {}: the tape gives {}, differences {}",
          order, i, k, got, expected);
    }
  }
  return {};
}

}  // namespace

std::string grad_check(const TensorFunction& f, const std::vector<Tensor>& inputs,
                       const GradCheckOptions& options) {
  std::string wrong = compare(f, inputs, options, "first");
  if (!wrong.empty() || !options.second_order) return wrong;
  std::vector<Tensor> cotangents, all = inputs;
  {
    NoGradGuard no_grad;
    cotangents = cotangents_of(f(leaves_of(inputs)));
  }
  TensorFunction gradient = [&](const std::vector<Tensor>& at) {
    EnableGradGuard grad_on;
    std::vector<Tensor> leaves;
    for (const Tensor& t : at) {
      bool fresh = is_checked(t) && !t.requires_grad();
      leaves.push_back(fresh ? t.detach().requires_grad_() : t);
    }
    return gradients(f, leaves, cotangents, true);
  };
  return compare(gradient, inputs, options, "second");
}

}  // namespace tenon::autograd
