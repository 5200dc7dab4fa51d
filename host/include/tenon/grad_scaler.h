// SPDX-License-Identifier: Apache-2.0
// Training in f16: losses are scaled up, so that small gradients do not vanish.
//
//     amp::GradScaler scaler;
//     for (auto& [x, y] : loader) {
//       opt.zero_grad();
//       Tensor loss;
//       {
//         AutocastGuard autocast({.dtype = Dtype::f16});
//         loss = mse_loss(net(x), y);
//       }
//       scaler.scale(loss).backward();
//       scaler.unscale_(opt);                        // only where the gradients are looked at
//       optim::clip_grad_norm_(net.parameters(), 1.0);
//       scaler.step(opt);
//       scaler.update();
//     }
#pragma once

#include <tenon/optim.h>

#include <optional>
#include <source_location>
#include <vector>

namespace tenon::amp {

struct GradScalerOptions {
  std::optional<Device> device = {};  ///< of the losses; unset: the default device
  double init_scale = 65536;
  double growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;  ///< steps without infinities that make the scale grow
  bool enabled = true;             ///< false: losses and gradients stay as they are
};

/// torch.amp.GradScaler. The scale is a tensor, which recorded code sees anew on every call. In a
/// compiled body step() looks at data; scale(), unscale_() and update() do not. Not for bodies that are
/// stated pure: it keeps in mind what was unscaled. Threads: used by one at a time.
class TENON_API GradScaler {
 public:
  using tenon_opaque = void;  ///< compiled callables get the scaler itself, see <tenon/tree.h>

  static constexpr size_t max_optimizers = 16;  ///< between two updates

  /// Throws UserError for factors and intervals that make no sense.
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(const GradScaler&) = delete;

  Tensor scale(const Tensor& loss) const;
  std::vector<Tensor> scale(const std::vector<Tensor>& losses) const;
  /// Divides the gradients of the optimiser's parameters by the scale, once between two updates. Throws
  /// UserError the second time, and for gradients in f16: keep parameters in f32, see AutocastGuard.
  void unscale_(optim::Optimizer& optimizer);
  /// unscale_(), unless that was called, then the optimiser's step; which is left out where a gradient is
  /// infinite or NaN. Whether it was made.
  bool step(optim::Optimizer& optimizer,
            std::source_location where = std::source_location::current());
  /// Ends a round: a smaller scale where a gradient was infinite, a larger one after growth_interval
  /// rounds without. Throws UserError where nothing was unscaled.
  void update();
  /// The same with a scale of the caller's.
  void update(double new_scale);

  bool is_enabled() const { return options_.enabled; }
  /// 1 while it is not enabled. A look at data, as item() is.
  double get_scale(std::source_location where = std::source_location::current()) const;

  /// "scale", "growth_tracker" (handles), "growth_factor", "backoff_factor" and "growth_interval".
  StateDict state_dict() const;
  /// Throws UserError where one of them is missing.
  void load_state_dict(const StateDict& state);
  /// What it writes, for tenon::state().
  std::vector<Tensor> state_tensors() const;

 private:
  enum class Stage { ready, unscaled, stepped };
  /// What an optimiser has done since the last update.
  struct Turn {
    const optim::Optimizer* optimizer;
    Stage stage = Stage::ready;
  };
  Turn& turn_of(const optim::Optimizer& optimizer);

  GradScalerOptions options_;
  Tensor scale_;           // f32
  Tensor growth_tracker_;  // i64: rounds since the scale changed
  Tensor found_inf_;       // bool: whether a gradient was infinite, for each turn
  std::vector<Turn> round_;
};

}  // namespace tenon::amp
