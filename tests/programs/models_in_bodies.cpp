// Archives inside of bodies: what a call of the model does is recorded with the rest, with gradients
// and sizes that may differ.
#include "folders.h"
#include "program.h"

namespace tenon::programs {
namespace {

const std::string archive = source_path("tests/data/models/mlp_digits.pt2");

LoadOptions options_of(const Run& run) {
  return {.backend = run.is_plain() ? "eager" : run.backend(), .device = default_device()};
}

Model digits(const Run& run) {
  Model net = load(archive, options_of(run));
  std::vector<Tensor> parameters;
  for (const std::string& name : net.parameter_names()) parameters.push_back(net.parameter(name));
  set_simply(parameters, 0.0625);
  return net;
}

LoadedModule trainable_digits(const Run& run) {
  LoadedModule net = load_model(archive, options_of(run));
  set_simply(net.parameters(), 0.0625);
  return net;
}

// Of the sum of absolute values: backends add in other orders.
std::string three_digits(const Tensor& t) {
  if (!t.defined()) return "none";
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", t.detach().abs().sum().item<double>().value());
  return text;
}

TENON_PROGRAM(AModelInTheMiddleOfABody, 2) {
  Model net = digits(run);
  auto f = run.compile([&](const Tensor& x) { return Tensor(net(x * 2)) + 1; });
  for (int n = 2; n < 8; ++n) run.log(f(halves({n, 64}, n)));
  run.log("breaks", f.stats().graph_breaks);
}
TENON_PROGRAM_IN_ONE_GRAPH(AModelInTheMiddleOfABody, 2);

TENON_PROGRAM(AModelOfTheArgumentItself, 2) {
  Model net = digits(run);
  auto f = run.compile([&](const Tensor& x) { return Tensor(net(x)); }, {.dynamic = true});
  for (int n = 3; n < 6; ++n) run.log(f(halves({n, 64}, n)));
  run.log(f(halves({64, 5}).t()));  // in another layout than that of the export
}

TENON_PROGRAM(AModelBehindALookAtData, 4) {
  LoadedModule net = trainable_digits(run);
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = net(x * 0.5);
    return y.sum().item<float>() > 0 ? y + 1 : y - 1;
  });
  for (int n = 2; n < 6; ++n) run.log(f(halves({n, 64}, n)).detach().round());
}

TENON_PROGRAM(ABodyLoadsItsModelWhenItNeedsOne, 4) {
  std::optional<LoadedModule> net;
  auto f = run.compile([&](const Tensor& x) {
    if (!net) net.emplace(trainable_digits(run));
    return Tensor((*net)(x * 0.5)).detach();
  });
  for (int i = 0; i < 9; ++i) {
    run.log(f(halves({2 + i % 3, 64}, i)).round());
    if (i == 4) net.reset();
  }
}

// Not in a body: the model's own code gives the gradients.
TENON_PROGRAM(ALayerBeforeALoadedModel, 4) {
  LoadedModule net = trainable_digits(run);
  Tensor w = halves({64}, 3).requires_grad_();
  for (int i = 0; i < 8; ++i) {
    net.requires_grad_(i < 4);
    net.zero_grad();
    w.set_grad({});
    Tensor x = halves({2 + i % 3, 64}, i).requires_grad_(i % 2 == 1);
    Tensor y = net(i % 3 ? x * w : x);
    if (y.requires_grad()) y.square().mean().backward();
    run.log(y.requires_grad(), three_digits(x.grad()), three_digits(w.grad()));
  }
}

// The types are those of the archive.
TENON_PROGRAM(ALoadedModelUnderAutocast, 4) {
  LoadedModule net = trainable_digits(run);
  for (int i = 0; i < 4; ++i) {
    net.zero_grad();
    Tensor y;
    {
      AutocastGuard lower({.enabled = i % 2 == 0});
      y = net(halves({2, 64}, i));
    }
    y.square().mean().backward();
    run.log(y.dtype() == Dtype::f32, y.detach().round(), three_digits(net.parameters()[0].grad()));
  }
}

TENON_PROGRAM(AModelThatIsTrainedInABody, 2) {
  LoadedModule net = trainable_digits(run);
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  Tensor target = halves({4, 10});
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = ((Tensor(net(x)) - target) * 0.125).square().mean();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 4; ++i) run.log(step(halves({4, 64}, i)).round());
  run.log(net.parameters()[0].detach().sum().round());
}
TENON_PROGRAM_IN_ONE_GRAPH(AModelThatIsTrainedInABody, 2);

TENON_PROGRAM(AModelWhoseGradientsReachTheArgument, 1) {
  LoadedModule net = trainable_digits(run);
  auto f = run.compile([&](const Tensor& x) { return (Tensor(net(x * 0.5)) * 0.25).sum(); });
  for (int i = 0; i < 3; ++i) {
    Tensor x = halves({2, 64}, i).requires_grad_();
    f(x).backward();
    run.log(x.grad().sum().round(), net.parameters()[1].grad().sum().round());
  }
}

// A model of load() runs without gradients, in a body, too.
TENON_PROGRAM(AModelWithoutGradients, 1) {
  Model net = digits(run);
  Tensor w = row({2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return Tensor(net(x * w)).abs().sum() * 0 + w * 3; });
  for (int i = 0; i < 2; ++i) f(halves({2, 64}, i)).backward();
  run.log(w.grad());
}

TENON_PROGRAM(AWeightIsWrittenInABody, 1) {
  Model net = digits(run);
  Tensor bias = net.parameter("fc3.bias");
  auto f = run.compile([&](const Tensor& x) {
    bias.add_(1);
    return Tensor(net(x));
  });
  for (int i = 0; i < 3; ++i) run.log(f(halves({2, 64}, i)), bias);
}

TENON_PROGRAM(SizesThatAModelDoesNotTake, 3) {
  Model net = digits(run);
  auto f = run.compile([&](const Tensor& x) { return Tensor(net(x + 1)).sum() * 0; });
  for (int n : {2, 3, 513}) run.log_error([&] { f(halves({n, 64})); });
  run.log_error([&] { f(halves({2, 63})); });
}

}  // namespace
}  // namespace tenon::programs
