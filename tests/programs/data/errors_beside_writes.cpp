// Operations that fail on the data in code that writes tensors or draws numbers: wherever the body
// keeps its state, it is what a plain run has, and the next call is served.
#include "program.h"

#include <map>

namespace tenon::programs {
namespace {

struct Memory {
  int n_tokens = 0;
  Tensor state = zeros({2});
};

/// Where a body may keep a tensor.
struct Places {
  std::vector<Tensor> list{zeros({2})};
  std::vector<Tensor> growing;
  std::vector<std::vector<Tensor>> nested{{zeros({2})}};
  std::map<int, Tensor> by_key;
  std::optional<Tensor> maybe;
  Memory object;
  std::shared_ptr<Memory> behind_pointer = std::make_shared<Memory>();
};

void keep_in(Places& all, Tensor& variable, Tensor& never_read, const Tensor& x) {
  variable = variable * 0.5 + x;
  never_read = x * 4.0;
  all.list[0] = all.list[0] * 0.5 + x;
  all.growing.push_back(x + 1.0);
  all.nested[0][0] = all.nested[0][0] * 0.5 + x;
  if (!all.by_key.contains(0)) all.by_key[0] = zeros({2});
  all.by_key[0] = all.by_key[0] * 0.5 + x;
  all.maybe = all.maybe ? *all.maybe * 0.5 + x : x;
  all.object.state = all.object.state * 0.5 + x;
  all.behind_pointer->state = all.behind_pointer->state * 0.5 + x;
}

void log_places(Run& run, const Places& all, const Tensor& variable, const Tensor& never_read) {
  run.log(variable, all.list, all.growing, all.nested, all.object.state, all.behind_pointer->state);
  if (never_read.defined()) run.log(never_read, all.by_key.at(0), *all.maybe);
}

/// `body(x)` gives what is kept; then an index fails in some calls.
template <class Body>
void keep_everywhere(Run& run, int bad_call, Body body) {
  Places all;
  Tensor variable = zeros({2}), never_read;
  auto f = run.compile([&, body](const Tensor& x, const Tensor& at) {
    keep_in(all, variable, never_read, body(x));
    return x.index_select(0, at);
  });
  for (int call = 0; call < 5; ++call) {
    Tensor x = row({1, static_cast<float>(call)});
    run.log_error([&] { run.log(f(x, tensor({call == bad_call ? 7 : 1}))); });
    run.log(x);
    log_places(run, all, variable, never_read);
  }
}

TENON_PROGRAM(StateBesideAWeightThatDecays, 12) {
  for (int bad_call : {0, 1, 3}) {
    Tensor w = row({1, 2}).requires_grad_();
    keep_everywhere(run, bad_call, [&](const Tensor& x) {
      Tensor now = (x * w).detach();
      NoGradGuard off;
      w.mul_(0.5);
      return now;
    });
    run.log(w);
  }
}

TENON_PROGRAM(StateBesideACounterAndAnArgument, 12) {
  for (int bad_call : {0, 2}) {
    Tensor n_calls = zeros({});
    keep_everywhere(run, bad_call, [&](Tensor x) {
      n_calls.add_(1);
      x.mul_(2.0);
      return x * n_calls;
    });
    run.log(n_calls);
  }
}

TENON_PROGRAM(StateBesideRandomNumbers, 12) {
  for (int bad_call : {0, 2}) {
    manual_seed(7);
    Tensor noise = zeros({2});
    keep_everywhere(run, bad_call, [&](const Tensor& x) { return dropout(x, 0.5, true); });
    keep_everywhere(run, bad_call, [&](const Tensor& x) {
      noise.copy_(dropout(ones({2}), 0.5, true));
      return x * noise;
    });
    run.log(noise, dropout(ones({8}), 0.5, true));
  }
}

TENON_PROGRAM(StateBehindALookAtData, 24) {
  for (int bad_call : {0, 3}) {
    Tensor sum = zeros({2});
    keep_everywhere(run, bad_call, [&](const Tensor& x) {
      sum.add_(x);
      bool is_large = sum.sum().item<float>() > 4;
      sum.mul_(is_large ? 0.5 : 1.0);
      return sum + x;
    });
    run.log(sum);
  }
}

TENON_PROGRAM(AnAverageBesideATrainingStep, 12) {
  Tensor w = row({1, 2}).requires_grad_();
  std::vector<Tensor> average{zeros({2})};
  auto loss = run.compile([&](const Tensor& x, const Tensor& label) {
    Tensor scores = (x * w).reshape({1, 2});
    {
      NoGradGuard off;
      average[0] = average[0] * 0.5 + x * 0.5;
      w.mul_(0.5);
    }
    return nll_loss(scores, label);
  });
  for (int call = 0; call < 5; ++call) {
    run.log_error([&] {
      run.log(loss(row({1, static_cast<float>(call)}), tensor({call == 1 ? 9 : 1})));
    });
    run.log(average, w);
  }
}

// A step that must be one graph stores what it has made: it is refused, and its average is as before.
TENON_PROGRAM(ARefusedStepLeavesItsAverage, 8) {
  Tensor mean = zeros({2}), w = row({1, 2}).requires_grad_();
  auto step = [&](const Tensor& x) {
    mean = mean * 0.5 + x.detach();
    Tensor loss = (x * w * mean).sum();
    loss.backward();
    return loss.detach();
  };
  auto f = run.compile(step, {.fullgraph = true});
  for (int i = 0; i < 4; ++i) {
    Tensor x = row({float(i), 1});
    try {
      run.log(f(x));
    } catch (const Error&) {
      run.log(step(x));
    }
    run.log(mean, w.grad());
  }
}

// What the body holds was there before the operation that fails, and is written behind it.
TENON_PROGRAM(ATensorThatIsWrittenBehindTheError, 8) {
  std::vector<Tensor> kept;
  Tensor n_calls = zeros({});
  auto f = run.compile([&](Tensor x, const Tensor& at) {
    kept.push_back(x);
    kept.push_back(x * 2.0);
    n_calls.add_(1);
    Tensor found = x.index_select(0, at);
    x.add_(1);
    kept.back().add_(1);
    return found;
  });
  for (int call = 0; call < 4; ++call) {
    Tensor x = row({1, static_cast<float>(call)});
    run.log_error([&] { run.log(f(x, tensor({call % 2 ? 9 : 1}))); });
    run.log(x, kept, n_calls);
  }
}

TENON_PROGRAM(ADecoderGetsABadToken, 16) {
  std::vector<Tensor> keys, values;
  Tensor position = zeros({}, Dtype::i64), table = arange(8, Dtype::f32).reshape({4, 2});
  auto f = run.compile([&](const Tensor& x, const Tensor& token) {
    keys.push_back(x * 2.0);
    values.push_back(x * 3.0);
    position.add_(1);
    Tensor query = table.index_select(0, token).reshape({2, 1});
    return (stack(keys).matmul(query) * stack(values)).sum(0) + position;
  });
  for (int call = 0; call < 7; ++call) {
    Tensor x = row({1, static_cast<float>(call)});
    run.log_error([&] { run.log(f(x, tensor({call == 3 ? 9 : 1}))); });
    run.log(keys, values, position);
  }
}

TENON_PROGRAM(ViewsAreKeptBesideWrites, 8) {
  Tensor base = zeros({4});
  std::vector<Tensor> kept;
  auto f = run.compile([&](const Tensor& x, const Tensor& at) {
    Tensor front = base.narrow(0, 0, 2), made = x * 2.0;
    front.add_(x);
    kept = {front, made.narrow(0, 0, 1), made};
    kept[1].add_(1.0);
    Tensor found = x.index_select(0, at);
    base.add_(1.0);
    made.mul_(4.0);
    return found;
  });
  for (int call = 0; call < 5; ++call) {
    Tensor x = row({1, static_cast<float>(call)});
    run.log_error([&] { run.log(f(x, tensor({call % 2 ? 9 : 1}))); });
    run.log(kept, base);
    kept[0].add_(2.0);
    kept[1].add_(8.0);
    run.log(kept, base);
  }
}

// The error on the data comes when the body has thrown its own.
TENON_PROGRAM(ABodyThrowsBehindAnErrorOnTheData, 8) {
  Tensor n_calls = zeros({});
  auto f = run.compile([&](const Tensor& x, const Tensor& at, bool fails) {
    n_calls.add_(x.index_select(0, at).sum());
    if (fails) throw std::runtime_error("of the body");
    return n_calls + 1.0;
  });
  Tensor x = ones({4});
  for (auto [last, fails] : {std::pair(2, false), {2, true}, {9, true}, {2, false}, {9, true}})
    run.log_error([&, last = last, fails = fails] { run.log(f(x, tensor({1, last}), fails)); });
}
TENON_PROGRAM_IN_ONE_GRAPH(ABodyThrowsBehindAnErrorOnTheData, 8);

}  // namespace
}  // namespace tenon::programs
