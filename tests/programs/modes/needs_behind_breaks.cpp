// Whether a tensor needs gradients changes between two parts of a body, and a later part uses it.
#include <tenon/nn.h>
#include <tenon/optim.h>

#include "program.h"

namespace tenon::programs {
namespace {

TENON_PROGRAM(AnArgumentComesToNeedGradientsTwoPartsEarlier, 6) {
  bool needs = false;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2;
    graph_break();
    if (needs) Tensor(x).requires_grad_();
    Tensor z = y + 1;
    graph_break();
    return std::vector<Tensor>{z, x * 3};
  });
  for (int call = 0; call < 8; ++call) {
    needs = call / 2 % 2;
    Tensor x = ones({2}) + call;
    std::vector<Tensor> made = f(x);
    if (made[1].requires_grad()) made[1].sum().backward();
    run.log(made, x.grad(), made[1].requires_grad());
  }
}

TENON_PROGRAM(ATensorOfTheBodyComesToNeedGradientsTwoPartsEarlier, 8) {
  bool needs = false;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2;
    graph_break();
    if (needs) y.requires_grad_();
    Tensor z = x + 1;
    graph_break();
    Tensor h = y * z;
    if (h.requires_grad()) h.sum().backward();
    return std::vector<Tensor>{h.detach(), y};
  });
  for (int call = 0; call < 8; ++call) {
    needs = call / 2 % 2;
    std::vector<Tensor> made = f(ones({2}) + call);
    run.log(made, made[1].grad());
  }
}

TENON_PROGRAM(ACriticIsFrozenWhileTheActorLearns, 10) {
  manual_seed(1);
  nn::Sequential actor{nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 4)};
  nn::Sequential critic{nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 1)};
  optim::Adam actor_steps(actor.parameters()), critic_steps(critic.parameters());
  auto step = run.compile([&](const Tensor& x, const Tensor& y) {
    Tensor critic_loss = mse_loss(critic(x), y);
    critic_steps.zero_grad();
    critic_loss.backward();
    critic_steps.step();
    critic.requires_grad_(false);
    Tensor loss = -critic(actor(x)).mean();
    actor_steps.zero_grad();
    loss.backward();
    actor_steps.step();
    critic.requires_grad_(true);
    return std::vector<Tensor>{critic_loss.detach(), loss.detach()};
  });
  for (int call = 0; call < 6; ++call) {
    Tensor x = (arange(12 + call % 2 * 4, Dtype::f32) * 0.1 + call).sin().reshape({-1, 4});
    run.log(step(x, x.slice(1, 0, 1)));
  }
  run.log(step.is_followed());
}

TENON_PROGRAM(AWeightIsFrozenInSomeCalls, 10) {
  Tensor w = ones({2}).requires_grad_();
  bool freezes = false;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = w * x, row = w[0];
    if (freezes) w.requires_grad_(false);
    Tensor r = w * 3;
    w.requires_grad_(true);
    return std::vector<Tensor>{y, r, w * row};
  });
  for (int call = 0; call < 9; ++call) {
    freezes = call / 2 % 2;
    w.set_grad(Tensor());
    std::vector<Tensor> made = f(ones({2}) + call);
    Tensor loss = made[0].sum() + made[1].sum() + made[2].sum();
    loss.backward();
    run.log(made, w.grad(), made[1].requires_grad());
  }
}

TENON_PROGRAM(AWeightStaysFrozenForCalls, 10) {
  Tensor w = ones({2}).requires_grad_();
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = w * x;
    if (calls % 3 == 2) w.requires_grad_(!w.requires_grad());
    return std::vector<Tensor>{y, w * 3};
  });
  for (calls = 0; calls < 14; ++calls) {
    std::vector<Tensor> made = f(ones({2}) + calls);
    run.log(made, made[0].requires_grad(), made[1].requires_grad(), w.requires_grad());
  }
}

}  // namespace
}  // namespace tenon::programs
