// Adagrad, Adadelta, Adamax, NAdam, RAdam.
//
// What changes from step to step is tensors, as optim.cpp says.
// Cost of one eager step, passes over memory a parameter: Adagrad 4, Adadelta 8, Adamax 5, NAdam 7,
//   RAdam 8.
// Sources: Duchi, Hazan, Singer, "Adaptive subgradient methods" (2011); Zeiler, "ADADELTA" (2012);
//   Kingma, Ba, "Adam", §7 (2015); Dozat, "Incorporating Nesterov momentum into Adam" (2016); Liu et
//   al., "On the variance of the adaptive learning rate" (2020).
#include "nn/optim_parts.h"

#include <tenon/ops/create.h>
#include <tenon/ops/index.h>
#include <tenon/optim/adaptive.h>

namespace tenon::optim {
namespace {

template <class Options>
void require_adam_options(std::string_view optimizer, const Options& o) {
  require_at_least_zero(optimizer, "lr", o.lr);
  require_at_least_zero(optimizer, "eps", o.eps);
  require_at_least_zero(optimizer, "weight_decay", o.weight_decay);
  require_fraction(optimizer, "the first beta", o.betas.first);
  require_fraction(optimizer, "the second beta", o.betas.second);
}

// Takes g into the mean and the mean square of the gradients.
void take_moments(const Tensor& g, const Tensor& mean, const Tensor& square, const Tensor& beta1,
                  double beta2) {
  mean.lerp_(g, (1 - beta1).to(mean.dtype()));
  square.mul_(beta2).addcmul_(g, g, 1 - beta2);
}

}  // namespace

Adagrad::Adagrad(const std::vector<Tensor>& parameters, const AdagradOptions& options) {
  add_param_group(parameters, options);
}

void Adagrad::add_param_group(const std::vector<Tensor>& parameters,
                              const AdagradOptions& options) {
  require_at_least_zero("Adagrad", "lr", options.lr);
  require_at_least_zero("Adagrad", "lr_decay", options.lr_decay);
  require_at_least_zero("Adagrad", "eps", options.eps);
  require_at_least_zero("Adagrad", "weight_decay", options.weight_decay);
  require_at_least_zero("Adagrad", "initial_accumulator_value", options.initial_accumulator_value);
  add_group(parameters, options.lr, 0, {{"step", true}, {"sum"}});
  for (const Group::Slot& slot : groups().back().slots)
    real_parts(slot.state[1]).fill_(options.initial_accumulator_value);
  options_.push_back(options);
}

void Adagrad::update(size_t group, const Tensor& parameter, const Tensor& grad,
                     const std::vector<Tensor>& state) const {
  const AdagradOptions& o = options_[group];
  const Tensor &step = state[0], &sum = state[1];
  Tensor rate = groups()[group].lr.tensor() / step.mul(o.lr_decay).add_(1);
  step.add_(1);
  Tensor g = descent(grad, parameter, o.maximize, o.weight_decay);
  sum.addcmul_(g, g);
  parameter.addcdiv_(g * rate, sum.sqrt().add_(o.eps), -1);
}

Adadelta::Adadelta(const std::vector<Tensor>& parameters, const AdadeltaOptions& options) {
  add_param_group(parameters, options);
}

void Adadelta::add_param_group(const std::vector<Tensor>& parameters,
                               const AdadeltaOptions& options) {
  require_at_least_zero("Adadelta", "lr", options.lr);
  require_at_least_zero("Adadelta", "eps", options.eps);
  require_at_least_zero("Adadelta", "weight_decay", options.weight_decay);
  require(options.rho >= 0 && options.rho <= 1, "Adadelta: expected rho in [0, 1], found {}",
          options.rho);
  add_group(parameters, options.lr, 0, {{"square_avg"}, {"acc_delta"}});
  options_.push_back(options);
}

void Adadelta::update(size_t group, const Tensor& parameter, const Tensor& grad,
                      const std::vector<Tensor>& state) const {
  const AdadeltaOptions& o = options_[group];
  const Tensor &square = state[0], &moved = state[1];
  Tensor g = descent(grad, parameter, o.maximize, o.weight_decay);
  square.mul_(o.rho).addcmul_(g, g, 1 - o.rho);
  Tensor delta = moved.add(o.eps).sqrt_().div_(square.add(o.eps).sqrt_()).mul_(g);
  moved.mul_(o.rho).addcmul_(delta, delta, 1 - o.rho);
  parameter.addcmul_(delta, groups()[group].lr.tensor(), -1);
}

Adamax::Adamax(const std::vector<Tensor>& parameters, const AdamaxOptions& options) {
  add_param_group(parameters, options);
}

void Adamax::add_param_group(const std::vector<Tensor>& parameters, const AdamaxOptions& options) {
  require_adam_options("Adamax", options);
  add_group(parameters, options.lr, options.betas.first,
            {{"step", true}, {"exp_avg"}, {"exp_inf"}});
  options_.push_back(options);
}

void Adamax::update(size_t group, const Tensor& parameter, const Tensor& grad,
                    const std::vector<Tensor>& state) const {
  const AdamaxOptions& o = options_[group];
  const Tensor &lr = groups()[group].lr.tensor(), &beta1 = groups()[group].momentum.tensor();
  const Tensor &step = state[0], &mean = state[1], &largest = state[2];
  step.add_(1);
  Tensor g = descent(grad, parameter, o.maximize, o.weight_decay);
  mean.lerp_(g, (1 - beta1).to(mean.dtype()));
  largest.copy_(largest.mul(o.betas.second).maximum(g.abs().add_(o.eps)));
  parameter.addcdiv_(mean * (lr / (1 - beta1.pow(step))), largest, -1);
}

NAdam::NAdam(const std::vector<Tensor>& parameters, const NAdamOptions& options) {
  add_param_group(parameters, options);
}

void NAdam::add_param_group(const std::vector<Tensor>& parameters, const NAdamOptions& options) {
  require_adam_options("NAdam", options);
  require_at_least_zero("NAdam", "momentum_decay", options.momentum_decay);
  add_group(parameters, options.lr, options.betas.first,
            {{"step", true}, {"mu_product", true, 1}, {"exp_avg"}, {"exp_avg_sq"}});
  options_.push_back(options);
}

void NAdam::update(size_t group, const Tensor& parameter, const Tensor& grad,
                   const std::vector<Tensor>& state) const {
  const NAdamOptions& o = options_[group];
  const Tensor &lr = groups()[group].lr.tensor(), &beta1 = groups()[group].momentum.tensor();
  const Tensor &step = state[0], &mu_product = state[1], &mean = state[2], &square = state[3];
  step.add_(1);
  if (o.decoupled_weight_decay) decay(parameter, lr, o.weight_decay);
  Tensor g = descent(grad, parameter, o.maximize, o.decoupled_weight_decay ? 0 : o.weight_decay);
  auto mu_at = [&](const Tensor& t) { return beta1 * (1 - 0.5 * pow(0.96, t * o.momentum_decay)); };
  Tensor mu = mu_at(step), next = mu_at(step + 1);
  mu_product.mul_(mu);
  take_moments(g, mean, square, beta1, o.betas.second);
  Tensor correction = 1 - pow(o.betas.second, step);
  Tensor deviation = square.div(correction).sqrt_().add_(o.eps);
  parameter.addcdiv_(g * (lr * (1 - mu) / (1 - mu_product)), deviation, -1);
  parameter.addcdiv_(mean * (lr * next / (1 - mu_product * next)), deviation, -1);
}

RAdam::RAdam(const std::vector<Tensor>& parameters, const RAdamOptions& options) {
  add_param_group(parameters, options);
}

void RAdam::add_param_group(const std::vector<Tensor>& parameters, const RAdamOptions& options) {
  require_adam_options("RAdam", options);
  add_group(parameters, options.lr, options.betas.first,
            {{"step", true}, {"exp_avg"}, {"exp_avg_sq"}});
  options_.push_back(options);
}

// The length of the average, rho, decides whether the second moments may scale the step; as a tensor,
// so that the recorded step serves on both sides.
void RAdam::update(size_t group, const Tensor& parameter, const Tensor& grad,
                   const std::vector<Tensor>& state) const {
  const RAdamOptions& o = options_[group];
  const Tensor &lr = groups()[group].lr.tensor(), &beta1 = groups()[group].momentum.tensor();
  const Tensor &step = state[0], &mean = state[1], &square = state[2];
  double beta2 = o.betas.second, rho_limit = 2 / (1 - beta2) - 1;
  step.add_(1);
  if (o.decoupled_weight_decay) decay(parameter, lr, o.weight_decay);
  Tensor g = descent(grad, parameter, o.maximize, o.decoupled_weight_decay ? 0 : o.weight_decay);
  take_moments(g, mean, square, beta1, beta2);
  Tensor correction = 1 - pow(beta2, step);
  Tensor rho = rho_limit - 2 * step * pow(beta2, step) / correction;
  Tensor rectified =
      ((rho - 4) * (rho - 2) * rho_limit).div_((rho_limit - 4) * (rho_limit - 2) * rho);
  Tensor adapted = (rectified * correction).sqrt() / square.sqrt().add_(o.eps);
  Tensor scale = where(rho > 5, adapted, ones_like(adapted));
  parameter.addcmul_(mean * (lr / (1 - beta1.pow(step))), scale.to(mean.dtype()), -1);
}

}  // namespace tenon::optim
