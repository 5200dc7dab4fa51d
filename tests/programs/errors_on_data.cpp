// Operations that fail on the data: what the body has done before stands, and the program goes on.
#include "program.h"

namespace tenon::programs {
namespace {

TENON_PROGRAM(StateBeforeABadIndexIsKept, 4) {
  Tensor state = zeros({2}), table = row({0, 1, 2});
  auto f = run.compile([&](const Tensor& x, const Tensor& i) {
    state = state + x;
    return table.index_select(0, i) + state;
  });
  for (int i : {0, 1, 7, 1, 2}) {
    run.log_error([&] { run.log(f(ones({2}), tensor({0, i}))); });
    run.log(state);
  }
}

TENON_PROGRAM(ACacheGetsNoTensorWithoutData, 8) {
  std::vector<Tensor> cache;
  Tensor table = row({0, 1, 2, 3, 4, 5}).reshape({3, 2});
  auto f = run.compile([&](const Tensor& i) {
    cache.push_back(table.index_select(0, tensor({0})) * 2.0);
    return table.index_select(0, i) + cache.back();
  });
  for (int i : {0, 1, 7, 2}) {
    run.log_error([&] { run.log(f(tensor({i}))); });
    run.log(cache.size(), cache.back());
  }
}

TENON_PROGRAM(ARunningMeanOutlivesABadLabel, 6) {
  Tensor mean = zeros({}), w = ones({3, 3}).requires_grad_();
  optim::SGD opt({w}, {.lr = 0.5});
  auto step = run.compile([&](const Tensor& x, const Tensor& label) {
    opt.zero_grad();
    Tensor scores = x.matmul(w);
    mean = mean * 0.5 + scores.detach().mean();
    Tensor loss = cross_entropy(scores, label);
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int label : {0, 1, 9, 2, 1}) {
    run.log_error([&] { step(ones({1, 3}), tensor({label})); });
    run.log(mean);
  }
}

TENON_PROGRAM(ACheckThatFailsKeepsWhatCameBefore, 4) {
  Tensor sum = zeros({2});
  auto f = run.compile([&](const Tensor& x) {
    sum = sum + x;
    check((x > 0).all(), "positive");
    return sum * 2.0;
  });
  for (float v : {1.0F, -1.0F, 2.0F}) {
    run.log_error([&] { run.log(f(row({v, 1}))); });
    run.log(sum);
  }
}

// The call that fails takes another course than those before it.
TENON_PROGRAM(AnotherCourseFails, 8) {
  Tensor state = zeros({2}), table = row({0, 1, 2});
  bool doubles = false;
  auto f = run.compile([&](const Tensor& x, const Tensor& i) {
    state = state + x;
    if (doubles) state = state * 2.0;
    return table.index_select(0, i) + state;
  });
  for (int i : {0, 1, 7, 1, 7, 2}) {
    doubles = i == 7;
    run.log_error([&] { run.log(f(ones({2}), tensor({0, i}))); });
    run.log(state);
  }
}

TENON_PROGRAM(TwoArgumentsOverlapForOneCall, 8) {
  Tensor captured;
  auto f = run.compile([&](const Tensor& x, const Tensor&) {
    x.add_(1);
    return captured;
  });
  for (int n : {2, 3, 4}) {
    captured = ones({n, n});
    run.log(f(ones({n, n}), ones({n, n})));
  }
  Tensor both = ones({5, 4});
  run.log(f(both.slice(0, 0, 4), both.slice(0, 1, 5)), both);
  captured = ones({2, 2});
  run.log(f(ones({2, 2}), ones({2, 2})));
}

// 256 is 0 as a byte.
TENON_PROGRAM(DivisorsThatAre0InTheTypeOfTheTensor, 8) {
  auto bytes = run.compile([](const Tensor& x) { return x % 256 + 1; });
  auto words = run.compile([](const Tensor& x) { return floor_divide(x, int64_t{1} << 32) + 1; });
  auto neither = run.compile([](const Tensor& x) { return fmod(x, 257) + 1; });
  for (int i = 0; i < 2; ++i) {
    Tensor x = arange(4 + i);
    run.log_error([&] { run.log(bytes(x.to(Dtype::u8))); });
    run.log_error([&] { run.log(words(x.to(Dtype::i32))); });
    run.log(words(x), neither(x.to(Dtype::u8)));
  }
}

TENON_PROGRAM(ABadRequestLeavesTheStateOfTheLastGoodOne, 8) {
  Tensor last = zeros({2});
  auto f = run.compile([&](const Tensor& x) {
    check((x > 0).all(), "positive");
    last = last * 0.5 + x;  // the code of the check has not run yet
    return last;
  });
  for (double x : {1.0, -1.0, 2.0, 3.0, -2.0, -1.0, 1.0}) {
    try {
      run.log(f(full({2}, x)));
    } catch (const Error&) {
      run.log("refused");
    }
    run.log(last);
  }
}

// What the writes of a failing segment leave is documented, so that they are done by hand here.
TENON_PROGRAM(ABadRequestBesideAWriteLeavesTheCallableUsable, 8) {
  Tensor table = ones({4, 2}), n = zeros({}), h = zeros({2});
  auto f = run.compile([&](const Tensor& x, const Tensor& at) {
    n.add_(1);
    h = x * 2 + h;
    return table.index_select(0, at) * h;
  });
  for (int at : {1, 9, 2, 3, 9, 1}) {
    try {
      run.log(f(ones({2}), tensor({at})));
    } catch (const Error&) {
      n = full({}, 10.0 + at);
      h = zeros({2}) + h * 0;
    }
    run.log(n, h);
  }
}

}  // namespace
}  // namespace tenon::programs
