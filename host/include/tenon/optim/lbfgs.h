// SPDX-License-Identifier: Apache-2.0
// L-BFGS, after torch.optim.LBFGS: an optimiser for few parameters and exact gradients, which calls
// the model several times a step.
//
//     optim::LBFGS opt(net.parameters(), {.strong_wolfe = true});
//     Tensor loss = opt.step([&] {
//       opt.zero_grad();
//       Tensor l = (net(x) - y).square().mean();
//       l.backward();
//       return l;
//     });
#pragma once

#include <tenon/optim.h>

#include <functional>
#include <optional>
#include <source_location>

namespace tenon::optim {

struct LBFGSOptions {
  double lr = 1;
  int64_t max_iter = 20;            ///< directions a step
  std::optional<int64_t> max_eval;  ///< calls of the closure a step; 1.25 * max_iter unless given
  double tolerance_grad = 1e-7;     ///< a step ends where no element of the gradient is larger,
  double tolerance_change = 1e-9;   ///< or where parameters or loss change by less
  int64_t history_size = 100;       ///< pairs of tensors as large as all parameters together
  bool strong_wolfe = false;        ///< searches along each direction, else goes lr of it
  bool maximize = false;
};

/// One group of floating parameters. step() looks at data after each call of the closure: in a compiled
/// body it cuts the graph and runs as it is, as in a NoCompile. The closure may be a compiled callable.
class TENON_API LBFGS : public Optimizer {
 public:
  explicit LBFGS(const std::vector<Tensor>& parameters, const LBFGSOptions& options = {});

  /// `closure` clears the gradients, computes the loss, calls backward() and returns the loss.
  /// Returns what its first call gave. What it throws leaves the parameters where they were at that
  /// call, and the next step goes on from there.
  Tensor step(const std::function<Tensor()>& closure,
              std::source_location where = std::source_location::current());

  /// "group.0.lr", "lbfgs.numbers" and, once there was a step, "lbfgs.direction",
  /// "lbfgs.previous_grad", "lbfgs.grad_change.<i>" and "lbfgs.step.<i>", the oldest first: flat.
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

  /// How often the closure was called by all steps.
  int64_t n_evaluations() const { return n_evaluations_; }

 private:
  struct Pair {
    Tensor step, grad_change;
    double inverse_product;
  };
  /// Throws UserError: the parameters are not updated one by one.
  void update(size_t group, const Tensor& parameter, const Tensor& grad,
              const std::vector<Tensor>& state) const override;
  double evaluate(const std::function<Tensor()>& closure, Tensor* loss = nullptr);
  Tensor flat_grad() const;
  void move_by(double t, const Tensor& direction) const;
  void choose_direction(const Tensor& grad);
  void remember(const Tensor& grad);
  /// Sets t_, and loss and gradient to those at its end; `most` more evaluations.
  void search(const std::function<Tensor()>& closure, double slope, int64_t most, double& loss,
              Tensor& grad);

  LBFGSOptions options_;
  Tensor direction_, previous_grad_;
  std::vector<Pair> history_;
  double t_ = 0, scale_ = 1;
  int64_t n_directions_ = 0, n_evaluations_ = 0;
};

}  // namespace tenon::optim
