// Statistics, lengths and noise beside a result have no gradient: a body that asks is told so, and
// what it writes with them gets no history.
#include "program.h"

#include <tenon/autocast.h>
#include <tenon/nn.h>

namespace tenon::programs {
namespace {

std::vector<bool> needs_of(const std::vector<Tensor>& results) {
  std::vector<bool> needs;
  for (const Tensor& t : results) needs.push_back(t.requires_grad());
  return needs;
}

template <class Results>
std::vector<Tensor> list_of(const Results& results) {
  return std::apply([](const auto&... t) { return std::vector<Tensor>{t...}; }, results);
}

// What the body is told, and what its caller gets.
void log_needs(Run& run, const std::function<std::vector<Tensor>(const Tensor&)>& op) {
  std::vector<bool> in_body;
  auto f = run.compile([&](const Tensor& x) {
    std::vector<Tensor> results = op(x);
    in_body = needs_of(results);
    return results;
  });
  for (int i = 0; i < 3; ++i) {
    std::vector<Tensor> results = f(halves({4, 4}, i) + 0.25);
    for (bool need : in_body) run.log(need);
    for (bool need : needs_of(results)) run.log(need);
  }
}

TENON_PROGRAM(BatchNormsGiveTheirStatistics, 72) {
  Tensor w = ones({4}).requires_grad_(), b = zeros({4}).requires_grad_();
  Tensor mean = zeros({4}), var = ones({4});
  log_needs(run, [&](const Tensor& x) {
    return list_of(_native_batch_norm_legit_functional(x, w, b, mean, var, true, 0.1, 1e-5));
  });
  log_needs(run, [&](const Tensor& x) {
    return list_of(_batch_norm_no_update(x, w, b, mean, var, 0.1, 1e-5));
  });
  log_needs(run, [&](const Tensor& x) {
    return list_of(_native_batch_norm_legit_no_training(x, w, b, mean, var, 0.1, 1e-5));
  });
}

TENON_PROGRAM(LossesAndActivationsGiveWhatTheyKeep, 36) {
  Tensor w = (halves({4, 4}, 1) + 0.25).requires_grad_(), scale = ones({4}).requires_grad_();
  log_needs(run, [&](const Tensor& x) {
    return list_of(
        _ctc_loss((x * w).log_softmax(1).unsqueeze(1), tensor({{1, 2}}), tensor({4}), tensor({2})));
  });
  log_needs(run, [&](const Tensor& x) { return list_of(_fused_rms_norm(x, {4}, scale, 1e-5)); });
  log_needs(run, [&](const Tensor& x) {
    return list_of(rrelu_with_noise_functional(x * w, ones({4, 4}), 0.25, 0.25, false));
  });
}

// Under autocast the running statistics are written with results of the op.
TENON_PROGRAM(RunningStatisticsOfInstances, 6) {
  nn::InstanceNorm2d norm(2, {.affine = true, .track_running_stats = true});
  auto f = run.compile([&](const Tensor& x) {
    AutocastGuard autocast;
    Tensor y = (norm(x) * x).sum();
    return norm.running_mean.requires_grad() ? y * 2.0 : y;
  });
  for (int i = 0; i < 3; ++i) {
    run.log(f(halves({2, 2, 3, 3}, i)).requires_grad());
    run.log(norm.running_mean);
  }
}

TENON_PROGRAM(StepsBesideRunningStatistics, 6) {
  nn::InstanceNorm2d norm(2, {.affine = true, .track_running_stats = true});
  auto step = run.compile([&](const Tensor& x) {
    AutocastGuard autocast;
    Tensor y = (norm(x) * x).sum();
    y.backward();
    return y.detach();
  });
  for (int i = 0; i < 3; ++i) {
    run.log(step(halves({2, 2, 3, 3}, i)));
    run.log(norm.running_mean);
  }
}

}  // namespace
}  // namespace tenon::programs
