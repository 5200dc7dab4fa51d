// SPDX-License-Identifier: Apache-2.0
// Optimisers, learning-rate schedules and gradient clipping, after torch.optim.
//
//     optim::AdamW opt(net.parameters(), {.lr = 1e-3});
//     opt.zero_grad();
//     loss.backward();
//     opt.step();
//     opt.lr *= 0.5;
//
// All state is allocated when parameters are handed over, and step() is made of tensor ops without
// a look at data, so it can be recorded in a compiled callable; what may change between steps (lr,
// momentum) is read from tensors, which lie on the device of their parameters. Threads: an optimiser is
// used by one thread at a time. <tenon/optim/adaptive.h> and <tenon/optim/lbfgs.h> have further
// optimisers.
#pragma once

#include <tenon/autograd.h>
#include <tenon/nn/module.h>
#include <tenon/tensor.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon::optim {

/// A number in a tensor (f64, no dimensions): assigned and read like a double, and seen anew by
/// recorded code on every call. Copies have a value of their own.
class TENON_API Hyper {
 public:
  Hyper(double value) : Hyper(value, kCPU) {}  // NOLINT: used as a number
  Hyper(double value, Device device);
  Hyper(const Hyper& other) : Hyper(static_cast<double>(other), other.value_.device()) {}
  Hyper(Hyper&&) noexcept = default;
  Hyper& operator=(double value);
  Hyper& operator=(const Hyper& other) { return *this = static_cast<double>(other); }
  Hyper& operator*=(double factor) { return *this = *this * factor; }
  Hyper& operator/=(double divisor) { return *this = *this / divisor; }
  operator double() const;  // NOLINT: likewise
  const Tensor& tensor() const { return value_; }

 private:
  Tensor value_;
};

/// One tensor of the state that is kept for each parameter.
struct StateKind {
  std::string_view name;
  /// A tensor like the parameter, zeros; or one number (f64) that begins as `initial`.
  bool is_number = false;
  double initial = 0;
};

/// Parameters with options of their own.
struct Group {
  struct Slot {
    Tensor parameter;
    std::vector<Tensor> state;  ///< in the order of `kinds`
  };
  std::vector<Slot> slots;
  std::vector<StateKind> kinds;
  Hyper lr;
  Hyper momentum;       ///< the first beta of Adam
  uint64_t number = 0;  ///< no other group of the process has it; set by the optimiser
};

/// The learning rate of all groups: reading gives that of the first.
class TENON_API LearningRate {
 public:
  explicit LearningRate(std::shared_ptr<std::vector<Group>> groups) : groups_(std::move(groups)) {}
  LearningRate& operator=(double value);
  LearningRate& operator*=(double factor);
  LearningRate& operator/=(double divisor) { return *this *= 1 / divisor; }
  operator double() const;  // NOLINT: used as a number

 private:
  std::shared_ptr<std::vector<Group>> groups_;
};

/// The base of all optimisers; not copied, since two would write the same parameters.
class TENON_API Optimizer {
 public:
  using tenon_opaque = void;  ///< compiled callables get the optimiser itself, see <tenon/tree.h>

  Optimizer(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = default;
  virtual ~Optimizer() = default;

  /// Updates every parameter that has a gradient. Records nothing for gradients.
  void step();
  /// Clears the gradients; with set_to_none = false they become zeros.
  void zero_grad(bool set_to_none = true);

  /// The parameters and all that is kept for them: what step() writes.
  std::vector<Tensor> state_tensors() const;

  std::vector<Group>& groups() { return *groups_; }
  const std::vector<Group>& groups() const { return *groups_; }

  /// "state.<parameter>.<name>", "group.<group>.lr" and "group.<group>.momentum": handles.
  virtual StateDict state_dict() const;
  /// Copies the values of a state_dict of an optimiser of this kind over as many parameters. Throws
  /// UserError, and changes nothing, when names or shapes differ.
  virtual void load_state_dict(const StateDict& state);
  void save_state(const std::string& path) const { save_tensors(path, state_dict()); }
  void load_state(const std::string& path) { load_state_dict(load_tensors(path)); }

 private:
  std::shared_ptr<std::vector<Group>> groups_ = std::make_shared<std::vector<Group>>();

 public:
  LearningRate lr{groups_};

 protected:
  friend struct ParameterUpdate;
  Optimizer() = default;
  /// Throws UserError for tensors that are not leaves, or are here already.
  void add_group(const std::vector<Tensor>& parameters, double lr, double momentum,
                 std::vector<StateKind> kinds);
  /// One parameter of group number `group`; `grad` is defined.
  virtual void update(size_t group, const Tensor& parameter, const Tensor& grad,
                      const std::vector<Tensor>& state) const = 0;

 private:
  void update_as_unit(size_t group, const Tensor& parameter, const Tensor& grad,
                      const std::vector<Tensor>& state) const;
};

struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
};
class TENON_API SGD : public Optimizer {
 public:
  explicit SGD(const std::vector<Tensor>& parameters, const SGDOptions& options = {});
  void add_param_group(const std::vector<Tensor>& parameters, const SGDOptions& options);
  void add_param_group(const std::vector<Tensor>& parameters) {
    add_param_group(parameters, options_.front());
  }

 private:
  void update(size_t group, const Tensor& parameter, const Tensor& grad,
              const std::vector<Tensor>& state) const override;
  std::vector<SGDOptions> options_;
};

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool amsgrad = false, maximize = false;
  bool decoupled_weight_decay = false;  ///< AdamW
};
class TENON_API Adam : public Optimizer {
 public:
  explicit Adam(const std::vector<Tensor>& parameters, const AdamOptions& options = {});
  void add_param_group(const std::vector<Tensor>& parameters, const AdamOptions& options);
  void add_param_group(const std::vector<Tensor>& parameters) {
    add_param_group(parameters, options_.front());
  }

 private:
  void update(size_t group, const Tensor& parameter, const Tensor& grad,
              const std::vector<Tensor>& state) const override;
  std::vector<AdamOptions> options_;
};

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 1e-2;
  bool amsgrad = false, maximize = false;
};
/// Adam whose weight decay does not go through the gradient.
class TENON_API AdamW : public Adam {
 public:
  explicit AdamW(const std::vector<Tensor>& parameters, const AdamWOptions& options = {});
  void add_param_group(const std::vector<Tensor>& parameters, const AdamWOptions& options);
  void add_param_group(const std::vector<Tensor>& parameters) { Adam::add_param_group(parameters); }
};

struct RMSpropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false, maximize = false;
};
class TENON_API RMSprop : public Optimizer {
 public:
  explicit RMSprop(const std::vector<Tensor>& parameters, const RMSpropOptions& options = {});
  void add_param_group(const std::vector<Tensor>& parameters, const RMSpropOptions& options);
  void add_param_group(const std::vector<Tensor>& parameters) {
    add_param_group(parameters, options_.front());
  }

 private:
  void update(size_t group, const Tensor& parameter, const Tensor& grad,
              const std::vector<Tensor>& state) const override;
  std::vector<RMSpropOptions> options_;
};

/// While one lives, a backward pass updates each parameter as soon as its gradient is there, which
/// is freed then: in the place of step() and zero_grad(). A compiled pass has the updates in its
/// code, see <tenon/compiled_autograd.h>. The optimiser must outlive it, stay where it is, and get
/// no further groups meanwhile.
///
///     optim::StepInBackward in_backward(opt);
///     loss.backward();                      // also updates the parameters
class TENON_API StepInBackward {
 public:
  explicit StepInBackward(Optimizer& optimizer);
  ~StepInBackward();
  StepInBackward(const StepInBackward&) = delete;

 private:
  std::vector<autograd::HookHandle> hooks_;
};

/// Scales all gradients together so that their norm is at most max_norm; returns the norm before.
TENON_API Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                                 double norm_type = 2);
/// Limits each element of the gradients to [-value, value].
TENON_API void clip_grad_value_(const std::vector<Tensor>& parameters, double value);

/// A schedule: a function of the number of steps() so far that gives each group its learning rate.
/// The rates at construction are its base. Call step() after the optimiser's, outside of compiled
/// callables; the optimiser must outlive it.
class TENON_API Scheduler {
 public:
  Scheduler(const Scheduler&) = delete;
  virtual ~Scheduler() = default;
  void step();
  int64_t last_epoch() const { return epoch_; }
  /// The rates that are set now, one a group.
  std::vector<double> get_last_lr() const;
  /// Goes on where another run has stopped: sets the count and the rates.
  void restart_at(int64_t epoch);

 protected:
  explicit Scheduler(Optimizer& optimizer);
  /// Sets the rates of step 0; called by the constructors of the schedules.
  void begin() { apply(); }
  virtual double lr_at(int64_t epoch, double base) const = 0;
  /// The momentum of that step; none leaves it as it is.
  virtual std::optional<double> momentum_at(int64_t) const { return {}; }

 private:
  friend class SequentialLR;
  void apply();
  Optimizer& optimizer_;
  std::vector<double> base_lr_;
  int64_t epoch_ = 0;
};

/// base * factor(epoch)
class TENON_API LambdaLR : public Scheduler {
 public:
  LambdaLR(Optimizer& optimizer, std::function<double(int64_t)> factor);

 private:
  double lr_at(int64_t epoch, double base) const override { return base * factor_(epoch); }
  std::function<double(int64_t)> factor_;
};
/// base * gamma^(epoch / step_size)
class TENON_API StepLR : public LambdaLR {
 public:
  StepLR(Optimizer& optimizer, int64_t step_size, double gamma = 0.1);
};
/// base * gamma^(milestones reached)
class TENON_API MultiStepLR : public LambdaLR {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma = 0.1);
};
/// base * gamma^epoch
class TENON_API ExponentialLR : public LambdaLR {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);
};
/// From start_factor * base to end_factor * base in total_iters steps.
class TENON_API LinearLR : public LambdaLR {
 public:
  LinearLR(Optimizer& optimizer, double start_factor = 1.0 / 3, double end_factor = 1,
           int64_t total_iters = 5);
};
/// factor * base for total_iters steps, then base.
class TENON_API ConstantLR : public LambdaLR {
 public:
  ConstantLR(Optimizer& optimizer, double factor = 1.0 / 3, int64_t total_iters = 5);
};
/// base * (1 - epoch / total_iters)^power, zero from total_iters on.
class TENON_API PolynomialLR : public LambdaLR {
 public:
  PolynomialLR(Optimizer& optimizer, int64_t total_iters = 5, double power = 1);
};
/// Half a cosine from base to eta_min in t_max steps, and back.
class TENON_API CosineAnnealingLR : public Scheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min = 0);

 private:
  double lr_at(int64_t epoch, double base) const override;
  int64_t t_max_;
  double eta_min_;
};

/// Half a cosine from base to eta_min in t_0 steps, then again from base in t_mult times as many, and
/// so on.
class TENON_API CosineAnnealingWarmRestarts : public Scheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t t_0, int64_t t_mult = 1,
                              double eta_min = 0);

 private:
  double lr_at(int64_t epoch, double base) const override;
  int64_t t_0_, t_mult_;
  double eta_min_;
};
/// One schedule after the other: number i + 1 begins, with its step 0, at step milestones[i].
///
///     optim::LinearLR warm_up(opt, 0.1, 1, 100);
///     optim::CosineAnnealingLR anneal(opt, 900);
///     optim::SequentialLR schedule(opt, {&warm_up, &anneal}, {100});
///
/// All have the base rates of the first, which must be the first that was made. Step only this one;
/// they must outlive it.
class TENON_API SequentialLR : public Scheduler {
 public:
  /// Throws UserError unless the milestones rise and are one fewer than the schedules.
  SequentialLR(Optimizer& optimizer, std::vector<const Scheduler*> schedules,
               std::vector<int64_t> milestones);

 private:
  double lr_at(int64_t epoch, double base) const override;
  std::optional<double> momentum_at(int64_t epoch) const override;
  /// Whose turn it is, and its own count.
  std::pair<const Scheduler*, int64_t> turn_at(int64_t epoch) const;
  std::vector<const Scheduler*> schedules_;
  std::vector<int64_t> milestones_;
};

struct OneCycleOptions {
  double max_lr = 1e-2;
  int64_t total_steps = 0;
  double pct_start = 0.3;  ///< the part of the steps that the rate rises in
  bool linear = false;     ///< straight lines instead of cosines
  bool cycle_momentum = true;
  double base_momentum = 0.85, max_momentum = 0.95;
  double div_factor = 25, final_div_factor = 1e4;
  bool three_phase = false;
};
/// From max_lr / div_factor up to max_lr, down to 1 / final_div_factor of the first; the momentum
/// goes the other way. Throws UserError when step() is called more than total_steps times.
class TENON_API OneCycleLR : public Scheduler {
 public:
  OneCycleLR(Optimizer& optimizer, const OneCycleOptions& options);

 private:
  double lr_at(int64_t epoch, double base) const override;
  std::optional<double> momentum_at(int64_t epoch) const override;
  /// Where the step lies between three values.
  double between(int64_t epoch, double first, double peak, double last) const;
  OneCycleOptions options_;
};

struct PlateauOptions {
  bool maximize = false;  ///< a larger metric is better
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  bool absolute_threshold = false;  ///< else relative to the best
  int64_t cooldown = 0;
  double min_lr = 0, eps = 1e-8;
};
/// Lowers the rates when a metric has not become better for `patience` epochs.
class TENON_API ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options = {});
  void step(double metric);

 private:
  bool is_better(double metric) const;
  Optimizer& optimizer_;
  PlateauOptions options_;
  double best_;
  int64_t bad_epochs_ = 0, cooldown_left_ = 0;
};

}  // namespace tenon::optim
