// One storage under two dtypes among what a compiled body gets: written through one, read through the
// other. The results are those of plain code.
#include "program.h"

namespace tenon::programs {
namespace {

// -0.5, 0, 0.5 ... as numbers whose bits are easy to change.
Tensor numbers(int64_t n, int turn) { return (arange(n) - 1 + turn).to(Dtype::f32) * 0.5; }

const std::vector<Dtype> views = {Dtype::i32, Dtype::i16, Dtype::u8, Dtype::i64, Dtype::bf16};

TENON_PROGRAM(NumbersAndTheirBitsAreRead, 30) {
  auto f = run.compile([](const Tensor& x, const Tensor& bits) {
    return std::pair(x * 2.0, bits.to(Dtype::f64) + 1.0);
  });
  for (int turn = 0; turn < 2; ++turn)
    for (Dtype dtype : views) {
      Tensor x = numbers(8, turn);
      auto [twice, more] = f(x, x.view(dtype));
      run.log(twice, more);
    }
}

TENON_PROGRAM(NumbersAreWrittenAndBitsRead, 30) {
  auto f = run.compile([](const Tensor& x, const Tensor& bits) {
    Tensor before = bits.to(Dtype::f64);
    x.mul_(2.0).add_(1.0);
    return std::pair(before, bits.to(Dtype::f64));
  });
  for (int turn = 0; turn < 2; ++turn)
    for (Dtype dtype : views) {
      Tensor x = numbers(8, turn);
      auto [before, after] = f(x, x.view(dtype));
      run.log(before, after, x);
    }
}

TENON_PROGRAM(BitsAreWrittenAndNumbersRead, 30) {
  auto f = run.compile([](const Tensor& x, const Tensor& bits) {
    Tensor before = x + 1.0;
    bits.zero_();
    return std::pair(before, x + 1.0);
  });
  for (int turn = 0; turn < 2; ++turn)
    for (Dtype dtype : views) {
      Tensor x = numbers(8, turn);
      auto [before, after] = f(x, x.slice(0, 2, 6).view(dtype));
      run.log(before, after, x);
    }
}

TENON_PROGRAM(SignsAreTakenAwayThroughAnArgument, 8) {
  auto f = run.compile([](const Tensor& x, const Tensor& bits) {
    bits.bitwise_and_(0x7fffffff);
    return x * 1.0;
  });
  for (int turn = 0; turn < 3; ++turn) {
    Tensor x = numbers(4 + turn, -turn);
    run.log(f(x, x.view(Dtype::i32)), x);
    Tensor m = numbers(12, -turn).reshape({4, 3});
    run.log(f(m.slice(0, 1, 3), m.view(Dtype::i32).slice(0, 0, 2)), m);  // one row in common
    run.log(f(m.t(), m.view(Dtype::i32).t()), m);
  }
}

TENON_PROGRAM(TheBitsOfACapturedTensor, 12) {
  Tensor table = numbers(6, 0);
  auto read = run.compile([&](const Tensor& bits) {
    table.add_(0.5);
    return bits + 1;
  });
  auto write = run.compile([&](const Tensor& bits) {
    bits.add_(1 << 23);  // the exponent: twice the number
    return table * 1.0;
  });
  for (int turn = 0; turn < 3; ++turn) {
    run.log(read(table.view(Dtype::i32)), table);
    run.log(write(table.view(Dtype::i32).slice(0, 3)), table);
    if (turn == 1) table = numbers(8, 2);
  }
}

TENON_PROGRAM(ApartNowAndTogetherThen, 8) {
  auto f = run.compile([](const Tensor& x, const Tensor& bits) {
    x.add_(1.0);
    return bits * 1;
  });
  for (int turn = 0; turn < 6; ++turn) {
    Tensor x = numbers(4, turn), other = numbers(4, 0);
    run.log(f(x, (turn % 2 ? x : other).view(Dtype::i32)), x);
  }
}

TENON_PROGRAM(AViewOfTheBitsComesOut, 12) {
  auto f = run.compile([](const Tensor& x, const Tensor& bits) {
    x.add_(1.0);
    return std::pair(bits.slice(0, 1), x.view(Dtype::i16));
  });
  for (int turn = 0; turn < 3; ++turn) {
    Tensor x = numbers(4, turn);
    auto [end, halves] = f(x, x.view(Dtype::i32));
    end.add_(1 << 23);
    run.log(end, halves, x);
  }
}

// The code that is known after a reset comes from the cache of graphs.
TENON_PROGRAM(OverlappingArgumentsOfEachWidthOnceMore, 60) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    x.add_(y);
    return y * 2;
  });
  for (int round = 0; round < 2; ++round) {
    for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::i8}) {
      Tensor x = numbers(8, 3).to(dtype);
      run.log(f(x.slice(0, 0, 6), x.slice(0, 2, 8)), x);
      run.log(f(x.slice(0, 2, 8), x.slice(0, 0, 6)), x);
    }
    f.reset();
  }
}

TENON_PROGRAM(AParameterAndItsBits, 8) {
  auto f = run.compile([](const Tensor& w, const Tensor& bits) {
    return (w * w).sum() + bits.bitwise_and(1).sum().to(Dtype::f32);
  });
  for (int turn = 0; turn < 3; ++turn) {
    Tensor w = numbers(4, turn).requires_grad_();
    Tensor loss = f(w, w.detach().view(Dtype::i32));
    loss.backward();
    run.log(loss, w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
