// Learning-rate schedules, as functions of the number of steps.
#include <tenon/optim.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace tenon::optim {
namespace {

// Half a cosine from `from` to `to` in `length` steps.
double annealed(double from, double to, int64_t step, int64_t length) {
  double angle = std::numbers::pi * static_cast<double>(step) / static_cast<double>(length);
  return to + (from - to) * (1 + std::cos(angle)) / 2;
}

}  // namespace

Scheduler::Scheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (const Group& g : optimizer.groups()) base_lr_.push_back(g.lr);
}

void Scheduler::apply() {
  for (size_t g = 0; g < base_lr_.size(); ++g) {
    optimizer_.groups()[g].lr = lr_at(epoch_, base_lr_[g]);
    if (auto momentum = momentum_at(epoch_)) optimizer_.groups()[g].momentum = *momentum;
  }
}

void Scheduler::step() { restart_at(epoch_ + 1); }

void Scheduler::restart_at(int64_t epoch) {
  epoch_ = epoch;
  apply();
}

std::vector<double> Scheduler::get_last_lr() const {
  std::vector<double> out;
  for (const Group& g : optimizer_.groups()) out.push_back(g.lr);
  return out;
}

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(int64_t)> factor)
    : Scheduler(optimizer), factor_(std::move(factor)) {
  begin();
}

StepLR::StepLR(Optimizer& optimizer, int64_t step_size, double gamma)
    : LambdaLR(optimizer, [=](int64_t epoch) {
        require(step_size > 0, "StepLR: expected step_size of 1 or more, found {}", step_size);
        return std::pow(gamma, static_cast<double>(epoch / step_size));
      }) {}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma)
    : LambdaLR(optimizer, [milestones = std::move(milestones), gamma](int64_t epoch) {
        auto reached = std::count_if(milestones.begin(), milestones.end(),
                                     [epoch](int64_t m) { return m <= epoch; });
        return std::pow(gamma, static_cast<double>(reached));
      }) {}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma)
    : LambdaLR(optimizer,
               [gamma](int64_t epoch) { return std::pow(gamma, static_cast<double>(epoch)); }) {}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor,
                   int64_t total_iters)
    : LambdaLR(optimizer, [=](int64_t epoch) {
        require(start_factor > 0 && start_factor <= 1 && end_factor >= 0 && end_factor <= 1 &&
                    total_iters > 0,
                "LinearLR: expected factors in (0, 1] and [0, 1] over 1 step or more, found {}, "
                "{}, {}",
                start_factor, end_factor, total_iters);
        double done = static_cast<double>(std::min(epoch, total_iters));
        return start_factor + (end_factor - start_factor) * done / static_cast<double>(total_iters);
      }) {}

ConstantLR::ConstantLR(Optimizer& optimizer, double factor, int64_t total_iters)
    : LambdaLR(optimizer, [=](int64_t epoch) {
        require(factor >= 0 && factor <= 1, "ConstantLR: expected a factor in [0, 1], found {}",
                factor);
        return epoch < total_iters ? factor : 1;
      }) {}

PolynomialLR::PolynomialLR(Optimizer& optimizer, int64_t total_iters, double power)
    : LambdaLR(optimizer, [=](int64_t epoch) {
        require(total_iters > 0, "PolynomialLR: expected total_iters of 1 or more, found {}",
                total_iters);
        require(power >= 0, "PolynomialLR: expected a power of 0 or more, found {}", power);
        double done = static_cast<double>(std::min(epoch, total_iters));
        return std::pow(1 - done / static_cast<double>(total_iters), power);
      }) {}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min)
    : Scheduler(optimizer), t_max_(t_max), eta_min_(eta_min) {
  require(t_max > 0, "CosineAnnealingLR: expected t_max of 1 or more, found {}", t_max);
  begin();
}

double CosineAnnealingLR::lr_at(int64_t epoch, double base) const {
  return annealed(base, eta_min_, epoch, t_max_);
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t t_0,
                                                         int64_t t_mult, double eta_min)
    : Scheduler(optimizer), t_0_(t_0), t_mult_(t_mult), eta_min_(eta_min) {
  require(t_0 > 0 && t_mult > 0,
          "CosineAnnealingWarmRestarts: expected t_0 and t_mult of 1 or more, found {} and {}", t_0,
          t_mult);
  begin();
}

double CosineAnnealingWarmRestarts::lr_at(int64_t epoch, double base) const {
  if (t_mult_ == 1) return annealed(base, eta_min_, epoch % t_0_, t_0_);
  constexpr int64_t longest = std::numeric_limits<int64_t>::max();
  int64_t length = t_0_;
  for (; epoch >= length; length = length > longest / t_mult_ ? longest : length * t_mult_)
    epoch -= length;
  return annealed(base, eta_min_, epoch, length);
}

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<const Scheduler*> schedules,
                           std::vector<int64_t> milestones)
    : Scheduler(optimizer), schedules_(std::move(schedules)), milestones_(std::move(milestones)) {
  require(schedules_.size() == milestones_.size() + 1,
          "SequentialLR: expected one milestone between each two schedules, found {} for {}",
          milestones_.size(), schedules_.size());
  require(std::ranges::is_sorted(milestones_),
          "SequentialLR: expected milestones that rise, found {}", IntList(milestones_));
  for (const Scheduler* s : schedules_)
    require(s != nullptr && &s->optimizer_ == &optimizer,
            "SequentialLR: expected schedules of the same optimizer");
  base_lr_ = schedules_[0]->base_lr_;
  begin();
}

std::pair<const Scheduler*, int64_t> SequentialLR::turn_at(int64_t epoch) const {
  auto passed = std::ranges::upper_bound(milestones_, epoch) - milestones_.begin();
  int64_t begin = passed == 0 ? 0 : milestones_[static_cast<size_t>(passed) - 1];
  return {schedules_[static_cast<size_t>(passed)], epoch - begin};
}

double SequentialLR::lr_at(int64_t epoch, double base) const {
  auto [schedule, own] = turn_at(epoch);
  return schedule->lr_at(own, base);
}

std::optional<double> SequentialLR::momentum_at(int64_t epoch) const {
  auto [schedule, own] = turn_at(epoch);
  return schedule->momentum_at(own);
}

OneCycleLR::OneCycleLR(Optimizer& optimizer, const OneCycleOptions& options)
    : Scheduler(optimizer), options_(options) {
  require(options.total_steps > 0, "OneCycleLR: expected total_steps of 1 or more, found {}",
          options.total_steps);
  require(options.pct_start >= 0 && options.pct_start <= 1,
          "OneCycleLR: expected pct_start in [0, 1], found {}", options.pct_start);
  require(options.div_factor > 0 && options.final_div_factor > 0,
          "OneCycleLR: expected div_factor and final_div_factor above 0, found {} and {}",
          options.div_factor, options.final_div_factor);
  for (const Group& g : optimizer.groups())
    require(!options.cycle_momentum || static_cast<double>(g.momentum) != 0,
            "OneCycleLR: cycle_momentum needs an optimizer with momentum; give it one, or say "
            "cycle_momentum = false");
  begin();
}

// The phases end at steps that need not be whole; the last one at the last step. One that ends where
// it begins is over.
double OneCycleLR::between(int64_t epoch, double first, double peak, double last) const {
  require(epoch < options_.total_steps, "OneCycleLR: step {} of {}: the cycle is over", epoch,
          options_.total_steps);
  double at = static_cast<double>(epoch), total = static_cast<double>(options_.total_steps);
  double top = options_.pct_start * total - 1, bottom = 2 * options_.pct_start * total - 2;
  auto anneal = [&](double from, double to, double begin, double end) {
    double part = end == begin ? 1 : (at - begin) / (end - begin);
    return options_.linear ? from + (to - from) * part
                           : to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * part));
  };
  if (at <= top) return anneal(first, peak, 0, top);
  if (!options_.three_phase) return anneal(peak, last, top, total - 1);
  if (at <= bottom) return anneal(peak, first, top, bottom);
  return anneal(first, last, bottom, total - 1);
}

double OneCycleLR::lr_at(int64_t epoch, double) const {
  double first = options_.max_lr / options_.div_factor;
  return between(epoch, first, options_.max_lr, first / options_.final_div_factor);
}

std::optional<double> OneCycleLR::momentum_at(int64_t epoch) const {
  if (!options_.cycle_momentum) return {};
  return between(epoch, options_.max_momentum, options_.base_momentum, options_.max_momentum);
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options)
    : optimizer_(optimizer),
      options_(options),
      best_(options.maximize ? -std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::infinity()) {
  require(options.factor < 1, "ReduceLROnPlateau: expected a factor below 1, found {}",
          options.factor);
}

bool ReduceLROnPlateau::is_better(double metric) const {
  double sign = options_.maximize ? 1 : -1;
  if (options_.absolute_threshold) return sign * (metric - best_) > options_.threshold;
  double bound = best_ * (1 + sign * options_.threshold);
  return options_.maximize ? metric > bound : metric < bound;
}

void ReduceLROnPlateau::step(double metric) {
  if (is_better(metric)) {
    best_ = metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ <= options_.patience) return;
  for (Group& g : optimizer_.groups()) {
    double before = g.lr, after = std::max(before * options_.factor, options_.min_lr);
    if (before - after > options_.eps) g.lr = after;
  }
  cooldown_left_ = options_.cooldown;
  bad_epochs_ = 0;
}

}  // namespace tenon::optim
