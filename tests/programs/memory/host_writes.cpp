// Memory that the program writes itself, and the generator that the body sets: operations see what
// is there when their line is reached.
#include "program.h"

#include <algorithm>
#include <cstring>

namespace tenon::programs {
namespace {

TENON_PROGRAM(WritesBetweenOperations, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = zeros({2}), sum = x;
    float* p = y.data_ptr<float>();
    for (int i = 1; i <= 3; ++i) {
      p[0] = float(i);
      p[1] = float(10 * i);
      sum = sum + y;
    }
    return sum;
  });
  for (int i = 0; i < 4; ++i) run.log(f(row({1, float(i)})));
}

TENON_PROGRAM(AnAddressOfAResultOfTheBody, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 2.0;
    y.data_ptr<float>()[0] += 100;
    Tensor z = y + 1.0;
    y.data_ptr<float>()[1] = -1;
    return std::pair(y, z);
  });
  for (int i = 0; i < 4; ++i) {
    auto [y, z] = f(row({1, float(i)}));
    run.log(y, z);
  }
}

TENON_PROGRAM(AnAddressKeptOutsideOfTheBody, 2) {
  Tensor w = ones({2});
  float* p = w.data_ptr<float>();
  auto f = run.compile([&](const Tensor& x) { return x * w; });
  for (int i = 0; i < 6; ++i) {
    p[0] = float(i);
    run.log(f(row({1, 2})));
  }
}

TENON_PROGRAM(TheBodyWritesACapturedTensorThroughAnAddress, 4) {
  Tensor w = ones({2});
  auto f = run.compile([&](const Tensor& x) {
    Tensor before = w * x;
    w.data_ptr<float>()[0] = 8;
    Tensor after = w * x;
    w.data_ptr<float>()[0] = 1;
    return before + after;
  });
  for (int i = 0; i < 4; ++i) run.log(f(row({1, float(i)})), w);
}

TENON_PROGRAM(ATensorOverABufferOfTheBody, 4) {
  auto f = run.compile([](const Tensor& x, int n) {
    float buffer[2] = {float(n), 2};
    Tensor t = from_memory(buffer, {2}, Dtype::f32);
    Tensor y = x * t;
    buffer[0] = 100;
    return y + t;
  });
  for (int i = 0; i < 6; ++i) run.log(f(row({1, 4}), i));
}

TENON_PROGRAM(ABufferIsFilledAgainForEachTurn, 4) {
  auto f = run.compile([](const Tensor& x) {
    std::vector<float> buffer(2);
    Tensor sum = x;
    for (int turn = 0; turn < 3; ++turn) {
      std::fill(buffer.begin(), buffer.end(), float(turn + 1));
      sum = sum * 0.5 + from_memory(buffer.data(), {2}, Dtype::f32);
    }
    return sum;
  });
  for (int i = 0; i < 4; ++i) run.log(f(row({8, float(i)})));
}

TENON_PROGRAM(WeightsInMemoryOfTheProgram, 2) {
  std::vector<float> memory(8 * 8, 1);
  Tensor w = from_memory(memory.data(), {8, 8}, Dtype::f32);
  auto f = run.compile([&](const Tensor& x) { return linear(x, w); });
  for (int i = 0; i < 8; ++i) {
    std::fill(memory.begin(), memory.end(), float(i));
    w.mul_(1.0);  // what the documentation asks for: an op that writes
    run.log(f(ones({2, 8})).sum());
  }
}

TENON_PROGRAM(ElementsGoOutAndComeBack, 4) {
  auto f = run.compile([](const Tensor& x) {
    std::vector<float> values = (x * 2.0).to_vector<float>();
    std::sort(values.begin(), values.end());
    return tensor(values) + x;
  });
  for (int i = 0; i < 6; ++i) run.log(f(row({float(i), 3, 1})));
}

TENON_PROGRAM(TheBodyFillsItsArgument, 3) {
  auto f = run.compile([](const Tensor& x, float value) {
    float values[2] = {value, value + 1};
    std::memcpy(x.data_ptr<float>(), values, sizeof values);
    return x * 2.0;
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = ones({2});
    run.log(f(x, float(i)), x);
  }
}

TENON_PROGRAM(AnAddressOutlivesTheBody, 3) {
  float* p = nullptr;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2.0;
    p = y.data_ptr<float>();
    return y;
  });
  for (int i = 0; i < 4; ++i) {
    Tensor y = f(row({1, float(i)}));
    p[0] = float(10 * i);
    run.log(y);
  }
}

TENON_PROGRAM(TwoTensorsOverOneBuffer, 8) {
  std::vector<float> memory{1, 2};
  Tensor a = from_memory(memory.data(), {2}, Dtype::f32);
  Tensor b = from_memory(memory.data(), {2}, Dtype::f32);
  auto f = run.compile([&](const Tensor& x) {
    a.add_(x);
    Tensor y = b * 2.0;
    b.mul_(0.5);
    return y + a;
  });
  for (int i = 0; i < 4; ++i) run.log(f(row({4, float(i)})), memory);
}

TENON_PROGRAM(TwoTensorsThatComeToLieInOneBuffer, 12) {
  std::vector<float> memory{1, 2, 3, 4};
  auto part = [&](int64_t begin) { return from_memory(memory.data() + begin, {2}, Dtype::f32); };
  Tensor a = part(0), b = part(2);
  auto f = run.compile([&](const Tensor& x) {
    a.add_(x);
    Tensor y = b * 2.0;
    b.mul_(0.5);
    return y + a;
  });
  for (int i = 0; i < 3; ++i) run.log(f(row({4, float(i)})), memory);
  for (int64_t begin : {1, 0, 2, 1}) {
    b = part(begin);
    for (int i = 0; i < 2; ++i) run.log(f(row({4, float(i)})), memory);
  }
}

TENON_PROGRAM(TwoArgumentsInOneBuffer, 12) {
  std::vector<float> memory{1, 2, 3, 4};
  auto part = [&](int64_t begin) { return from_memory(memory.data() + begin, {2}, Dtype::f32); };
  auto f = run.compile([](const Tensor& a, const Tensor& b) {
    a.mul_(2.0);
    b.add_(a.sum());
    return a * b;
  });
  for (int64_t begin : {2, 1, 0, 2}) run.log(f(part(0), part(begin)), memory);
}

TENON_PROGRAM(TwoTensorsOverOneBufferInTheBody, 12) {
  auto f = run.compile([](const Tensor& x) {
    float memory[2] = {1, 2};
    Tensor a = from_memory(memory, {2}, Dtype::f32), b = from_memory(memory, {2}, Dtype::f32);
    a.add_(x);
    Tensor y = b * 2.0;
    b.mul_(0.5);
    return y + a * 1.0;
  });
  for (int i = 0; i < 3; ++i) run.log(f(row({4, float(i)})));
}

TENON_PROGRAM(ATensorOverTheMemoryOfAnArgument, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor same = from_memory(x.data_ptr<float>(), {2}, Dtype::f32);
    same.add_(1.0);
    Tensor y = x * 2.0;
    x.zero_();
    return y + same;
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = row({4, float(i)});
    run.log(f(x), x);
  }
}

TENON_PROGRAM(TheBodyWritesIntoMemoryOfTheProgram, 4) {
  std::vector<float> out(4);
  auto f = run.compile([&](const Tensor& x) {
    Tensor view = from_memory(out.data(), {4}, Dtype::f32);
    view.slice(0, 0, 2).copy_(x * 2.0);
    out[3] = out[0] + 1;
    view.select(0, 2).fill_(8.0);
  });
  for (int i = 0; i < 4; ++i) {
    f(row({float(i), 1}));
    run.log(out);
  }
}

TENON_PROGRAM(TheBodySeeds, 4) {
  auto f = run.compile([](const Tensor& x) {
    manual_seed(3);
    return x + randint(0, 64, {2}).to(Dtype::f32);
  });
  for (int i = 0; i < 5; ++i) run.log(f(zeros({2})), randint(0, 1024, {}));
}

TENON_PROGRAM(TheBodyGoesBackInTheStreamOfNumbers, 5) {
  auto f = run.compile([](const Tensor& x) {
    RngState begin = rng_state();
    Tensor first = randint(0, 64, {2});
    set_rng_state(begin);
    Tensor again = randint(0, 64, {2});
    return x + (first - again).to(Dtype::f32) + again.to(Dtype::f32) * 100.0;
  });
  for (int i = 0; i < 5; ++i) run.log(f(zeros({2})), int64_t(rng_state().offset));
}

TENON_PROGRAM(SeedsThatChangeFromCallToCall, 4) {
  uint64_t seed = 1;
  auto f = run.compile([&](const Tensor& x) {
    Tensor noise = randint(0, 64, {2});
    manual_seed(seed);
    return x + noise + randint(0, 64, {2}) * 100;
  });
  for (int i = 0; i < 6; ++i, seed = seed * 5 % 7) run.log(f(zeros({2})));
}

TENON_PROGRAM(AnAddressInEachTurn, 7) {
  auto f = run.compile([](Tensor x) {
    float total = 0;
    for (int turn = 0; turn < 5; ++turn) {
      x = x * 0.5 + 1.0;
      float* p = x.data_ptr<float>();
      total += p[0];
      p[1] += float(turn);
    }
    return std::pair(x, total);
  });
  for (int i = 0; i < 6; ++i) {
    auto [x, total] = f(row({float(i), 2}));
    run.log(x, total);
  }
  run.log(f.is_followed());
}

TENON_PROGRAM(AnAddressNowAndThen, 9) {
  auto f = run.compile([](const Tensor& x, int n) {
    Tensor y = x * 2.0;
    if (n % 2) y.data_ptr<float>()[0] = 9;
    Tensor z = y + x;
    if (n % 4 == 3) y.data_ptr<float>()[1] = -9;
    return std::tuple(y, z, y * z);
  });
  for (int i = 0; i < 8; ++i) {
    auto [y, z, product] = f(row({1, float(i)}), i);
    run.log(y, z, product);
  }
  run.log(f.is_followed());
}

TENON_PROGRAM(ABufferOfTheBodyIsLentAgainAndAgain, 7) {
  auto f = run.compile([](const Tensor& x) {
    std::vector<float> buffer(2, 1);
    Tensor sum = x;
    for (int turn = 0; turn < 3; ++turn) {
      Tensor view = from_memory(buffer.data(), {2}, Dtype::f32);
      sum = sum + view;
      buffer[0] = float(turn);
      view.add_(sum);
      buffer[1] *= 0.5f;
    }
    return std::pair(sum, row({buffer[0], buffer[1]}));
  });
  for (int i = 0; i < 6; ++i) {
    auto [sum, buffer] = f(row({float(i), 2}));
    run.log(sum, buffer);
  }
  run.log(f.is_followed());
}

TENON_PROGRAM(ABufferIsLentAgainBehindARead, 3) {
  std::vector<float> buffer{1, 2};
  Tensor lent = from_memory(buffer.data(), {2}, Dtype::f32);
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = lent * 2.0;
    Tensor again = from_memory(buffer.data(), {2}, Dtype::f32);
    buffer[1] += 8;
    return y + x;
  });
  for (int i = 0; i < 5; ++i) run.log(f(row({1, float(i)})));
  run.log(f.is_followed());
}

TENON_PROGRAM(ABufferIsLentAgainBehindAWrite, 4) {
  std::vector<float> buffer{1, 2};
  Tensor lent = from_memory(buffer.data(), {2}, Dtype::f32);
  auto f = run.compile([&](const Tensor& x) {
    lent.mul_(0.5);
    Tensor again = from_memory(buffer.data(), {2}, Dtype::f32);
    buffer[1] = 8;
    again.add_(1.0);
    return lent + x;
  });
  for (int i = 0; i < 5; ++i) run.log(f(row({1, float(i)})), buffer);
}

TENON_PROGRAM(APartOfAnArgumentsBufferIsLentNowAndThen, 6) {
  std::vector<float> buffer{1, 2, 3};
  auto f = run.compile([&](const Tensor& x, const Tensor& t, int n) {
    Tensor y = t.slice(0, 0, 2) * 2.0;
    if (n % 2 == 0) {
      Tensor part = from_memory(buffer.data() + 1, {2}, Dtype::f32);
      buffer[1] += 8;
    }
    return y + x;
  });
  Tensor lent = from_memory(buffer.data(), {3}, Dtype::f32);
  for (int i = 0; i < 6; ++i) run.log(f(row({1, float(i)}), lent, i));
  run.log(f.is_followed());
}

TENON_PROGRAM(ANumberOfALentBufferIsReadLate, 4) {
  float value = 1;
  Tensor lent = from_memory(&value, {}, Dtype::f32);
  auto f = run.compile([&](const Tensor& x, const Tensor& t) {
    Scalar<float> read = t.item<float>();
    Tensor y = x * 2.0;
    Tensor again = from_memory(&value, {}, Dtype::f32);
    value += 8;
    return y + read.value();
  });
  for (int i = 0; i < 5; ++i) run.log(f(row({1, float(i)}), lent));
  run.log(f.is_followed());
}

TENON_PROGRAM(AnElementIsReadBeforeTheProgramWritesIt, 4) {
  std::vector<float> buffer{1, 2};
  Tensor lent = from_memory(buffer.data(), {2}, Dtype::f32);
  auto f = run.compile([&](const Tensor& x, const Tensor& t) {
    Tensor again = from_memory(buffer.data(), {2}, Dtype::f32);
    Scalar<float> read = t.select(0, 1).item<float>();
    buffer[1] += 8;
    return x + read.value();
  });
  for (int i = 0; i < 5; ++i) run.log(f(row({1, float(i)}), lent));
  run.log(f.is_followed());
}

TENON_PROGRAM(ABufferThatNobodyHasUsedIsLentBesideOthers, 1) {
  std::vector<float> buffer{1, 2}, other{1, 2};
  Tensor lent = from_memory(buffer.data(), {2}, Dtype::f32);
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = lent * 2.0;
    Tensor beside = from_memory(other.data(), {2}, Dtype::f32);
    other[1] += 8;
    return y + x;
  });
  for (int i = 0; i < 5; ++i) run.log(f(row({1, float(i)})));
  run.log(f.is_followed());
}
TENON_PROGRAM_IN_ONE_GRAPH(ABufferThatNobodyHasUsedIsLentBesideOthers, 1);

}  // namespace
}  // namespace tenon::programs
