// Optimisers.
//
// Problem: a step must give torch.optim's numbers, run as it is, and be recorded as a graph that
// later steps use unchanged. So what changes from step to step is tensors: the count of steps, the
// learning rate and the momentum are f64 tensors without dimensions, on the device of the
// parameters. As such they do not widen the parameters that they meet, and factors such as
// 1 - beta2^step keep the precision that PyTorch has with its plain doubles (in f32 the first ones
// would be off by 1e-4).
//
// Cost of one eager step, passes over memory a parameter: SGD 1 (with momentum 3), Adam 8.
// Sources: Kingma, Ba, "Adam" (2015); Loshchilov, Hutter, "Decoupled weight decay regularization"
// (2019); Reddi et al., "On the convergence of Adam and beyond" (2018).
#include "core/inline_vector.h"
#include "core/op_unit.h"
#include "nn/optim_parts.h"

#include <tenon/autograd.h>
#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>
#include <tenon/optim.h>
#include <tenon/optim/adaptive.h>
#include <tenon/tree.h>

#include <algorithm>
#include <set>
#include <typeinfo>

namespace tenon::optim {
namespace {

Tensor number(double value, Device device) {
  return full({}, value, Dtype::f64, std::nullopt, device);
}

// Where the numbers of a group lie: with its parameters, on the CPU where those are apart.
Device device_of(const std::vector<Tensor>& parameters) {
  bool is_known = !parameters.empty() && parameters[0].defined();
  Device first = is_known ? parameters[0].device() : kCPU;
  bool together = std::ranges::all_of(
      parameters, [&](const Tensor& p) { return p.defined() && p.device() == first; });
  return together ? first : kCPU;
}

}  // namespace

bool is_of_the_library(const Optimizer& o) {
  const std::type_info& type = typeid(o);
  return type == typeid(SGD) || type == typeid(Adam) || type == typeid(AdamW) ||
         type == typeid(RMSprop) || type == typeid(Adagrad) || type == typeid(Adadelta) ||
         type == typeid(Adamax) || type == typeid(NAdam) || type == typeid(RAdam);
}

Hyper::Hyper(double value, Device device) : value_(number(value, device)) {}

Hyper& Hyper::operator=(double value) {
  value_.fill_(value);
  return *this;
}

Hyper::operator double() const { return value_.item<double>(std::source_location()); }

LearningRate& LearningRate::operator=(double value) {
  for (Group& g : *groups_) g.lr = value;
  return *this;
}

LearningRate& LearningRate::operator*=(double factor) {
  for (Group& g : *groups_) g.lr *= factor;
  return *this;
}

LearningRate::operator double() const { return groups_->front().lr; }

void Optimizer::add_group(const std::vector<Tensor>& parameters, double lr, double momentum,
                          std::vector<StateKind> kinds) {
  std::set<tenon::detail::TensorHead*> known;
  for (const Group& g : *groups_)
    for (const Group::Slot& s : g.slots) known.insert(s.parameter.head());
  Device device = device_of(parameters);
  Group group{
      {}, std::move(kinds), Hyper(lr, device), Hyper(momentum, device), new_op_unit_number()};
  for (const Tensor& p : parameters) {
    require(p.defined() && p.is_leaf() && (is_floating(p.dtype()) || is_complex(p.dtype())),
            "optimizer: expected floating or complex leaves as parameters, found {}; pass what "
            "module.parameters() gives",
            p.defined() ? symbolic_text(p) : "an undefined tensor");
    require(known.insert(p.head()).second,
            "optimizer: parameter number {} ({}) is there twice; each belongs to one group",
            group.slots.size(), p);
    Group::Slot slot{p, {}};
    for (const StateKind& kind : group.kinds)
      slot.state.push_back(kind.is_number ? number(kind.initial, p.device())
                                          : zeros_like(p.detach()));
    group.slots.push_back(std::move(slot));
  }
  require(!group.slots.empty(), "optimizer: expected parameters, found an empty list");
  groups_->push_back(std::move(group));
}

void Optimizer::step() {
  NoGradGuard no_grad;
  for (size_t g = 0; g < groups_->size(); ++g)
    for (const Group::Slot& slot : (*groups_)[g].slots)
      if (Tensor grad = slot.parameter.grad(); grad.defined())
        update_as_unit(g, slot.parameter, grad, slot.state);
}

// What an optimiser of the program does may depend on anything.
void Optimizer::update_as_unit(size_t g, const Tensor& parameter, const Tensor& grad,
                               const std::vector<Tensor>& state) const {
  if (!is_of_the_library(*this)) return update(g, parameter, grad, state);
  const Group& group = groups()[g];
  InlineVector<const Tensor*, 8> tensors;
  for (const Tensor* t : {&parameter, &grad, &group.lr.tensor(), &group.momentum.tensor()})
    tensors.push_back(t);
  for (const Tensor& t : state) tensors.push_back(&t);
  OpUnit unit(group.number, tensors);
  if (unit.is_done()) return;
  in_real_numbers(parameter, grad, state,
                  [&](const Tensor& p, const Tensor& d, const auto& s) { update(g, p, d, s); });
}

// A pass with create_graph has left a history, which is over, too.
static void make_zero(const Tensor& grad) {
  if (!grad.is_leaf())
    grad.detach_();
  else if (grad.requires_grad())
    grad.requires_grad_(false);
  grad.zero_();
}

void Optimizer::zero_grad(bool set_to_none) {
  NoGradGuard no_grad;
  for (const Group& g : *groups_)
    for (const Group::Slot& slot : g.slots) {
      if (set_to_none)
        slot.parameter.set_grad({});
      else if (Tensor grad = slot.parameter.grad(); grad.defined())
        make_zero(grad);
    }
}

std::vector<Tensor> Optimizer::state_tensors() const {
  std::vector<Tensor> all;
  for (const Group& group : *groups_)
    for (const Group::Slot& slot : group.slots) {
      all.push_back(slot.parameter);
      all.insert(all.end(), slot.state.begin(), slot.state.end());
    }
  return all;
}

StateDict Optimizer::state_dict() const {
  StateDict out;
  size_t parameter = 0;
  for (size_t g = 0; g < groups_->size(); ++g) {
    const Group& group = (*groups_)[g];
    out[message("group.{}.lr", g)] = group.lr.tensor();
    out[message("group.{}.momentum", g)] = group.momentum.tensor();
    for (const Group::Slot& slot : group.slots) {
      for (size_t k = 0; k < slot.state.size(); ++k)
        out[message("state.{}.{}", parameter, group.kinds[k].name)] = slot.state[k];
      ++parameter;
    }
  }
  return out;
}

void Optimizer::load_state_dict(const StateDict& state) {
  StateDict mine = state_dict();
  for (const auto& [name, t] : mine) {
    auto at = state.find(name);
    require(at != state.end(), "optimizer: the state has no {}; is it that of another optimizer?",
            name);
    require(at->second.defined(), "optimizer: {}: expected {}, found an undefined tensor", name, t);
    require(at->second.sizes() == t.sizes(),
            "optimizer: {}: expected {}, found {}; is it that of another model?", name, t,
            at->second);
  }
  for (const auto& [name, t] : state)
    require(mine.contains(name), "optimizer: the state has {}, which this optimizer has not", name);
  NoGradGuard no_grad;
  for (const auto& [name, t] : mine) t.copy_(state.at(name));
}

SGD::SGD(const std::vector<Tensor>& parameters, const SGDOptions& options) {
  add_param_group(parameters, options);
}

void SGD::add_param_group(const std::vector<Tensor>& parameters, const SGDOptions& options) {
  require_at_least_zero("SGD", "lr", options.lr);
  require_at_least_zero("SGD", "momentum", options.momentum);
  require_at_least_zero("SGD", "weight_decay", options.weight_decay);
  require(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
          "SGD: nesterov needs momentum > 0 and dampening = 0, found {} and {}", options.momentum,
          options.dampening);
  std::vector<StateKind> kinds;
  if (options.momentum != 0) kinds.push_back({"momentum_buffer"});
  // The first gradient enters the buffer whole, the later ones with 1 - dampening.
  if (options.momentum != 0 && options.dampening != 0) kinds.push_back({"grad_weight", true, 1});
  add_group(parameters, options.lr, options.momentum, std::move(kinds));
  options_.push_back(options);
}

void SGD::update(size_t group, const Tensor& parameter, const Tensor& grad,
                 const std::vector<Tensor>& state) const {
  const SGDOptions& o = options_[group];
  const Tensor &lr = groups()[group].lr.tensor(), &momentum = groups()[group].momentum.tensor();
  Tensor g = descent(grad, parameter, o.maximize, o.weight_decay);
  if (o.momentum != 0) {
    const Tensor& buffer = state[0];
    buffer.mul_(momentum);
    if (o.dampening != 0) {
      buffer.addcmul_(g, state[1]);
      state[1].fill_(1 - o.dampening);
    } else {
      buffer.add_(g);
    }
    g = o.nesterov ? g.addcmul(buffer, momentum) : buffer;
  }
  parameter.addcmul_(g, lr, -1);
}

Adam::Adam(const std::vector<Tensor>& parameters, const AdamOptions& options) {
  add_param_group(parameters, options);
}

void Adam::add_param_group(const std::vector<Tensor>& parameters, const AdamOptions& options) {
  require_at_least_zero("Adam", "lr", options.lr);
  require_at_least_zero("Adam", "eps", options.eps);
  require_at_least_zero("Adam", "weight_decay", options.weight_decay);
  require_fraction("Adam", "the first beta", options.betas.first);
  require_fraction("Adam", "the second beta", options.betas.second);
  std::vector<StateKind> kinds{{"step", true}, {"exp_avg"}, {"exp_avg_sq"}};
  if (options.amsgrad) kinds.push_back({"max_exp_avg_sq"});
  add_group(parameters, options.lr, options.betas.first, std::move(kinds));
  options_.push_back(options);
}

void Adam::update(size_t group, const Tensor& parameter, const Tensor& grad,
                  const std::vector<Tensor>& state) const {
  const AdamOptions& o = options_[group];
  const Tensor &lr = groups()[group].lr.tensor(), &beta1 = groups()[group].momentum.tensor();
  const Tensor &step = state[0], &mean = state[1], &square = state[2];
  double beta2 = o.betas.second;
  step.add_(1);
  if (o.decoupled_weight_decay) decay(parameter, lr, o.weight_decay);
  Tensor g = descent(grad, parameter, o.maximize, o.decoupled_weight_decay ? 0 : o.weight_decay);
  mean.lerp_(g, (1 - beta1).to(mean.dtype()));
  square.mul_(beta2).addcmul_(g, g, 1 - beta2);
  if (o.amsgrad) state[3].copy_(state[3].maximum(square));

  Tensor step_size = lr / (1 - beta1.pow(step));
  Tensor root_correction = (1 - pow(beta2, step)).sqrt_();
  Tensor deviation = (o.amsgrad ? state[3] : square).sqrt().div_(root_correction).add_(o.eps);
  parameter.addcdiv_(mean * step_size, deviation, -1);
}

AdamW::AdamW(const std::vector<Tensor>& parameters, const AdamWOptions& options)
    : Adam(parameters, {options.lr, options.betas, options.eps, options.weight_decay,
                        options.amsgrad, options.maximize, true}) {}

void AdamW::add_param_group(const std::vector<Tensor>& parameters, const AdamWOptions& options) {
  Adam::add_param_group(parameters, {options.lr, options.betas, options.eps, options.weight_decay,
                                     options.amsgrad, options.maximize, true});
}

RMSprop::RMSprop(const std::vector<Tensor>& parameters, const RMSpropOptions& options) {
  add_param_group(parameters, options);
}

void RMSprop::add_param_group(const std::vector<Tensor>& parameters,
                              const RMSpropOptions& options) {
  require_at_least_zero("RMSprop", "lr", options.lr);
  require_at_least_zero("RMSprop", "alpha", options.alpha);
  require_at_least_zero("RMSprop", "eps", options.eps);
  require_at_least_zero("RMSprop", "weight_decay", options.weight_decay);
  require_at_least_zero("RMSprop", "momentum", options.momentum);
  std::vector<StateKind> kinds{{"square_avg"}};
  if (options.centered) kinds.push_back({"grad_avg"});
  if (options.momentum != 0) kinds.push_back({"momentum_buffer"});
  add_group(parameters, options.lr, options.momentum, std::move(kinds));
  options_.push_back(options);
}

void RMSprop::update(size_t group, const Tensor& parameter, const Tensor& grad,
                     const std::vector<Tensor>& state) const {
  const RMSpropOptions& o = options_[group];
  const Tensor &lr = groups()[group].lr.tensor(), &momentum = groups()[group].momentum.tensor();
  const Tensor& square = state[0];
  Tensor g = descent(grad, parameter, o.maximize, o.weight_decay);
  square.mul_(o.alpha).addcmul_(g, g, 1 - o.alpha);
  Tensor deviation;
  if (o.centered) {
    state[1].lerp_(g, 1 - o.alpha);
    deviation = square.addcmul(state[1], state[1], -1).sqrt_();
  } else {
    deviation = square.sqrt();
  }
  deviation.add_(o.eps);
  if (o.momentum == 0) {
    parameter.addcdiv_(g * lr, deviation, -1);
    return;
  }
  const Tensor& buffer = state.back();
  buffer.mul_(momentum).addcdiv_(g, deviation);
  parameter.addcmul_(buffer, lr, -1);
}

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type) {
  NoGradGuard no_grad;
  std::vector<Tensor> grads, norms;
  for (const Tensor& p : parameters)
    if (Tensor g = p.grad(); g.defined()) {
      grads.push_back(g);
      norms.push_back(linalg_vector_norm(g, norm_type));
    }
  if (grads.empty()) return zeros({});
  Tensor total = linalg_vector_norm(stack(norms), norm_type);
  Tensor factor = total.add(1e-6).reciprocal_().mul_(max_norm).clamp_({}, 1);
  for (const Tensor& g : grads) g.mul_(factor);
  return total;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double value) {
  NoGradGuard no_grad;
  for (const Tensor& p : parameters)
    if (Tensor g = p.grad(); g.defined()) g.clamp_(-value, value);
}

}  // namespace tenon::optim
