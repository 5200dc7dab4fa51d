// Draws whose numbers nobody reads: the generator is moved on by them all the same, so that later
// draws, inside of the body and after the call, are those of a plain run.
#include "program.h"

namespace tenon::programs {
namespace {

template <class F>
void log_with_later_draws(Run& run, const F& f) {
  for (int i = 0; i < 3; ++i) {
    manual_seed(3 + i);
    run.log(f(row({1, float(i)})), rand({2}));
  }
}

TENON_PROGRAM(ADrawThatNobodyReads, 2) {
  log_with_later_draws(run, run.compile([](const Tensor& x) {
    Tensor unread = randn({3});
    return x * rand({2});
  }));
}

TENON_PROGRAM(ADrawThatIsOverwritten, 2) {
  log_with_later_draws(run, run.compile([](const Tensor& x) {
    Tensor noise = zeros({2});
    noise.normal_(0, 1);
    noise.zero_();
    return x + noise + rand({2});
  }));
}

// Permutations and choices are the host's, numbers may be drawn in loops.
TENON_PROGRAM(DrawsOfTheHostBetweenOthers, 2) {
  log_with_later_draws(run, run.compile([](const Tensor& x) {
    Tensor order = randperm(5);
    Tensor y = x + rand({2});
    Tensor chosen = multinomial(ones({4}), 2, false);
    Tensor unread = bernoulli(x.sigmoid());
    return y + rand({2});
  }));
}

TENON_PROGRAM(UnreadDrawsOfTrainingAreMadeOnce, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor unread = dropout(x * w, 0.5, true);
    return x * w * rand({2});
  });
  for (int i = 0; i < 3; ++i) {
    manual_seed(3 + i);
    Tensor y = f(row({1, float(i)}));
    run.log(y, rand({2}));
    y.sum().backward();
    run.log(w.grad(), rand({2}));
  }
}

TENON_PROGRAM(UnreadDrawsInABranch, 4) {
  auto f = run.compile([](const Tensor& x) {
    auto noisy = [](const Tensor& t) {
      Tensor unread = rand({4});
      return t + rand({2});
    };
    auto quiet = [](const Tensor& t) { return t * 2.0; };
    return cond(x.sum() > 0, noisy, quiet, x);
  });
  log_with_later_draws(run, f);
}

// The state is read behind the draws before it, and what was drawn since is drawn again.
TENON_PROGRAM(TheBodyKeepsItsPlaceInTheStream, 6) {
  auto f = run.compile([](const Tensor& x, bool again) {
    Tensor first = rand_like(x);
    RngState place = rng_state();
    Tensor second = randn({2});
    if (again) set_rng_state(place);
    return std::tuple(first, second, randn({2}), int64_t(place.offset));
  });
  for (int i = 0; i < 6; ++i) {
    auto [first, second, third, offset] = f(ones({3 + i % 2}), i % 3 == 1);
    run.log(first, second, third, offset, rand({1}));
  }
}

}  // namespace
}  // namespace tenon::programs
