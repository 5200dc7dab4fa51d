// Tensors whose elements share memory: views of them with gradients, and writes through parts of
// them.
#include "program.h"

#include <functional>

namespace tenon::programs {
namespace {

Tensor weights_of(const Tensor& y) { return arange(y.numel()).reshape(y.sizes()) * 0.5; }

// One row as n of them; each has a gradient of its own.
Tensor rows(int64_t n) { return row({1, 2}).expand({n, 2}).detach().requires_grad_(); }

template <class F>
void log_gradients(Run& run, const F& f, std::vector<int> sizes) {
  for (int n : sizes) {
    Tensor x = rows(n), y = f(x);
    (y * weights_of(y)).sum().backward();
    run.log(y.detach(), x.grad(), y.data() == x.data());
  }
}

TENON_PROGRAM(AllRowsButOne, 4) {
  auto f = run.compile([](const Tensor& x) { return x.slice(0, 0, x.size(0) - 1); });
  log_gradients(run, f, {3, 4, 5, 6});
}
TENON_PROGRAM_IN_ONE_GRAPH(AllRowsButOne, 4);

TENON_PROGRAM(OneOfSeveralChunks, 8) {
  auto chunk = run.compile([](const Tensor& x) { return x.chunk(2, 0)[1]; });
  auto split = run.compile([](const Tensor& x) { return x.split(2, 0)[0]; });
  log_gradients(run, chunk, {4, 6, 8});
  log_gradients(run, split, {4, 6, 8});
}
TENON_PROGRAM_IN_ONE_GRAPH(OneOfSeveralChunks, 8);

TENON_PROGRAM(OtherShapesOfRows, 16) {
  auto turned = run.compile([](const Tensor& x) { return x.numpy_T(); });
  auto folded = run.compile([](const Tensor& x) { return x.unsqueeze(0).flatten(0, 1); });
  auto last = run.compile([](const Tensor& x) { return x[x.size(0) - 1]; });
  auto picked = run.compile([](const Tensor& x) { return x.select(1, 1).unsqueeze(-1); });
  log_gradients(run, turned, {2, 3, 4});
  log_gradients(run, folded, {2, 3, 4});
  log_gradients(run, last, {2, 3, 4});
  log_gradients(run, picked, {2, 3, 4});
}
TENON_PROGRAM_IN_ONE_GRAPH(OtherShapesOfRows, 16);

TENON_PROGRAM(ShapesOfOtherTensors, 12) {
  Tensor like = ones({4, 2, 2});
  auto expanded = run.compile([&](const Tensor& x) { return x.unsqueeze(1).expand_as(like); });
  auto viewed = run.compile([](const Tensor& x) { return x.unsqueeze(0).view_as(x); });
  auto spread = run.compile([&](const Tensor& x) {
    return broadcast_tensors({x.unsqueeze(1), like})[0];
  });
  log_gradients(run, expanded, {4, 4});
  log_gradients(run, viewed, {2, 3, 4});
  log_gradients(run, spread, {4, 4});
}

TENON_PROGRAM(ViewsOfListsOfRows, 8) {
  auto f = run.compile([](const Tensor& x) {
    return meshgrid({x.select(1, 0), ones({3})}, "ij")[0];
  });
  auto g = run.compile([](const Tensor& x) { return atleast_3d({x, x})[0]; });
  log_gradients(run, f, {2, 2});
  log_gradients(run, g, {2, 2});
}

TENON_PROGRAM(WindowsThatOverlap, 12) {
  auto f = run.compile([](const Tensor& x) { return x.slice(0, 1); });
  for (int i = 0; i < 4; ++i) {
    Tensor x = (arange(8) * 0.5).as_strided({3 + i, 2}, {1, 1}).detach().requires_grad_();
    Tensor y = f(x);
    (y * weights_of(y)).sum().backward();
    run.log(y.detach(), x.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(WindowsThatOverlap, 12);

// What one part of such a view is given, the others show too.
TENON_PROGRAM(APartOfOverlappingWindowsIsWritten, 16) {
  auto first = run.compile([](const Tensor& x) {
    Tensor w = x.as_strided({2, 2}, {1, 1});
    w.select(0, 0).fill_(7);
    return w.clone();
  });
  auto own = run.compile([](const Tensor& x) {
    Tensor y = x * 2, w = y.as_strided({3, 2}, {2, 2});
    w.select(1, 1).mul_(3);
    w[0].add_(1);
    return std::pair(y, w * 1);
  });
  auto sized = run.compile([](const Tensor& x) {
    Tensor w = x.as_strided({x.size(0) - 1, 2}, {1, 1});
    w.select(1, 0).mul_(2);
    return w + 0;
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = arange(10) + i;
    run.log(first(x), x);
    auto [y, w] = own(x);
    run.log(y, w);
    Tensor z = arange(4 + i) * 0.5;
    run.log(sized(z), z);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(APartOfOverlappingWindowsIsWritten, 16);

// That the sizes of two tensors over one memory are equal is known in the first segment; the second one
// has only one of them.
TENON_PROGRAM(EqualSizesOfViewsReachLaterSegments, 8) {
  Tensor turned = halves({2, 3}).t(), handle = halves({2, 3}, 1);
  auto f = run.compile([&](const Tensor&, const Tensor&, int64_t n) {
    Tensor first = handle.slice(0, 0, n);
    first.mul_(0.5);
    { NoCompile here; }
    first.alias().add_(1.0);
  });
  f(halves({2, 3}), halves({2, 3}), 2);
  run.log(handle);
  handle = turned.detach();
  for (int i = 0; i < 3; ++i) {
    f(halves({4 + i, 3}), turned, 4 - i);
    run.log(handle, turned);
  }
}

// Which of several elements in one place a write means, plain code decides, or refuses.
TENON_PROGRAM(ElementsOfOneMemoryBesideAnotherArgument, 24) {
  auto add = run.compile([](const Tensor& x, const Tensor&) { return x.add_(1.0); });
  auto fill = run.compile([](const Tensor& x, const Tensor&) {
    x.fill_diagonal_(9.0);
    return x * 1.0;
  });
  auto part = run.compile([](const Tensor& x, const Tensor& y) {
    x.diagonal().mul_(2.0);
    return x + y;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor memory = halves({3}, i), rows = memory.unsqueeze(0).expand({3, 3});
    run.log_error([&] { add(memory.as_strided({2, 2}, {1, 1}), memory); });
    run.log_error([&] { add(rows, memory); });
    run.log(memory);
    run.log(fill(rows, rows.detach()), memory);
    run.log(part(rows, memory), memory);
  }
}

// A plain run refuses them, whoever reads what they write.
TENON_PROGRAM(WritesToElementsOfOnePlaceAreRefusedUnread, 24) {
  using Write = void (*)(const Tensor&);
  for (Write write :
       {Write([](const Tensor& t) { t.copy_(ones({3})); }),
        Write([](const Tensor& t) { t.mul_(2.0); }), Write([](const Tensor& t) { t.cumsum_(0); }),
        Write([](const Tensor& t) { t.masked_fill_(t > 0, 1.0); }),
        Write([](const Tensor& t) { t.zero_(); })}) {
    auto unread = run.compile([write](const Tensor& x) {
      write((x * 2).expand({4, 3}));
      return x + 1;
    });
    auto read = run.compile([write](const Tensor& x) {
      Tensor steps = (x * 2).as_strided({2, 2}, {1, 1});
      write(steps.narrow(1, 0, 1).expand({2, 3}));
      return steps + 1;
    });
    for (int i = 0; i < 3; ++i) {
      run.log_error([&] { run.log(unread(halves({3}, i))); });
      run.log_error([&] { run.log(read(halves({3}, i))); });
    }
  }
}

}  // namespace
}  // namespace tenon::programs
