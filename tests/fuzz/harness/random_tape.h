// Random tapes: some twenty ops on a few leaves, with hooks of all kinds, functions with a derivative
// of their own, compiled parts, packed tensors and optimisers that step in the pass; then one or two
// backward passes. Run by the engine and compiled they give the same, also when the code is used
// again with other data and sizes.
#pragma once

#include "choices.h"

#include <tenon/compile.h>
#include <tenon/compiled_autograd.h>
#include <tenon/optim.h>
#include <tenon/tenon.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tenon::fuzz {

using Tensors = std::vector<Tensor>;

struct Halves : autograd::Function<Halves> {
  static Tensors forward(autograd::Context& context, const Tensors& in) {
    context.save_for_backward({in[0]});
    return {in[0] * in[1] * 0.5};
  }
  // No gradient for the second one where the first is large: a surprise for who has recorded it.
  static Tensors backward(autograd::Context& context, Tensors grads) {
    Tensor x = context.saved_tensors()[0];
    return {grads[0] * 0.5, x.dim() > 1 ? Tensor() : grads[0] * x};
  }
};

inline const CompiledFunction<Tensor(const Tensor&, const Tensor&)>& compiled_part() {
  static auto* part = new CompiledFunction<Tensor(const Tensor&, const Tensor&)>(
      compile([](const Tensor& a, const Tensor& b) { return (a * b).tanh() + a; },
              {.backend = "aot_eager"}));
  return *part;
}

/// Made by `choices`; sizes and data are others for each `variant`.
class RandomTape {
 public:
  RandomTape(Choices choices, int variant) : choices_(std::move(choices)), variant_(variant) {}

  /// What hooks have seen, the gradients of the leaves, and the leaves themselves.
  Tensors run() {
    int64_t batch = 2 + variant_ * 3;
    leaves_ = {leaf({batch, 3}, 0.3), leaf({batch, 3}, -0.2), leaf({3}, 0.5), leaf({batch}, 0.1)};
    pool_ = leaves_;
    std::unique_ptr<optim::SGD> optimizer;
    std::unique_ptr<optim::StepInBackward> in_backward;
    if (pick(8) == 0) {
      optimizer = std::make_unique<optim::SGD>(
          leaves_, optim::SGDOptions{.lr = 0.1, .momentum = pick(2) == 0 ? 0.5 : 0});
      in_backward = std::make_unique<optim::StepInBackward>(*optimizer);
    }
    size_t steps = 2 + pick(20);
    for (size_t i = 0; i < steps; ++i) step();
    Tensor sum = zeros({}, Dtype::f64);
    size_t used = 1 + pick(4);
    for (size_t i = 0; i < used; ++i)
      sum = sum + pool_[pool_.size() - 1 - pick(pool_.size())].sum();
    for (const Tensor& t : pool_)
      if (pick(4) == 0) sum = sum + (t * 0.1).sin().sum();
    if (!sum.requires_grad()) return {};
    sum.backward({}, true);
    if (pick(3) == 0) sum.backward();
    for (const Tensor& t : leaves_) {
      seen_.push_back(t.grad());
      seen_.push_back(t.detach());
    }
    return seen_;
  }

 private:
  uint32_t pick(size_t n) { return choices_.below(static_cast<uint32_t>(n)); }

  Tensor leaf(IntList sizes, double first) {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    std::vector<double> values;
    for (int64_t i = 0; i < n; ++i)
      values.push_back(std::sin(first + 0.7 * static_cast<double>(i + 5 * variant_)));
    return tensor(values, sizes).requires_grad_();
  }

  static bool same_shape(const Tensor& a, const Tensor& b) {
    return to_text(a.sizes()) == to_text(b.sizes());
  }
  static bool expands(const Tensor& from, const Tensor& to) {
    if (from.dim() > to.dim()) return false;
    for (int64_t d = 1; d <= from.dim(); ++d) {
      int64_t size = from.size(-d).guard_int();
      if (size != 1 && size != to.size(-d).guard_int()) return false;
    }
    return true;
  }

  void step() {
    Tensor a = pool_[pick(pool_.size())], b = pool_[pick(pool_.size())];
    switch (pick(22)) {
      case 0:
        return push(a.sin());
      case 1:
        return expands(b, a) ? push(a * b) : void();
      case 2:
        return expands(b, a) ? push(a - b) : void();
      case 3:
        return push((a * 0.5).tanh());
      case 4:
        return a.dim() ? push(a.sum({-1}, pick(2) == 0)) : void();
      case 5:
        return a.dim() > 1 ? push(a.transpose(0, 1)) : void();
      case 6:
        return a.dim() ? push(a.narrow(0, 0, 2)) : void();
      case 7:
        return push(a.exp() * 0.1);
      case 8:
        return same_shape(a, b) ? push(cat({a, b}, 0)) : void();
      case 9:
        return a.dim() == 2 && b.dim() == 2 && same_shape(a, b) ? push(a.matmul(b.t())) : void();
      case 10:
        return push(a.relu());
      case 11:
        return a.is_leaf() ? void() : in_place(a, b);
      case 12:
        return a.dim() ? push(a.softmax(-1)) : void();
      case 13:
        return same_shape(a, b) ? push(where(a > b, a, b * 2)) : void();
      case 14:
        return push(a.reshape({-1}));
      case 15:
        return same_shape(a, b) ? push(Halves::apply({a, b})[0]) : void();
      case 16:
        return same_shape(a, b) ? push(compiled_part()(a, b)) : void();
      case 17:
        return hooks(a);
      case 18:
        return a.dim() == 2 ? push(a.expand({2, -1, -1})) : void();
      case 19:
        return packed(a);
      case 20:
        return push(autograd::checkpoint(
            [](const Tensors& in) { return Tensors{(in[0].sin() * in[0]).exp() * 0.1}; }, {a})[0]);
      default:
        return push(a.abs().sqrt());
    }
  }

  void push(const Tensor& t) {
    if (t.numel().guard_int() < 400) pool_.push_back(t);
  }

  void packed(const Tensor& a) {
    bool changes_dtype = pick(8) == 0;  // a surprise for who has recorded the pass
    autograd::SavedTensorHooks hooks(
        [](const Tensor& t) { return std::make_shared<Tensor>(t * 2); },
        [changes_dtype](const std::shared_ptr<void>& data) {
          Tensor t = *std::static_pointer_cast<Tensor>(data) * 0.5;
          return changes_dtype ? t.to(Dtype::f32) : t;
        });
    push((a.tanh() * a).sin());
  }

  void in_place(const Tensor& a, const Tensor& b) {
    if (expands(b, a)) a.add_(b);  // of a view of a leaf: refused alike
  }

  void hooks(const Tensor& a) {
    if (!a.requires_grad()) return;
    auto look = [this](const Tensor& g) { seen_.push_back(g.detach().clone()); };
    switch (pick(5)) {
      case 0:
        autograd::register_hook(a, look);
        return;
      case 1:
        autograd::register_hook(a, [](const Tensor& g) { return g * 1.5; });
        return;
      case 2:
        if (autograd::GradFn fn = autograd::grad_fn(a))
          fn.register_prehook([](const Tensors& grads) {
            Tensors out;
            for (const Tensor& g : grads) out.push_back(g.defined() ? g * 0.5 : g);
            return out;
          });
        return;
      case 3:
        if (autograd::GradFn fn = autograd::grad_fn(a))
          fn.register_hook([this](const Tensors& outputs, const Tensors&) {
            for (const Tensor& g : outputs)
              if (g.defined()) seen_.push_back(g.detach().clone());
            return Tensors();
          });
        return;
      default:
        if (a.is_leaf())
          autograd::register_post_accumulate_grad_hook(a, [this](const Tensor& t) {
            // An optimiser that steps in the pass has taken it.
            seen_.push_back((t.grad().defined() ? t.grad() : t.detach()).clone());
          });
        else
          a.retain_grad();
    }
  }

  Choices choices_;
  int variant_;
  Tensors leaves_, pool_, seen_;
};

/// What a tape gives, or why there is nothing.
inline std::pair<Tensors, std::string> outcome_of(Choices choices, int variant) {
  try {
    return {RandomTape(std::move(choices), variant).run(), ""};
  } catch (const UserError& error) {
    return {{}, error.what()};
  }
}

/// How the second differs from the first; empty when it does not.
inline std::string difference_between(const std::pair<Tensors, std::string>& wanted,
                                      const std::pair<Tensors, std::string>& found) {
  if (found.second != wanted.second)
    return "error \"" + found.second + "\", not \"" + wanted.second + "\"";
  if (found.first.size() != wanted.first.size()) return "another number of tensors";
  for (size_t i = 0; i < wanted.first.size(); ++i) {
    const Tensor &a = found.first[i], &b = wanted.first[i];
    std::string name = "tensor " + std::to_string(i);
    if (a.defined() != b.defined()) return name + " is undefined on one side";
    if (!a.defined()) continue;
    auto x = a.detach().to_vector<double>(), y = b.detach().to_vector<double>();
    if (x.size() != y.size()) return name + " has another size";
    for (size_t k = 0; k < x.size(); ++k) {
      bool same = x[k] == y[k] || (std::isnan(x[k]) && std::isnan(y[k])) ||
                  std::abs(x[k] - y[k]) <= 1e-9 * std::max(1.0, std::abs(y[k]));
      if (!same) return name + ": " + std::to_string(x[k]) + ", not " + std::to_string(y[k]);
    }
  }
  return {};
}

/// How compiled passes over the tape differ from the engine's: recorded, used again, and with other
/// sizes.
inline std::string difference_in_tape(const Choices& choices, const std::string& backend) {
  for (int variant : {0, 0, 1}) {
    auto plain = outcome_of(choices, variant);
    auto on = compiled_autograd::enable(backend);
    std::string what = difference_between(plain, outcome_of(choices, variant));
    if (!what.empty()) return what;
  }
  return {};
}

}  // namespace tenon::fuzz
