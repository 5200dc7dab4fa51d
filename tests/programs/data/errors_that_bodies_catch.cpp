// Operations that fail on the data, where the body has a `try` about something else behind them, or a
// destructor that looks at data: the call ends with the error, and the next one is served.
#include "program.h"

#include <optional>

namespace tenon::programs {
namespace {

Tensor places(int call) { return tensor({1, call % 2 ? 9 : 0}); }
Tensor values(int call) { return arange(4, Dtype::f32) + call; }

/// Some calls fail, where a plain run fails in the first line that takes `at`. Logs `state` after each.
template <class F>
void call_all(Run& run, F f, std::vector<Tensor> state = {}, int first = 0) {
  for (int call = first; call < first + 6; ++call) {
    run.log_error([&] { run.log(f(values(call), places(call))); });
    run.log(state);
  }
}

std::optional<float> sum_if_any(const Tensor& t) {
  try {
    return t.sum().item<float>().value();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

TENON_PROGRAM(AnInnocentLookInATry, 8) {
  for (int first : {0, 1}) {
    auto f = run.compile([](const Tensor& x, const Tensor& at) {
      Tensor chosen = x.index_select(0, at);
      std::optional<float> sum = sum_if_any(x);
      return sum ? chosen * static_cast<double>(*sum) : chosen;
    });
    call_all(run, f, {}, first);
  }
}

TENON_PROGRAM(ACheckBeforeALookInATry, 8) {
  for (int sign : {1, -1}) {
    auto f = run.compile([](const Tensor& x) {
      check((x > 0).all(), "positive");
      std::optional<float> sum = sum_if_any(x);
      return sum ? x * static_cast<double>(*sum) : x * 100;
    });
    for (int i = 0; i < 4; ++i, sign = -sign)
      run.log_error([&] { run.log(f(ones({2}) * (sign * (i + 1)))); });
  }
}

TENON_PROGRAM(WritesBehindAnErrorThatIsCaught, 8) {
  Tensor before = zeros({4}), behind = zeros({4});
  auto f = run.compile([&](const Tensor& x, const Tensor& at) {
    before.add_(1);
    Tensor chosen = x.index_select(0, at);
    if (sum_if_any(x).value_or(0) > 1) behind.add_(1);
    try {
      behind.add_(10);
    } catch (const std::exception&) {
      behind.add_(100);
    }
    return chosen * 2;
  });
  call_all(run, f, {before, behind});
}

TENON_PROGRAM(AVariableIsAssignedBesideAnErrorThatIsCaught, 8) {
  Tensor last = zeros({4});
  auto f = run.compile([&](const Tensor& x, const Tensor& at) {
    last = last + x;
    Tensor chosen = x.index_select(0, at);
    if (sum_if_any(x).value_or(0) > 1000) return x;
    last = last * 2;
    return chosen * 2;
  });
  for (int call = 0; call < 6; ++call) {
    run.log_error([&] { run.log(f(values(call), places(call))); });
    run.log(last);
  }
}

TENON_PROGRAM(AnotherAttempt, 8) {
  auto f = run.compile([](const Tensor& x, const Tensor& at) {
    Tensor chosen = x.index_select(0, at);
    for (int i = 0; i < 3; ++i)
      if (sum_if_any(x).value_or(-1) > 0) return chosen * 2;
    return chosen * 3;
  });
  call_all(run, f);
}

TENON_PROGRAM(TheCaughtErrorIsThrownAsAnother, 8) {
  auto f = run.compile([](const Tensor& x, const Tensor& at) {
    Tensor chosen = x.index_select(0, at);
    if (!sum_if_any(x)) throw std::logic_error("no sum");
    return chosen * 2;
  });
  call_all(run, f);
}

TENON_PROGRAM(ErrorsOfTheBodysOwnAreCaught, 8) {
  auto f = run.compile([](const Tensor& x, const Tensor& at) {
    Tensor y;
    try {
      y = x.reshape({3});
    } catch (const UserError&) {
      y = x * 7;
    }
    if (sum_if_any(y).value_or(0) > 60) y = y + 1;
    return y.index_select(0, at);
  });
  call_all(run, f);
}

/// Looks when it goes, which is when a plain run leaves the body for the error.
struct Report {
  const Tensor& t;
  double& seen;
  ~Report() { seen += (t * 2).sum().item<float>().value(); }
};

TENON_PROGRAM(DestructorsLookAtData, 8) {
  for (int first : {0, 1}) {
    double seen = 0;
    auto f = run.compile([&](const Tensor& x, const Tensor& at) {
      Report one{x, seen}, another{x, seen};
      return x.index_select(0, at) * 2;
    });
    for (int call = first; call < first + 4; ++call) {
      run.log_error([&] { run.log(f(values(call), places(call))); });
      run.log(seen);
    }
  }
}

TENON_PROGRAM(DestructorsSeeWritesBeforeTheError, 8) {
  Tensor count = zeros({4});
  double seen = 0;
  auto f = run.compile([&](const Tensor& x, const Tensor& at) {
    Report report{count, seen};
    count.add_(x);
    return x.index_select(0, at) * 2;
  });
  for (int call = 0; call < 4; ++call) {
    run.log_error([&] { run.log(f(values(call), places(call))); });
    run.log(count, seen);
  }
}

TENON_PROGRAM(DestructorsLookWhileAnExceptionIsOnItsWay, 8) {
  double seen = 0;
  auto f = run.compile([&](const Tensor& x, const Tensor& at) {
    Report report{x, seen};
    Tensor chosen = x.index_select(0, at);
    if (chosen.sum().item<float>() > 7) throw std::runtime_error("too large");
    return chosen;
  });
  for (int call = 0; call < 8; ++call) {
    run.log_error([&] { run.log(f(values(call), places(call))); });
    run.log(seen);
  }
}

TENON_PROGRAM(AFunctionThatMustNotThrowLooksAtData, 8) {
  float largest = 0;
  auto note = [&](const Tensor& t) noexcept {
    largest = std::max(largest, t.max().item<float>().value());
  };
  auto f = run.compile([&](const Tensor& x, const Tensor& at) {
    Tensor chosen = x.index_select(0, at);
    note(x);
    note(x * 2);
    return chosen + 1;
  });
  call_all(run, f);
}

TENON_PROGRAM(BackwardInATry, 4) {
  Tensor w = ones({4}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor loss = (w * x).sum();
    try {
      loss.backward();
    } catch (...) {
      return loss.detach() * 100;
    }
    Tensor slope = w.grad() * 1;
    w.set_grad(Tensor());
    return loss.detach() + slope;
  });
  for (int call = 0; call < 4; ++call) run.log(f(values(call)));
}
TENON_PROGRAM_IN_ONE_GRAPH(BackwardInATry, 4);

}  // namespace
}  // namespace tenon::programs
