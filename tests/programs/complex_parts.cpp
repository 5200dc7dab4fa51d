// Complex tensors and their parts as arguments, results and places to write to: the parts are views
// of another dtype, whose offsets and strides count other elements than those of the whole.
#include "program.h"

#include <tenon/optim/adaptive.h>

namespace tenon::programs {
namespace {

Tensor waves(int64_t rows, double phase) {
  return ((arange(rows * 2).to(Dtype::f32) * 0.5 + phase).sin()).view({rows, 2});
}

std::string places(const Tensor& t) {
  std::string text = "from " + std::to_string(t.storage_offset()) + " by";
  for (SymInt stride : t.strides()) text += " " + std::to_string(stride.guard_int());
  return text;
}

Tensor pairs(const Tensor& t) { return is_complex(t.dtype()) ? view_as_real(t) : t; }

TENON_PROGRAM(PartsOfWhatTheBodyComputesHaveGradients, 8) {
  auto f = run.compile([](const Tensor& x) {
    Tensor c = complex(x, x * x);
    return std::vector<Tensor>{real(c), imag(c), view_as_real(c.t())};
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = waves(2 + i % 3, i).requires_grad_(), sum = zeros({});
    for (const Tensor& part : f(x)) {
      run.log(part, places(part), part.requires_grad(), part.is_leaf());
      sum = sum + (part * part).sum();
    }
    sum.backward();
    run.log(x.grad());
  }
}

TENON_PROGRAM(PartsOfArgumentsAtOtherPlaces, 4) {
  Tensor bank = complex(waves(6, 0), waves(6, 1));
  auto f = run.compile([](const Tensor& c) {
    return std::vector<Tensor>{imag(c), real(c).t(), view_as_real(c)[0], c.t()};
  });
  for (int64_t row : {0, 3, 1, 2}) {
    std::vector<Tensor> parts = f(bank.slice(0, row, row + 2));
    for (const Tensor& part : parts) run.log(pairs(part), places(part));
    parts[0].add_(1.0);
    run.log(view_as_real(bank));
  }
}

TENON_PROGRAM(PairsOfArgumentsAtOtherPlaces, 8) {
  auto f = run.compile(
      [](const Tensor& p) { return std::pair(view_as_complex(p), view_as_complex(p)[1]); });
  Tensor bank = waves(12, 0).view({6, 2, 2}), leaf = waves(4, 1).requires_grad_();
  for (int64_t row : {0, 3, 1, 2}) {
    auto [all, second] = f(bank.slice(0, row, row + 2));
    run.log(pairs(all), places(all), pairs(second), places(second));
    leaf.set_grad({});
    auto [learnt, part] = f((leaf * 1.0).view({2, 2, 2}));
    (learnt.abs().sum() + view_as_real(part).sum() * double(row)).backward();
    run.log(leaf.grad());
  }
}

TENON_PROGRAM(WordsOfArgumentsAtOtherPlaces, 3) {
  auto f = run.compile([](const Tensor& t) { return t.view(Dtype::i16); });
  Tensor words = (arange(24) * 70000).to(Dtype::i32).view({6, 4});
  for (int64_t row : {0, 3, 1}) {
    Tensor halves = f(words.slice(0, row, row + 2));
    run.log(halves, places(halves));
  }
}

TENON_PROGRAM(PartsAreWritten, 4) {
  Tensor c = complex(waves(3, 0), waves(3, 1));
  auto f = run.compile([](const Tensor& c, double factor) {
    real(c).mul_(factor);
    imag(c)[0].add_(1.0);
    view_as_real(c).select(2, 0).t()[1].fill_(factor);
    return c * 2.0;
  });
  for (int i = 0; i < 3; ++i) run.log(view_as_real(f(c, 0.5 + i)), view_as_real(c));
}

TENON_PROGRAM(PairsAreWritten, 3) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x.clone();
    view_as_complex(y.view({3, 1, 2})).mul_(2.0);
    return y;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = waves(3, i).requires_grad_(), y = f(x);
    y.pow(2).sum().backward();
    run.log(y, x.grad());
  }
}

TENON_PROGRAM(BitsAreWritten, 3) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 2.0;
    y.view(Dtype::i32).bitwise_and_(0x7fffffff);
    return y;
  });
  for (int64_t n : {2, 3, 4}) run.log(f(waves(n, 3)));
}

TENON_PROGRAM(TheAngleOfZeroHasNoGradient, 3) {
  auto f = run.compile([](const Tensor& x) { return complex(x, x * 0.5).angle(); });
  for (int i = 0; i < 3; ++i) {
    Tensor x = row({0, -0.0f, float(i) - 1}).requires_grad_(), y = f(x);
    y.sum().backward();
    run.log(y, x.grad());
  }
}

// As one input of the functional graph, in whose memory the whole is made of pairs.
TENON_PROGRAM(TheWholeAndItsPartsAsArguments, 24) {
  auto write_part = run.compile([](const Tensor& whole, const Tensor& part) {
    part.mul_(2.0);
    return std::pair(whole * 1.0, whole.slice(0, 1));
  });
  auto write_whole = run.compile([](const Tensor& whole, const Tensor& part) {
    whole.add_(1.0);
    return std::pair(part * 1.0, part.slice(0, 1));
  });
  for (int i = 0; i < 3; ++i) {
    Tensor c = complex(row({1, 2, float(i)}), row({3, float(i), 4}));
    Tensor odd = c.slice(0, 1);
    std::vector<Tensor> parts{view_as_real(c), real(c), imag(c), view_as_real(c).select(0, 1)};
    for (const Tensor& part : parts)
      for (const Tensor& whole : {c, odd}) {
        auto [all, rest] = write_part(whole, part);
        run.log(pairs(all), pairs(rest), places(rest), part);
        auto [seen, end] = write_whole(whole, part);
        run.log(seen, end, places(end), view_as_real(c));
      }
    auto [seen, end] = write_whole(odd, imag(c));
    run.log(seen, end, view_as_real(c));
  }
}

// Sizes between two powers of two are one case.
TENON_PROGRAM(ProductsOfAnyLength, 26) {
  auto product = run.compile([](const Tensor& c) { return c.prod(-1); });
  auto products = run.compile([](const Tensor& c) { return c.cumprod(1); });
  for (int64_t n : {3, 5, 6, 7, 0, 1, 9, 10, 11, 12, 13, 14, 2, 4, 8}) {
    Tensor c = complex(halves({2, n}), halves({2, n}, 1));
    run.log(pairs(product(c)), pairs(products(c)));
  }
}

template <class Optimizer, class Options>
void train_complex_weights(Run& run, const Options& options) {
  Tensor w = complex(row({0.5, 2, -0.5}), row({-1, 1, 0.75})).requires_grad_();
  Tensor plain = row({1, 2}).requires_grad_();
  Optimizer opt({w, plain}, options);
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = ((w * x).abs().square().sum() + plain.square().sum()) * 0.125;
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 5; ++i) {
    Tensor loss = step(complex(row({1, -1, float(i)}), row({2, 0.5, -1})));
    run.log((loss * 64).round(), (view_as_real(w.detach()) * 64).round());
  }
}

TENON_PROGRAM(ComplexWeightsAreTrained, 16) {
  train_complex_weights<optim::SGD>(run, optim::SGDOptions{.lr = 0.125, .momentum = 0.5});
  train_complex_weights<optim::Adam>(run, optim::AdamOptions{.lr = 0.125, .amsgrad = true});
  train_complex_weights<optim::RMSprop>(run, optim::RMSpropOptions{.lr = 0.125, .centered = true});
  train_complex_weights<optim::Adagrad>(
      run, optim::AdagradOptions{.lr = 0.125, .initial_accumulator_value = 0.5});
}

TENON_PROGRAM(PartsUnderAutocast, 2) {
  auto f = run.compile([&](const Tensor& z) {
    AutocastGuard autocast;
    return std::vector<Tensor>{view_as_real(z) * 1.0, real(z) + 1.0, imag(z * 2.0)};
  });
  for (float i : {1.0f, 2.0f, 4.0f}) run.log(f(complex(row({i, 2}), row({3, -i}))));
}

}  // namespace
}  // namespace tenon::programs
