// Loss scaling, after torch.amp.GradScaler.
//
// What may change from round to round is in tensors: the scale, the count of rounds since it changed,
// and for each optimiser whether a gradient was infinite. So scale(), unscale_() and update() are ops
// that can be recorded; only step() looks.
// Source: Micikevicius et al., "Mixed precision training" (2018).
#include <tenon/grad_scaler.h>
#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>
#include <tenon/tree.h>

#include <algorithm>
#include <cmath>

namespace tenon::amp {

namespace {

Tensor number(double value, Dtype dtype, std::optional<Device> device) {
  return full({}, value, dtype, std::nullopt, device);
}

void check_factors(const GradScalerOptions& o) {
  require(o.growth_factor > 1 && o.backoff_factor > 0 && o.backoff_factor < 1,
          "GradScaler: expected a growth_factor above 1 and a backoff_factor in (0, 1), found {} "
          "and {}",
          o.growth_factor, o.backoff_factor);
  require(o.growth_interval >= 1 && o.init_scale > 0,
          "GradScaler: expected a growth_interval of 1 or more and an init_scale above 0, found {} "
          "and {}",
          o.growth_interval, o.init_scale);
}

std::vector<Tensor> gradients_of(const optim::Optimizer& optimizer) {
  std::vector<Tensor> out;
  for (const optim::Group& group : optimizer.groups())
    for (const optim::Group::Slot& slot : group.slots)
      if (Tensor grad = slot.parameter.grad(); grad.defined()) out.push_back(std::move(grad));
  return out;
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options),
      scale_(number(options.init_scale, Dtype::f32, options.device)),
      growth_tracker_(number(0, Dtype::i64, options.device)),
      found_inf_(zeros({max_optimizers}, Dtype::bool_, std::nullopt, options.device)) {
  check_factors(options);
}

Tensor GradScaler::scale(const Tensor& loss) const {
  return options_.enabled ? loss * scale_ : loss;
}

std::vector<Tensor> GradScaler::scale(const std::vector<Tensor>& losses) const {
  std::vector<Tensor> out;
  for (const Tensor& loss : losses) out.push_back(scale(loss));
  return out;
}

// The flags are made before any compiled body runs: what such a body makes may not stay behind it.
GradScaler::Turn& GradScaler::turn_of(const optim::Optimizer& optimizer) {
  for (Turn& turn : round_)
    if (turn.optimizer == &optimizer) return turn;
  require(round_.size() < max_optimizers,
          "GradScaler: expected at most {} optimisers between two updates; call update()",
          max_optimizers);
  return round_.emplace_back(&optimizer);
}

void GradScaler::unscale_(optim::Optimizer& optimizer) {
  if (!options_.enabled) return;
  Turn& turn = turn_of(optimizer);
  require(turn.stage == Stage::ready, "GradScaler: unscale_() was called {}; call update() first",
          turn.stage == Stage::unscaled ? "already" : "after step()");
  std::vector<Tensor> gradients = gradients_of(optimizer), finite;
  for (const Tensor& grad : gradients)
    require(grad.dtype() != Dtype::f16,
            "GradScaler: expected gradients in f32, found {}; keep parameters in f32, and let an "
            "AutocastGuard cast them",
            grad);
  NoGradGuard no_grad;
  Tensor factor = scale_.to(Dtype::f64).reciprocal().to(Dtype::f32);
  for (const Tensor& grad : gradients) {
    finite.push_back(grad.isfinite().all().to(scale_.device()));
    grad.mul_(factor.to(grad.device()));
  }
  Tensor found = found_inf_.select(0, &turn - round_.data());
  if (finite.empty())
    found.fill_(false);
  else
    found.copy_(stack(finite).all().logical_not());
  turn.stage = Stage::unscaled;
}

bool GradScaler::step(optim::Optimizer& optimizer, std::source_location where) {
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  Turn& turn = turn_of(optimizer);
  require(turn.stage != Stage::stepped, "GradScaler: step() was called already; call update()");
  if (turn.stage == Stage::ready) unscale_(optimizer);
  turn.stage = Stage::stepped;
  if (found_inf_.select(0, &turn - round_.data()).item<bool>(where)) return false;
  optimizer.step();
  return true;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  require(!round_.empty(), "GradScaler: update() was called before any step() or unscale_()");
  NoGradGuard no_grad;
  Tensor bad = found_inf_.narrow(0, 0, round_.size()).any(), count = growth_tracker_ + 1;
  Tensor grows = (count == options_.growth_interval).logical_and(bad.logical_not());
  Tensor grown = scale_ * options_.growth_factor;
  Tensor higher = where(grows.logical_and(grown.isfinite()), grown, scale_);
  scale_.copy_(where(bad, scale_ * options_.backoff_factor, higher));
  growth_tracker_.copy_(count.masked_fill(bad.logical_or(grows), 0));
  round_.clear();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  scale_.fill_(new_scale);
  round_.clear();
}

double GradScaler::get_scale(std::source_location where) const {
  return options_.enabled ? scale_.item<float>(where).value() : 1;
}

StateDict GradScaler::state_dict() const {
  auto plain = [](double value) { return number(value, Dtype::f64, kCPU); };
  return {{"scale", scale_},
          {"growth_tracker", growth_tracker_},
          {"growth_factor", plain(options_.growth_factor)},
          {"backoff_factor", plain(options_.backoff_factor)},
          {"growth_interval", plain(static_cast<double>(options_.growth_interval))}};
}

void GradScaler::load_state_dict(const StateDict& state) {
  for (const auto& [name, mine] : state_dict())
    require(state.contains(name) && state.at(name).defined() && state.at(name).numel() == 1,
            "GradScaler: the state has no number {}", name);
  auto plain = [&](const char* name) {
    return state.at(name).to(Dtype::f64).item<double>().value();
  };
  GradScalerOptions options = options_;
  options.growth_factor = plain("growth_factor");
  options.backoff_factor = plain("backoff_factor");
  options.growth_interval = std::llround(plain("growth_interval"));
  check_factors(options);
  options_ = options;
  scale_.copy_(state.at("scale"));
  growth_tracker_.copy_(state.at("growth_tracker"));
}

std::vector<Tensor> GradScaler::state_tensors() const {
  return {scale_, growth_tracker_, found_inf_};
}

}  // namespace tenon::amp
