// Training with an amp::GradScaler: the step or its parts compiled, with rounds that overflow.
#include "training/small_nets.h"

#include <tenon/grad_scaler.h>
#include <tenon/optim.h>

namespace tenon::programs {
namespace {

// Round 3 overflows: its gradients are infinite.
Tensor batch(int i) { return i == 3 ? full({4, 3}, 1e38) * 100 : halves({4, 3}, i); }

void log_round(Run& run, const amp::GradScaler& scaler, bool stepped) {
  run.log(stepped, scaler.get_scale(), scaler.state_dict().at("growth_tracker"));
}

TENON_PROGRAM(AWholeStepIsScaled, 12) {
  SmallNet net(3, 4, 2);
  optim::Adam opt(net.parameters(), {.lr = 0.01});
  amp::GradScaler scaler({.init_scale = 8, .growth_interval = 2});
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = net(x).square().mean();
    scaler.scale(loss).backward();
    scaler.unscale_(opt);
    Tensor norm = optim::clip_grad_norm_(net.parameters(), 0.5);
    bool stepped = scaler.step(opt);
    scaler.update();
    return std::pair(norm, stepped);
  });
  for (int i = 0; i < 8; ++i) {
    auto [norm, stepped] = step(batch(i));
    if (stepped) run.log(norm);
    log_round(run, scaler, stepped);
  }
  log_weights(run, net);
}

TENON_PROGRAM(TheForwardOfAScaledLossIsCompiled, 4) {
  SmallNet net(3, 4, 2);
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  amp::GradScaler scaler({.init_scale = 8, .growth_interval = 2});
  auto loss_of = run.compile([&](const Tensor& x) { return scaler.scale(net(x).square().mean()); });
  for (int i = 0; i < 8; ++i) {
    opt.zero_grad();
    loss_of(batch(i)).backward();
    bool stepped = scaler.step(opt);
    scaler.update();
    log_round(run, scaler, stepped);
  }
  log_weights(run, net);
}

// Two passes add up, two optimisers step: one whose gradients overflow is left out, the other is not.
TENON_PROGRAM(GradientsAreUnscaledInOneGraphAndAppliedOutside, 6) {
  SmallNet first(3, 4, 2), second(3, 4, 2);
  optim::SGD of_first(first.parameters(), {.lr = 0.125}),
      of_second(second.parameters(), {.lr = 0.125});
  amp::GradScaler scaler({.init_scale = 8, .growth_interval = 3});
  auto gradients = run.compile([&](const Tensor& x, const Tensor& y) {
    of_first.zero_grad();
    of_second.zero_grad();
    scaler.scale(first(x).square().mean() + second(y).square().mean()).backward();
    scaler.unscale_(of_first);
    scaler.unscale_(of_second);
    return optim::clip_grad_norm_(second.parameters(), 0.5);
  });
  auto update = run.compile([&] { scaler.update(); });
  for (int i = 0; i < 8; ++i) {
    run.log(coarse(gradients(batch(i), halves({4, 3}, i + 1))));
    bool one = scaler.step(of_first), other = scaler.step(of_second);
    run.log(one);
    update();
    log_round(run, scaler, other);
  }
  for (const SmallNet* net : {&first, &second})
    for (const Tensor& p : net->parameters()) run.log(coarse(p.detach()));
}
TENON_PROGRAM_IN_ONE_GRAPH(GradientsAreUnscaledInOneGraphAndAppliedOutside, 6);

}  // namespace
}  // namespace tenon::programs
