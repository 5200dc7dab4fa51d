// Networks of the larger layers, trained by the rarer optimisers and schedules. Losses are logged in
// hundredths: these numbers are not dyadic.
#include "program.h"

#include <cmath>

namespace tenon::programs {
namespace {

double hundredths(const Tensor& loss) { return std::round(loss.item<double>() * 100) / 100; }

Tensor images(int64_t n) {
  return arange(n * 64, Dtype::f32).remainder(7).div(7).reshape({n, 1, 8, 8});
}

TENON_PROGRAM(AnAutoencoderLearns, 4) {
  manual_seed(1);
  nn::Sequential net{nn::Conv2d(1, 4, 3, {.stride = 2, .padding = 1}),
                     nn::InstanceNorm2d(4, {.affine = true}),
                     nn::SiLU(),
                     nn::ConvTranspose2d(4, 4, 2, {.stride = 2}),
                     nn::ReflectionPad2d(1),
                     nn::Conv2d(4, 1, 3)};
  optim::NAdam opt(net.parameters(), {.lr = 0.02});
  optim::LinearLR warm_up(opt, 0.1, 1, 3);
  optim::CosineAnnealingWarmRestarts anneal(opt, 4);
  optim::SequentialLR schedule(opt, {&warm_up, &anneal}, {3});
  auto forward = run.compile([&](const Tensor& x) { return net(x); });
  for (int i = 0; i < 12; ++i) {
    Tensor x = images(i % 4 == 3 ? 3 : 5);  // the last batch is smaller
    opt.zero_grad();
    Tensor loss = nn::MSELoss()(forward(x), x);
    loss.backward();
    opt.step();
    schedule.step();
    run.log("loss", hundredths(loss), "rate", static_cast<double>(opt.lr));
  }
}

TENON_PROGRAM(TransformersOverLengthsInTurn, 8) {
  manual_seed(2);
  nn::TransformerOptions options{
      .dim_feedforward = 12, .dropout = 0, .batch_first = true, .norm_first = true};
  nn::TransformerEncoder encoder(nn::TransformerEncoderLayer(8, 2, options), 2, nn::LayerNorm(8));
  nn::TransformerDecoder decoder(nn::TransformerDecoderLayer(8, 2, options), 1);
  std::vector<Tensor> parameters = encoder.parameters();
  for (const Tensor& p : decoder.parameters()) parameters.push_back(p);
  optim::Adamax opt(parameters, {.lr = 0.01});
  auto model = run.compile([&](const Tensor& source, const Tensor& target) {
    return decoder(target, encoder(source), nn::DecoderMasks{.tgt_is_causal = true});
  });
  for (int i = 0; i < 9; ++i) {
    int64_t length = 3 + i % 3 * 2;
    Tensor source = arange(2 * length * 8, Dtype::f32).remainder(5).sub(2).reshape({2, length, 8});
    opt.zero_grad();
    Tensor loss = (model(source, source * 0.5) - source).abs().mean();
    loss.backward();
    opt.step();
    run.log(hundredths(loss));
  }
  encoder.eval(), decoder.eval();
  NoGradGuard no_grad;
  run.log(hundredths(model(full({1, 4, 8}, 0.5), full({1, 2, 8}, 0.25)).abs().mean()));
}

TENON_PROGRAM(CellsInALoop, 6) {
  manual_seed(3);
  nn::LSTMCell first(3, 6);
  nn::RNNCell second(6, 4);
  nn::GRUCell third(4, 4);
  optim::RAdam opt(first.parameters(), {.lr = 0.05});
  auto unrolled = run.compile([&](const Tensor& x) {
    nn::LSTMCellOutput state;
    Tensor a, b;
    for (const Tensor& now : x.unbind(0)) {
      state = first(now, state.hidden, state.cell);
      a = second(state.hidden, a);
      b = third(a, b);
    }
    return b;
  });
  for (int i = 0; i < 8; ++i) {
    int64_t steps = i % 2 ? 3 : 4;
    opt.zero_grad();
    Tensor loss = (unrolled(ones({steps, 2, 3}) * (i % 3)) - 0.25).square().mean();
    loss.backward();
    opt.step();
    run.log(hundredths(loss * 100));
  }
}

TENON_PROGRAM(VolumesArePooledAndResized, 3) {
  manual_seed(4);
  nn::Sequential net{nn::Conv3d(1, 2, 3, {.padding = 1, .bias = false}),
                     nn::BatchNorm3d(2),
                     nn::MaxPool3d(2),
                     nn::Upsample({.scale_factor = {2}, .mode = nn::UpsampleMode::trilinear}),
                     nn::AdaptiveAvgPool3d({1, 2, 2}),
                     nn::Flatten()};
  optim::Adagrad opt(net.parameters(), {.lr = 0.1});
  auto forward = run.compile([&](const Tensor& x) { return net(x); });
  for (bool training : {true, true, false, true, false}) {
    net.train(training);
    Tensor y = forward(arange(2 * 64, Dtype::f32).remainder(9).reshape({2, 1, 4, 4, 4}));
    run.log(hundredths(y.abs().mean()));
    if (!training) continue;
    opt.zero_grad();
    (y * y).mean().backward();
    opt.step();
  }
}

TENON_PROGRAM(WholeStepsOfAdadelta, 4) {
  manual_seed(5);
  nn::Sequential net{nn::Linear(4, 8), nn::Tanhshrink(), nn::Linear(8, 1)};
  optim::Adadelta opt(net.parameters(), {.lr = 1});
  nn::MarginRankingLoss ranking(0.5);
  auto step = run.compile(
      [&](const Tensor& better, const Tensor& worse) {
        opt.zero_grad();
        Tensor loss = ranking(net(better), net(worse), ones({better.size(0), 1}));
        loss.backward();
        opt.step();
        return loss.detach();
      },
      state(net, opt));
  for (int i = 0; i < 6; ++i) {
    int64_t n = i % 2 ? 5 : 3;
    run.log(hundredths(step(full({n, 4}, 1.0), full({n, 4}, -0.5))));
  }
}

}  // namespace
}  // namespace tenon::programs
