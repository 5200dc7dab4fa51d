// SPDX-License-Identifier: Apache-2.0
// Further optimisers that adapt the rate of each element, after torch.optim: Adagrad, Adadelta,
// Adamax, NAdam, RAdam.
#pragma once

#include <tenon/optim.h>

namespace tenon::optim {

struct AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  bool maximize = false;
};
class TENON_API Adagrad : public Optimizer {
 public:
  explicit Adagrad(const std::vector<Tensor>& parameters, const AdagradOptions& options = {});
  void add_param_group(const std::vector<Tensor>& parameters, const AdagradOptions& options);
  void add_param_group(const std::vector<Tensor>& parameters) {
    add_param_group(parameters, options_.front());
  }

 private:
  void update(size_t group, const Tensor& parameter, const Tensor& grad,
              const std::vector<Tensor>& state) const override;
  std::vector<AdagradOptions> options_;
};

struct AdadeltaOptions {
  double lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0;
  bool maximize = false;
};
class TENON_API Adadelta : public Optimizer {
 public:
  explicit Adadelta(const std::vector<Tensor>& parameters, const AdadeltaOptions& options = {});
  void add_param_group(const std::vector<Tensor>& parameters, const AdadeltaOptions& options);
  void add_param_group(const std::vector<Tensor>& parameters) {
    add_param_group(parameters, options_.front());
  }

 private:
  void update(size_t group, const Tensor& parameter, const Tensor& grad,
              const std::vector<Tensor>& state) const override;
  std::vector<AdadeltaOptions> options_;
};

struct AdamaxOptions {
  double lr = 2e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool maximize = false;
};
class TENON_API Adamax : public Optimizer {
 public:
  explicit Adamax(const std::vector<Tensor>& parameters, const AdamaxOptions& options = {});
  void add_param_group(const std::vector<Tensor>& parameters, const AdamaxOptions& options);
  void add_param_group(const std::vector<Tensor>& parameters) {
    add_param_group(parameters, options_.front());
  }

 private:
  void update(size_t group, const Tensor& parameter, const Tensor& grad,
              const std::vector<Tensor>& state) const override;
  std::vector<AdamaxOptions> options_;
};

struct NAdamOptions {
  double lr = 2e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3;
  bool decoupled_weight_decay = false, maximize = false;
};
/// Adam with Nesterov's momentum.
class TENON_API NAdam : public Optimizer {
 public:
  explicit NAdam(const std::vector<Tensor>& parameters, const NAdamOptions& options = {});
  void add_param_group(const std::vector<Tensor>& parameters, const NAdamOptions& options);
  void add_param_group(const std::vector<Tensor>& parameters) {
    add_param_group(parameters, options_.front());
  }

 private:
  void update(size_t group, const Tensor& parameter, const Tensor& grad,
              const std::vector<Tensor>& state) const override;
  std::vector<NAdamOptions> options_;
};

struct RAdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool decoupled_weight_decay = false, maximize = false;
};
/// Adam that is plain momentum until its second moments are known well enough.
class TENON_API RAdam : public Optimizer {
 public:
  explicit RAdam(const std::vector<Tensor>& parameters, const RAdamOptions& options = {});
  void add_param_group(const std::vector<Tensor>& parameters, const RAdamOptions& options);
  void add_param_group(const std::vector<Tensor>& parameters) {
    add_param_group(parameters, options_.front());
  }

 private:
  void update(size_t group, const Tensor& parameter, const Tensor& grad,
              const std::vector<Tensor>& state) const override;
  std::vector<RAdamOptions> options_;
};

}  // namespace tenon::optim
