// Bodies that change what smart pointers and spans among their arguments point to: the caller's
// objects are changed, as by a plain call.
#include "program.h"

#include <span>

namespace tenon::programs {
namespace {

struct Cell {
  Tensor hidden;
  int steps = 0;
  std::string label;
};
using SharedCell = std::shared_ptr<Cell>;

TENON_PROGRAM(ACellThatTheBodyMovesOn, 2) {
  Tensor w = row({0.5, 2});
  auto step = run.compile([&](const Tensor& x, const SharedCell& cell) {
    cell->hidden = (cell->hidden * w + x).relu();
    ++cell->steps;
    cell->label += "s";
    return cell->hidden.sum();
  });
  auto cell = std::make_shared<Cell>(Cell{zeros({2}), 0, ""});
  for (int i = 0; i < 6; ++i)
    run.log(step(row({1, float(i)}), cell), cell->hidden, cell->steps, cell->label,
            cell->hidden.is_fake(), cell.use_count());
}

TENON_PROGRAM(ACellThatNeedsAGradient, 2) {
  Tensor w = row({0.5, 2}).requires_grad_();
  auto step = run.compile(
      [&](const Tensor& x, const SharedCell& cell) { cell->hidden = cell->hidden * w + x; });
  for (int i = 0; i < 3; ++i) {
    auto cell = std::make_shared<Cell>(Cell{ones({2})});
    for (int k = 0; k < 3; ++k) step(row({1, float(k)}), cell);
    w.set_grad({});
    cell->hidden.sum().backward();
    run.log(cell->hidden, w.grad());
  }
}

TENON_PROGRAM(AssigningOnSomeCallsOnly, 3) {
  auto f = run.compile([](const Tensor& x, const SharedCell& best) {
    Tensor score = x.sum();
    if (score.item<float>() > best->hidden.item<float>()) best->hidden = score;
    return score * 2.0;
  });
  auto best = std::make_shared<Cell>(Cell{row({0}).sum()});
  for (float v : {1.f, 3.f, 2.f, 5.f, 4.f, 4.f, 6.f}) run.log(f(row({v}), best), best->hidden);
}

TENON_PROGRAM(OneObjectTwiceAmongTheArguments, 2) {
  auto f = run.compile([](const SharedCell& a, const SharedCell& b, const Tensor& x) {
    a->hidden = a->hidden + x;
    return b->hidden * 2.0;
  });
  auto p = std::make_shared<Cell>(Cell{zeros({2})}), q = std::make_shared<Cell>(Cell{ones({2})});
  for (int i = 0; i < 3; ++i) run.log(f(p, p, row({1, 2})), p->hidden);
  for (int i = 0; i < 3; ++i) run.log(f(p, q, row({1, 2})), p->hidden, q->hidden);
}

struct Chain {
  Tensor value;
  std::shared_ptr<Chain> next;
};

TENON_PROGRAM(ObjectsBehindObjects, 2) {
  auto f = run.compile([](const std::shared_ptr<Chain>& head, const Tensor& x) {
    head->next->value = head->value + x;
    head->value = head->next->value * 2.0;
  });
  auto tail = std::make_shared<Chain>(Chain{ones({2}), nullptr});
  auto head = std::make_shared<Chain>(Chain{zeros({2}), tail});
  for (int i = 0; i < 4; ++i) {
    f(head, row({1, float(i)}));
    run.log(head->value, tail->value, head->next == tail);
  }
}

TENON_PROGRAM(ElementsOfASpan, 2) {
  auto f = run.compile([](std::span<Tensor> layers, const Tensor& x) {
    Tensor h = x;
    for (Tensor& layer : layers) h = layer = layer * 0.5 + h;
    return h;
  });
  std::vector<Tensor> layers{ones({2}), zeros({2}), row({4, 8})};
  for (int i = 0; i < 4; ++i) run.log(f(layers, row({1, float(i)})), layers);
}

TENON_PROGRAM(AnObjectOfAUniquePointer, 2) {
  auto f = run.compile([](const std::unique_ptr<Cell>& cell, const Tensor& x) {
    cell->hidden = cell->hidden + x;
    cell->steps += 2;
    return cell->hidden.sum();
  });
  auto cell = std::make_unique<Cell>(Cell{zeros({2})});
  const Cell* place = cell.get();
  for (int i = 0; i < 4; ++i)
    run.log(f(cell, row({1, float(i)})), cell->hidden, cell->steps, cell.get() == place);
}

struct Cache {
  std::vector<Tensor> keys;
  std::optional<Tensor> last;
};

TENON_PROGRAM(ACacheThatTheBodyMakesLonger, 8) {
  auto f = run.compile([](const std::shared_ptr<Cache>& cache, const Tensor& x) {
    cache->keys.push_back(x * 2.0);
    cache->last = cache->keys.front() + x;
    return cache->keys.back().sum();
  });
  auto cache = std::make_shared<Cache>();
  for (int i = 0; i < 5; ++i) {
    Tensor y = f(cache, row({1, float(i)}));
    run.log(y, cache->keys, *cache->last);
  }
}

TENON_PROGRAM(AnArgumentOfItsOwnStaysItsOwn, 2) {
  auto f = run.compile([](Cell cell, const Tensor& x) {
    cell.hidden = cell.hidden + x;
    ++cell.steps;
    return cell;
  });
  Cell cell{zeros({2})};
  for (int i = 0; i < 4; ++i) {
    Cell made = f(cell, row({1, float(i)}));
    run.log(made.hidden, made.steps, cell.hidden, cell.steps);
  }
}

TENON_PROGRAM(AnExceptionLeavesTheCallersObject, 3) {
  auto f = run.compile([](const SharedCell& cell, const Tensor& x) {
    Tensor next = cell->hidden + x;
    if (next.sum().item<float>() > 6) throw std::runtime_error("too much");
    cell->hidden = next;
    return next.sum();
  });
  auto cell = std::make_shared<Cell>(Cell{zeros({2})});
  for (int i = 0; i < 5; ++i) {
    run.log_error([&] { run.log(f(cell, row({1, float(i)}))); });
    run.log(cell->hidden);
  }
}

TENON_PROGRAM(AnUnrecordedFunctionAssignsThroughAPointer, 4) {
  auto keep = disable([](const SharedCell& cell, const Tensor& x) {
    cell->hidden = x * double(x.sum().item<float>());
    ++cell->steps;
  });
  auto f = run.compile([&](const SharedCell& cell, const Tensor& x) {
    keep(cell, x + 1.0);
    return cell->hidden + x;
  });
  auto cell = std::make_shared<Cell>(Cell{zeros({2})});
  for (int i = 0; i < 4; ++i) run.log(f(cell, row({1, float(i)})), cell->hidden, cell->steps);
}

TENON_PROGRAM(WhatAPureBodyMayNotDo, 1) {
  auto f = run.compile(
      [](const SharedCell& cell, const Tensor& x) {
        cell->hidden = x * 2.0;
        return x;
      },
      {.pure = true});
  auto cell = std::make_shared<Cell>(Cell{zeros({2})});
  bool fails = false;
  try {
    f(cell, row({1, 2}));
  } catch (const UserError&) {
    fails = true;
  }
  run.log(fails != run.is_plain());
}

}  // namespace
}  // namespace tenon::programs
