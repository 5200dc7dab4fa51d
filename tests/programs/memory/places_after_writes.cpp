// Writes leave tensors lying as they did: what looks at memory by place, or goes by strides, finds
// the written elements where they were.
#include "program.h"

#include <functional>

namespace tenon::programs {
namespace {

using Body = std::function<Tensor(const Tensor&)>;

// On tensors that lie in several ways, with all of their memory.
void log_layouts(Run& run, const Body& body) {
  auto f = run.compile([&](const Tensor& x) { return body(x); });
  for (int i = 0; i < 5; ++i) {
    Tensor memory = halves({24}, i), rows = memory.view({4, 6});
    Tensor layouts[] = {rows, rows.t(), rows.slice(1, 0, 4), rows.slice(0, 1, 4),
                        memory.view({2, 3, 4}).permute({0, 2, 1})};
    run.log(f(layouts[i]), memory);
  }
}

// As an argument, and as a value of the body.
void log_writes(Run& run, const Body& write) {
  log_layouts(run, [&](const Tensor& x) {
    write(x);
    return (x * 2.0).as_strided({6}, {1}) + 0.5;
  });
  log_layouts(run, [&](const Tensor& x) {
    Tensor y = x + 1.0;
    write(y);
    return y.as_strided({6}, {1}) * 1.0;
  });
  log_layouts(run, [&](const Tensor& x) {
    Tensor y = x + 1.0;
    write(y.transpose(0, 1));
    return y.as_strided({6}, {1}) * 1.0;
  });
}

TENON_PROGRAM(SumsInPlaceKeepTheLayout, 40) {
  log_writes(run, [](const Tensor& x) { return x.cumsum_(0); });
}
TENON_PROGRAM(ProductsInPlaceKeepTheLayout, 40) {
  log_writes(run, [](const Tensor& x) { return x.cumprod_(1); });
}
TENON_PROGRAM(TrianglesInPlaceKeepTheLayout, 40) {
  log_writes(run, [](const Tensor& x) { return x.tril_().triu_(-1); });
}
TENON_PROGRAM(ScatteredElementsKeepTheLayout, 40) {
  log_writes(run, [](const Tensor& x) {
    return x.scatter_(0, zeros(x.sizes(), Dtype::i64).slice(0, 0, 1), 3.0);
  });
}
TENON_PROGRAM(NormsInPlaceKeepTheLayout, 40) {
  log_writes(run, [](const Tensor& x) { return x.renorm_(2.0, 0, 1.0); });
}
TENON_PROGRAM(CopiesOfOtherLayoutsKeepTheLayout, 40) {
  log_writes(run, [](const Tensor& x) { return x.copy_(x.contiguous() * 2.0); });
}
TENON_PROGRAM(RowsInPlaceKeepTheLayout, 40) {
  log_writes(run, [](const Tensor& x) { return x.select(0, 1).cumsum_(-1); });
}

TENON_PROGRAM(AWrittenTurnedMatrixAsARow, 16) {
  auto f = run.compile([](const Tensor& x) {
    x.transpose(0, 1).tril_();
    return x.view({-1});
  });
  auto g = run.compile([](const Tensor& x) {
    Tensor y = x + 1.0;
    y.t().addmm_(ones({2, 2}), ones({2, x.size(0)}));
    return y.view({-1}) * 1.0;
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = halves({3 + i, 2}, i), row = f(x);
    run.log(row, row.data() == x.data(), g(x));
  }
}

// `look` is called on views that were written just now.
void log_views(Run& run, const Body& look) {
  const Body views[] = {
      [](const Tensor& x) { return x.slice(0, 0, 8, 2); },
      [](const Tensor& x) { return x.slice(0, 2, 8); },
      [](const Tensor& x) {
        return x.view({3, 4}).diagonal();
      },
      [](const Tensor& x) {
        return x.view({3, 4}).select(1, 1);
      },
      [](const Tensor& x) {
        return x.view({4, 3}).t();
      },
  };
  for (const Body& view : views) {
    auto f = run.compile([&](const Tensor& x) {
      Tensor y = view(x);
      y.add_(100.0);
      return std::pair(look(y), y);
    });
    auto own = run.compile([&](const Tensor& x) {
      Tensor z = x * 2.0, y = view(z);
      y.mul_(3.0);
      Tensor seen = look(y);
      return seen * seen + (z * z).sum();
    });
    for (int i = 0; i < 2; ++i) {
      Tensor x = arange(12, Dtype::f32) * (0.5 * (i + 1)), w = x.clone().requires_grad_();
      auto [seen, y] = f(x);
      Tensor sum = own(w).sum();
      sum.backward();
      run.log(seen, y, x, sum.detach(), w.grad());
    }
  }
}

TENON_PROGRAM(WrittenViewsByPlace, 40) {
  log_views(run, [](const Tensor& y) { return y.as_strided({2}, {1}) * 1.0; });
}
TENON_PROGRAM(WrittenViewsByPlaceFromTheBeginning, 40) {
  log_views(run, [](const Tensor& y) { return y.as_strided({2, 2}, {3, 1}, 0) * 1.0; });
}
TENON_PROGRAM(WrittenViewsCopiedByPlace, 40) {
  log_views(run, [](const Tensor& y) { return as_strided_copy(y, {2}, {1}); });
}
TENON_PROGRAM(WrittenViewsWithAPartReplaced, 40) {
  log_views(run, [](const Tensor& y) { return y.as_strided_scatter(ones({1}) * 7.0, {1}, {1}); });
}
TENON_PROGRAM(WrittenViewsAreWrittenByPlace, 40) {
  log_views(run, [](const Tensor& y) { return y.as_strided({2}, {1}).mul_(3.0) * 1.0; });
}

// To the tape, what is written by place is a part of all of the memory.
TENON_PROGRAM(GradientsOfWhatIsWrittenByPlace, 8) {
  auto f = run.compile([](const Tensor& x) {
    Tensor z = x * 2.0, v = z.slice(0, 0, 8, 2).as_strided({4}, {1}).slice(0, 1, 3);
    v.mul_(3.0);
    return z * z;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = halves({8 + i}, i).requires_grad_();
    f(x).sum().backward();
    run.log(x.grad());
  }
}

TENON_PROGRAM(AWrittenViewIsResized, 8) {
  auto within = run.compile([](const Tensor& x) {
    Tensor s = x.select(0, 1);
    s.neg_();
    s.resize_({1, 2});
    return s.fill_(9.0) * 1.0;
  });
  auto beyond = run.compile([](const Tensor& x) {
    Tensor s = x.select(0, -1);
    s.neg_();
    s.resize_({1, 2});
    return s.fill_(9.0);
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = halves({3}, i), y = halves({3}, i + 1);
    run.log(within(x), x);
    Tensor own = beyond(y);
    y.zero_();
    run.log(own, y);
  }
}

// Places count from the beginning of what the arguments lie in.
TENON_PROGRAM(PlacesInSharedMemory, 24) {
  auto read = run.compile([](const Tensor& x, const Tensor& y) {
    y.zero_();
    return std::pair(x.as_strided({2}, {1}, 3) * 1.0, y.as_strided({2}, {1}, 3) * 1.0);
  });
  auto write = run.compile([](const Tensor& x, const Tensor& y) {
    Tensor v = x.slice(0, 1, 3);
    v.fill_(-3.0);
    v.as_strided({2}, {1}, 4).add_(10.0);
    v.as_strided({2}, {1}).add_(1.0);
    return y * 1.0;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor memory = arange(12, Dtype::f32);
    auto [first, second] = read(memory.slice(0, i, i + 5), memory.slice(0, i + 2, i + 7));
    run.log(first, second, memory);
    memory.copy_(arange(12));
    run.log(write(memory.slice(0, i, i + 5), memory.slice(0, i + 2, i + 7)), memory);
  }
}

// What lies between and before the elements of an argument is not written with it.
TENON_PROGRAM(PlacesBesideAWrittenArgument, 16) {
  auto f = run.compile([](const Tensor& x) {
    x.add_(1.0);
    return x.as_strided({4}, {1}) * 1.0;
  });
  auto g = run.compile([](const Tensor& x) {
    x.add_(1.0);
    return x.as_strided({4}, {1}, 0) * 1.0;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor memory = halves({12}, i);
    run.log(f(memory.view({4, 3}).slice(1, 0, 2)), g(memory.slice(0, 3)), memory);
  }
}

TENON_PROGRAM(NoElementsInOneMemory, 8) {
  Tensor cell = zeros({2, 0});
  auto copies = run.compile([](const Tensor&, const Tensor& y) {
    Tensor z = y.to(Dtype::f32);
    return z.copy_(y);
  });
  auto fills = run.compile([&](const Tensor& x) {
    dropout(cell, 0.0, true);
    cell.fill_(1.0);
    return x;
  });
  for (int i = 0; i < 2; ++i) {
    Tensor x = zeros({0, 3});
    run.log(copies(x, x.alias()), fills(cell.detach()));
  }
}

}  // namespace
}  // namespace tenon::programs
