// Regions that bodies call many times: nested_compile_region().
#include "program.h"

#include <tenon/compiler.h>
#include <tenon/nested_region.h>

namespace tenon::programs {
namespace {

struct Layer {
  Tensor w, b;
};
std::vector<Layer> layers_of(int n, bool with_gradients = false) {
  std::vector<Layer> layers;
  for (int i = 0; i < n; ++i) {
    Tensor w = full({2, 2}, 0.5 + 0.25 * (i % 3)), b = full({2}, 0.5 - i % 2);
    if (with_gradients) w.requires_grad_(), b.requires_grad_();
    layers.push_back({w, b});
  }
  return layers;
}
void log_and_drop_gradients(Run& run, std::vector<Layer>& layers) {
  for (Layer& l : layers) {
    run.log(l.w.grad(), l.b.grad());
    l.w.set_grad({}), l.b.set_grad({});
  }
}
constexpr auto forward = [](const Layer& l, const Tensor& x) {
  return (x.matmul(l.w) + l.b).relu();
};

TENON_PROGRAM(TwelveLayersAreCompiledOnce, 1) {
  std::vector<Layer> layers = layers_of(12);
  auto layer = nested_compile_region(forward);
  auto f = run.compile([&](Tensor x) {
    for (const Layer& l : layers) x = layer(l, x);
    return x;
  });
  for (int i = 0; i < 4; ++i) run.log(f(full({2, 2}, 0.25 * i)));
  layers[3].w = full({2, 2}, -1.0);  // another tensor, the same facts
  run.log(f(ones({2, 2})));
  layers.pop_back();
  run.log(f(ones({2, 2})));
  std::swap(layers[0], layers[1]);
  run.log(f(ones({2, 2})));
}

TENON_PROGRAM(WhatStandsBetweenRegionsIsCompiledToo, 3) {
  std::vector<Layer> layers = layers_of(6);
  auto layer = nested_compile_region(forward);
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * 2.0, sum = x;
    for (const Layer& l : layers) {
      h = layer(l, h);
      sum = sum + h * 0.5;
    }
    return std::pair{h, sum};
  });
  for (int i = 0; i < 4; ++i) {
    auto [h, sum] = f(full({2, 2}, 0.25 * i));
    run.log(h, sum);
  }
}

// Numbers are part of the code until they have had another value at their place of the body.
TENON_PROGRAM(NumbersDifferFromRegionToRegion, 10) {
  double scale = 1;
  auto layer = nested_compile_region([&](const Tensor& x, double k) { return x * k + scale; });
  auto f = run.compile([&](Tensor x) {
    for (int i = 1; i <= 5; ++i) x = layer(x, 0.5 * i);
    return x;
  });
  for (int i = 0; i < 6; ++i) {
    scale = 0.25 * (i % 4);
    run.log(f(full({2}, double(i))));
  }
}

TENON_PROGRAM(ShapesTakeTurns, 6) {
  std::vector<Layer> layers = layers_of(5);
  auto layer = nested_compile_region(forward);
  auto f = run.compile([&](Tensor x) {
    for (const Layer& l : layers) x = layer(l, x);
    return x.sum();
  });
  for (int64_t n : {2, 3, 2, 5, 7, 3, 1, 4}) run.log(f(full({n, 2}, 0.25)));
}

TENON_PROGRAM(LayersAreTrained, 8) {
  std::vector<Layer> layers = layers_of(6, true);
  auto layer = nested_compile_region(forward);
  auto f = run.compile([&](Tensor x) {
    for (const Layer& l : layers) x = layer(l, x);
    return (x * 0.125).sum();
  });
  for (int i = 0; i < 4; ++i) {
    Tensor loss = f(full({2, 2}, 0.125 * (i + 1)));
    loss.backward();
    run.log(loss);
    NoGradGuard updates;
    for (Layer& l : layers) {
      run.log(l.w.grad(), l.b.grad());
      for (Tensor* p : {&l.w, &l.b}) {
        p->sub_(p->grad() * 0.0625);
        p->set_grad({});
      }
    }
  }
}

// In a whole step a region is a part of it, or of what the backward pass cuts off.
TENON_PROGRAM(RegionsInWholeSteps, 12) {
  std::vector<Layer> layers = layers_of(3, true);
  auto layer = nested_compile_region(forward);
  for (bool fullgraph : {false, true}) {
    auto step = run.compile(
        [&](Tensor x) {
          for (const Layer& l : layers) x = layer(l, x);
          Tensor loss = (x * 0.125).sum();
          loss.backward();
          return loss.detach();
        },
        {.fullgraph = fullgraph});
    for (int i = 0; i < 3; ++i) {
      run.log(step(full({2, 2}, 0.125 * (i + 1))));
      log_and_drop_gradients(run, layers);
    }
  }
}

TENON_PROGRAM(RegionsInOneGraph, 1) {
  std::vector<Layer> layers = layers_of(4);
  auto layer = nested_compile_region(forward);
  auto f = run.compile(
      [&](Tensor x) {
        for (const Layer& l : layers) x = layer(l, x);
        return x;
      },
      {.fullgraph = true});
  for (int i = 0; i < 4; ++i) run.log(f(full({2, 2}, 0.25 * i)));
  run.log(f.stats().graph_breaks);
  compiler::ErrorOnGraphBreak forbidden;
  run.log(f(ones({2, 2})));
}

TENON_PROGRAM(AnnouncedBreaksAreNoErrors, 1) {
  auto twice = nested_compile_region([](const Tensor& x) { return x * 2.0; });
  auto f = run.compile([&](const Tensor& x) { return twice(twice(x)); });
  compiler::ErrorOnGraphBreak forbidden;
  for (int i = 0; i < 4; ++i) run.log(f(row({float(i)})));
}

// Writes go where they go in a plain run, in order.
TENON_PROGRAM(RegionsWriteState, 4) {
  Tensor seen = zeros({2});
  auto layer = nested_compile_region([&](const Tensor& x) {
    seen.add_(x);
    return x + seen;
  });
  auto f = run.compile([&](Tensor x) {
    for (int i = 0; i < 3; ++i) x = layer(x);
    return x - seen;
  });
  for (int i = 0; i < 5; ++i) run.log(f(row({1, float(i)})), seen);
}

TENON_PROGRAM(RegionsLookAtData, 6) {
  auto layer = nested_compile_region([](const Tensor& x) {
    Tensor y = x * 0.5;
    return y.sum().item<float>() > 1 ? y.relu() : y + 1.0;
  });
  auto f = run.compile([&](Tensor x) {
    for (int i = 0; i < 4; ++i) x = layer(x);
    return x;
  });
  for (int i = 0; i < 6; ++i) run.log(f(row({1, float(3 * i)})));
}

TENON_PROGRAM(RegionsInRegionsAndVoidOnes, 4) {
  std::vector<Tensor> kept;
  auto inner = nested_compile_region([](const Tensor& x) { return x.relu() + 0.5; });
  auto keep = nested_compile_region([&](const Tensor& x) { kept.push_back(x * 2.0); });
  auto outer = nested_compile_region([&](const Tensor& x) {
    keep(x);
    return inner(inner(x)) * 0.5;
  });
  auto f = run.compile([&](const Tensor& x) { return outer(outer(x)); });
  for (int i = 0; i < 4; ++i) run.log(f(row({float(i) - 2})));
  for (const Tensor& t : kept) run.log(t);
}

TENON_PROGRAM(RegionsThatThrow, 4) {
  int at = -1;
  auto layer = nested_compile_region([&](const Tensor& x, int i) {
    Tensor y = x + 1.0;
    if (i == at) throw std::runtime_error("mine");
    return y * 2.0;
  });
  auto f = run.compile([&](Tensor x) {
    for (int i = 0; i < 3; ++i) x = layer(x, i);
    return x;
  });
  for (int i = 0; i < 8; ++i) {
    at = i % 4;
    try {
      run.log(f(row({float(i)})));
    } catch (const std::runtime_error& e) {
      run.log(e.what());
    }
  }
}

TENON_PROGRAM(RegionsInCheckpoints, 8) {
  std::vector<Layer> layers = layers_of(3, true);
  auto layer = nested_compile_region(forward);
  auto f = run.compile([&](Tensor x) {
    for (const Layer& l : layers) {
      auto block = [&](const std::vector<Tensor>& h) { return std::vector{layer(l, h[0] * 0.5)}; };
      x = autograd::checkpoint(block, {x})[0];
    }
    return x.sum();
  });
  for (int i = 0; i < 3; ++i) {
    f(full({2, 2}, 0.5 * (i + 1))).backward();
    log_and_drop_gradients(run, layers);
  }
}

TENON_PROGRAM(ThreadsShareRegions, 8) {
  std::vector<Layer> layers = layers_of(6);
  auto layer = nested_compile_region(forward);
  auto f = run.compile([&](Tensor x) {
    for (const Layer& l : layers) x = layer(l, x);
    return x;
  });
  std::vector<Tensor> given(8);
  in_threads(8, [&](int t) {
    for (int i = 0; i < 50; ++i) given[size_t(t)] = f(full({2, 2}, 0.125 * t));
  });
  run.log(given);
}

TENON_PROGRAM(OutsideOfCompiledBodies, 0) {
  auto layer = nested_compile_region([](const Tensor& x) { return x * 2.0; });
  run.log(layer(row({1, 2})));
  auto f = disable([&](const Tensor& x) { return layer(x); });
  run.log(f(row({1, 2})));
}

}  // namespace
}  // namespace tenon::programs
