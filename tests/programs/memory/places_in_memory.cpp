// Tensors that begin elsewhere in their memory from call to call, and bodies that look at memory by
// place or change how much of it a tensor has.
#include "program.h"

namespace tenon::programs {
namespace {

Tensor steps(int64_t n, int i = 0) { return ((arange(n) * (2 * i + 3)) % 7 - 3) * 0.5; }

TENON_PROGRAM(ElementsByTheirPlaceInTheMemory, 24) {
  Tensor memory = steps(40);
  auto read = run.compile([](const Tensor& x) {
    Tensor own = x.as_strided({2, 2}, {3, 1}), third = x.as_strided({2}, {2}, 3);
    return std::tuple(own * 2.0, third + 1.0, x.sum());
  });
  auto write = run.compile([](const Tensor& x) {
    x.as_strided({2, 2}, {3, 1}).mul_(2.0);
    x.as_strided({2}, {2}, 3).add_(1.0);
    return x * 1.0;
  });
  auto give = run.compile([](const Tensor& x) {
    Tensor rest = x.slice(0, 1);
    return std::pair(rest.as_strided({2}, {2}), rest.as_strided({2}, {2}, 0));
  });
  for (int i = 0; i < 8; ++i) {
    int64_t first = i * 2 % 7;
    Tensor x = memory.slice(0, first, first + 8 + i % 2);
    auto [own, third, sum] = read(x);
    run.log(own, third, sum, write(x));
    auto [second, begin] = give(x);
    second.add_(1.0);
    run.log(second, begin, memory);
    memory.mul_(0.5);
  }
}

TENON_PROGRAM(ACapturedTensorThatIsReadByPlace, 16) {
  Tensor memory = steps(40), window = memory.slice(0, 0, 8);
  auto f = run.compile([&](const Tensor& x) {
    window.slice(0, 2, 5).add_(x);
    Tensor begin = window.as_strided({3}, {2}, 1);
    begin.mul_(2.0);
    return begin + window.as_strided({3}, {2}) * x;
  });
  for (int i = 0; i < 8; ++i) {
    window = memory.slice(0, i % 4 * 3, i % 4 * 3 + 8);
    run.log(f(steps(3, i)), memory);
    memory.mul_(0.5);
  }
}

TENON_PROGRAM(ItsOwnStridesAreSetByPlace, 16) {
  Tensor memory = steps(24);
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x.detach();
    y.as_strided_({2, 2}, {2, 1}, 5);
    y.mul_(2.0);
    return std::pair(y.sum(0), x + 1.0);
  });
  for (int i = 0; i < 6; ++i) {
    auto [sums, next] = f(memory.slice(0, i, i + 6));
    run.log(sums, next, memory);
    memory.mul_(0.5);
  }
}

// Of what lies around the tensor in its memory, some is written, and read behind a write to the tensor.
TENON_PROGRAM(ElementsAroundTheTensor, 16) {
  Tensor memory = steps(24);
  auto f = run.compile([](const Tensor& x, bool writes_around) {
    Tensor around = x.as_strided({2, 2}, {2, 1}, 5);
    x.mul_(2.0);
    if (writes_around) around.add_(1.0);
    return std::pair(around.sum(0), x.as_strided({4}, {3}) + 1.0);
  });
  for (int i = 0; i < 6; ++i) {
    auto [sums, far] = f(memory.slice(0, i % 3, i % 3 + 6), i % 2 == 1);
    run.log(sums, far, memory);
    memory.mul_(0.5);
  }
}

// What the body makes begins where it did when it was recorded.
TENON_PROGRAM(ViewsOfWhatTheBodyMakes, 8) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 2.0;
    return std::pair(y.as_strided({3}, {2}, 1), x.as_strided({2}, {1}, 1));
  });
  for (int i = 0; i < 4; ++i) {
    auto [y, part] = f(steps(6) + double(i));
    run.log(y, part);
  }
}

// It grows beyond its memory, or keeps some that it does not show.
TENON_PROGRAM(AnArgumentGetsOtherSizes, 12) {
  auto f = run.compile([](const Tensor& x, int64_t n) {
    Tensor y = x * 2.0;
    x.resize_({n, 2});
    x.fill_(double(n));
    return y.sum() + x.sum();
  });
  Tensor x = steps(6).reshape({3, 2});
  for (int64_t n : {3, 4, 2, 6, 1, 0, 5}) run.log(f(x, n), x);
}

TENON_PROGRAM(ABufferGrowsToWhatIsPutThere, 12) {
  Tensor buffer = zeros({0});
  auto f = run.compile([&](const Tensor& x) {
    buffer.resize_(x.sizes());
    buffer.copy_(x);
    buffer.mul_(2.0);
    return buffer.sum();
  });
  for (int64_t n : {3, 4, 2, 6, 1, 0, 5}) run.log(f(steps(2 * n).reshape({n, 2})), buffer);
}
TENON_PROGRAM_IN_ONE_GRAPH(ABufferGrowsToWhatIsPutThere, 12);

// A copy is read by place where its original may have been written by then.
TENON_PROGRAM(CopiesOfWhatIsWritten, 24) {
  auto turned = [](const Tensor& t) {
    SymInt n = t.size(0);
    return t.as_strided({n, n}, {1, n});
  };
  auto f = run.compile([&](const Tensor& x, const Tensor& y) {
    Tensor s = turned(y.clone());
    x.add_(7);
    return s;
  });
  auto g = run.compile([&](const Tensor& x) {
    Tensor y = x + 1.0;
    return std::pair(y, turned(y.clone()));
  });
  for (int n : {3, 2, 4, 5}) {
    Tensor memory = steps(n * n + n).reshape({n + 1, n});
    Tensor x = memory.slice(0, 0, n);
    for (const Tensor& y : {memory.slice(0, 1, n + 1), x.t(), x}) {
      Tensor s = f(x, y);
      s.add_(0.5);
      run.log(s, memory);
    }
    auto [y, s] = g(x);
    y.add_(1.0);
    run.log(y, s);
  }
}

// What is around one argument is another one, which is written.
TENON_PROGRAM(ElementsOfAnotherArgument, 24) {
  auto after = run.compile([](const Tensor& x, const Tensor& y) {
    y.fill_(7);
    return x.as_strided({4}, {1}) + 0.5;
  });
  auto before = run.compile([](const Tensor& x, const Tensor& y) {
    Tensor wide = x.as_strided({4}, {1});
    y.add_(1.0);
    return wide * 2.0;
  });
  auto copied = run.compile([](const Tensor& x, const Tensor& y) {
    y.mul_(2.0);
    return as_strided_copy(x, {4}, {1});
  });
  for (int i = 0; i < 4; ++i) {
    Tensor memory = steps(12, i).reshape({6, 2}), x = memory[0], y = memory[i % 3 + 1];
    run.log(after(x, y), before(x, y), copied(x, y), memory);
    Tensor apart = steps(2, i);
    run.log(after(x, apart), before(x, apart), copied(x, apart), memory);
  }
}

TENON_PROGRAM(ElementsOfACapturedTensor, 12) {
  Tensor memory = steps(12).reshape({6, 2}), first = memory[0], second = memory[1];
  auto f = run.compile([&](const Tensor& x) {
    second.add_(x);
    Tensor wide = first.as_strided({4}, {1}) + 0.5;
    second.mul_(2.0);
    return wide;
  });
  for (int i = 0; i < 3; ++i) run.log(f(steps(2, i)), memory);
}

// Between the columns of one argument lie those of another.
TENON_PROGRAM(ElementsBetweenTheColumns, 8) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    y.fill_(7);
    return x.as_strided({4}, {1}) + 0.5;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor memory = steps(24, i).reshape({6, 4});
    run.log(f(memory.slice(1, 0, 2), memory.slice(1, 2, 4)), memory);
  }
}

// A copy begins its memory, wherever what it copies lies in some other.
TENON_PROGRAM(CopiesBeginTheirMemory, 40) {
  const std::vector<std::function<Tensor(const Tensor&)>> bodies = {
      [](const Tensor& x) { return x.clone().as_strided({2}, {1}, 1) * 2.0; },
      [](const Tensor& x) { return x.clone().as_strided_copy({2}, {1}, 1) * 2.0; },
      [](const Tensor& x) { return x.to(Dtype::f32, false, true).as_strided({2}, {2}, 0) * 2.0; },
      [](const Tensor& x) {
        return x.view({2, 2}).clone().diagonal().as_strided({2}, {1}, 1) * 2.0;
      },
      [](const Tensor& x) { return x.clone().resize_({2}) * 2.0; },
      [](const Tensor& x) {
        Tensor copy = x.clone();
        copy.as_strided({2}, {2}, 0).zero_();
        return copy + x;
      },
  };
  for (bool fullgraph : {false, true})
    for (const auto& body : bodies) {
      auto f = run.compile(body, {.fullgraph = fullgraph});
      Tensor memory = steps(12);
      for (int64_t first : {0, 6, 3, 8}) run.log(f(memory.slice(0, first, first + 4)), memory);
    }
}

// A captured tensor lies elsewhere in each call, and the body lets go of it or holds it. Calls part,
// and each way has been recorded with another place.
TENON_PROGRAM(OffsetsBehindALook, 60) {
  for (bool lets_go : {true, false})
    for (bool turns : {false, true}) {
      std::vector<Tensor> pool;
      bool looks_by_place = false;
      auto f = run.compile([&](const Tensor& x) {
        Tensor whole = pool.back(), part = whole.slice(0, 1, 3);
        if (lets_go) pool.pop_back();
        whole = Tensor();
        if (part.sum().item<double>() > 1000.0) return std::vector<Tensor>{x};
        Tensor last = part.slice(0, 1, 2);
        if (looks_by_place && turns)
          last.as_strided_({2}, {1}, last.storage_offset() - 1);
        else if (looks_by_place)
          last = part.as_strided({2}, {1}, part.storage_offset());
        return std::vector{last * 2.0, x * double(int64_t(last.storage_offset())),
                           x * double(int64_t(part.storage_offset()))};
      });
      Tensor memory = steps(16);
      for (int64_t call = 0; call < 9; ++call) {
        looks_by_place = call > 2 && call != 6;
        int64_t first = call * 3 % 7;
        pool = {memory.slice(0, first, first + 5)};
        for (const Tensor& t : f(ones({2}))) run.log(t);
      }
    }
}

}  // namespace
}  // namespace tenon::programs
