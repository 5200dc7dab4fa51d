// What a program adds runs as a part of compiled code: its ops, functions, derivatives and passes may
// write what they make, look at data, and contain control flow.
#include "program.h"

#include <tenon/allow_in_graph.h>
#include <tenon/control_flow.h>
#include <tenon/joint_pass.h>
#include <tenon/library.h>

namespace tenon::programs {
namespace {

TENON_LIBRARY(writes_in_added_ops, lib) {
  lib.op("head(Tensor x) -> Tensor")
      .meta([](const Tensor& x) { return empty({2}, x.dtype()); })
      .kernel([](const Tensor& x) {
        NoGradGuard no_grad;
        return x.slice(0, 0, 2).clone();
      })
      .vjp([](const VjpCtx& c, const Tensor& g) {
        Tensor z = zeros_like(c.input(0));
        z.slice(0, 0, 2).copy_(g);
        z.select(0, 1).mul_(3);
        return c.grads(z);
      });
  lib.op("first_more(Tensor x, Tensor y) -> Tensor")
      .decomposition([](const Tensor& x, const Tensor& y) {
        Tensor t = (x * y).clone();
        t.t().select(0, 0).add_(1);
        t.unsqueeze(0).slice(1, 0, 1).mul_(3);
        return t;
      });
  lib.op("sign_decides(Tensor x) -> Tensor").decomposition([](const Tensor& x) {
    return bool(x.sum() > 0) ? x * 2 : x * 3;
  });
}
using Unary = Op<Tensor(const Tensor&)>;
const Unary head{"writes_in_added_ops::head"};
const Unary sign_decides{"writes_in_added_ops::sign_decides"};
const Op<Tensor(const Tensor&, const Tensor&)> first_more{"writes_in_added_ops::first_more"};

// One weight, some calls with their gradients.
template <class F>
void train(Run& run, F body, std::vector<int64_t> sizes = {3}) {
  Tensor w = halves(sizes, 1).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return body(x, w); });
  for (int i = 0; i < 4; ++i) {
    Tensor loss = f(halves(sizes, i));
    loss.backward();
    run.log(loss.detach(), w.grad());
  }
}

TENON_PROGRAM(ADerivativeIsPutTogether, 1) {
  train(run, [](const Tensor& x, const Tensor& w) { return (head(x * w) * 3).exp().sum(); });
}

TENON_PROGRAM(PartsOfAnOpAreWritten, 2) {
  auto body = [](const Tensor& x, const Tensor& w) { return (first_more(x, w) * x).sum(); };
  train(run, body, {2, 3});
  auto f = run.compile([&](const Tensor& x) { return first_more(x, x); });
  run.log(f(halves({2, 3})));
}

TENON_PROGRAM(AFunctionFillsItsResult, 2) {
  static const auto fill =
      compiler::allow_in_graph("writes_in_added_ops::fill", [](const Tensor& x, const Tensor& w) {
        Tensor t = zeros(x.sizes());
        for (int64_t i = 0; i < 3; ++i) t.select(0, i).copy_(x.select(0, i) * w.select(0, 2 - i));
        Tensor first = t.slice(0, 0, 1);
        {
          NoGradGuard no_grad;
          first.mul_(2);
        }
        return t + first;
      });
  train(run, [](const Tensor& x, const Tensor& w) { return fill(x, w).sum() + fill(w, x)[0]; });
  auto f = run.compile([](const Tensor& x) { return fill(x, x); });
  run.log(f(halves({3})));
}

TENON_PROGRAM(AFunctionWritesWhereDataSaysHowMuch, 8) {
  static const auto chosen =
      compiler::allow_in_graph("writes_in_added_ops::chosen", [](const Tensor& x) {
        Tensor rows = x.masked_select(x > 0);
        rows.add_(1);
        Tensor sums = zeros({2});
        sums.slice(0, 0, 1).copy_(rows.sum(0, true));
        return sums;
      });
  train(run, [](const Tensor& x, const Tensor& w) { return (chosen(x * w) * 2).sum(); }, {5});
}

TENON_PROGRAM(AFunctionWritesBesideSizesOfTheData, 2) {
  static const auto more =
      compiler::allow_in_graph("writes_in_added_ops::more", [](const Tensor& x) {
        Tensor t = x * 1;
        t.slice(0, 0, 1).mul_(4);
        return t;
      });
  auto flag = config::patch({{"dynamo.capture_dynamic_output_shape_ops", true}});
  Tensor w = halves({5}, 1).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor chosen = (x * w).masked_select(x > 0) * 1;
    return std::vector<Tensor>{chosen, chosen.slice(0, 1), more(chosen), more(x * w)};
  });
  for (int i = 0; i < 4; ++i) {
    std::vector<Tensor> parts = f(halves({5}, i));
    Tensor loss = zeros({});
    for (const Tensor& t : parts) loss = loss + t.sum() * 2;
    loss.backward();
    run.log(loss.detach(), parts[1].detach(), w.grad());
  }
}

TENON_PROGRAM(AFunctionWritesInsideOfABody, 2) {
  static const auto doubled =
      compiler::allow_in_graph("writes_in_added_ops::doubled", [](const Tensor& x) {
        Tensor t = x * 1;
        t.slice(0, 0, 1).mul_(2);
        return t;
      });
  train(run, [](const Tensor& x, const Tensor& w) {
    auto same = [](const Tensor& v) { return head(v) * 1; };
    auto more = [](const Tensor& v) { return head(doubled(v)); };
    return cond(x.sum() > 0, more, same, x * w).sum();
  });
}

TENON_PROGRAM(AFunctionWritesItsArgument, 1) {
  static const auto raised =
      compiler::allow_in_graph("writes_in_added_ops::raised", [](const Tensor& x) {
        Tensor part = x.slice(0, 0, 1);
        part.add_(1);
        return x * 2;
      });
  train(run, [](const Tensor& x, const Tensor& w) {
    Tensor t = x * w;
    return raised(t).sum() + t.sum();
  });
}

TENON_PROGRAM(WhatIsGivenIsWrittenBesides, 1) {
  Tensor total = zeros({3});
  auto f = run.compile([&](const Tensor& x) {
    total.slice(0, 0, 2).add_(head(x));
    return first_more(x.unsqueeze(0), x.unsqueeze(0)) + total;
  });
  for (int i = 0; i < 4; ++i) run.log(f(halves({3}, i)), total);
}

TENON_PROGRAM(ARuleCopiesAGradientPieceByPiece, 1) {
  static const bool is_registered = [] {
    register_joint_pass("writes_in_added_ops", [](JointGraph& graph) {
      graph.rewrite([](const JointCall& call) -> std::vector<Tensor> {
        if (call.kind != JointCall::Kind::tangent) return {};
        Tensor copy = zeros_like(call.results[0]);
        for (int64_t i = 0; i < 3; ++i) copy.select(0, i).copy_(call.results[0].select(0, i));
        return {copy};
      });
    });
    return true;
  }();
  auto flag = config::patch({{"functorch.joint_custom_pass", "writes_in_added_ops"}});
  Tensor w = halves({3}, 1).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return x * w; });
  for (int i = 0; i < 3 && is_registered; ++i) {
    (f(halves({3}, i)) * halves({3}, 2)).sum().backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(AnAddedOpLooksAtData, 8) {
  static const auto looks = compiler::allow_in_graph(
      "writes_in_added_ops::looks",
      [](const Tensor& x) { return x.sum().item<float>() > 0 ? x * 2 : x * 5; });
  train(run, [](const Tensor& x, const Tensor& w) {
    return sign_decides(x * w).sum() + looks(x + w).sum() * 2;
  });
}

TENON_PROGRAM(AFunctionChoosesABranch, 1) {
  static const auto chooses =
      compiler::allow_in_graph("writes_in_added_ops::chooses", [](const Tensor& x) {
        auto filled = [](const Tensor& v) {
          Tensor t = v * 2;
          t.slice(0, 0, 1).mul_(4);
          return t;
        };
        return cond(
            x.sum() > 0, filled, [](const Tensor& v) { return v * 3; }, x);
      });
  train(run, [](const Tensor& x, const Tensor& w) { return (chooses(x * w) * x).sum(); });
}
TENON_PROGRAM_IN_ONE_GRAPH(AFunctionChoosesABranch, 1);

struct TimesFive : autograd::Function<TimesFive> {
  using Tensors = std::vector<Tensor>;
  static Tensors forward(autograd::Context&, const Tensors& in) { return {in[0] * 2}; }
  static Tensors backward(autograd::Context&, Tensors g) { return {g[0] * 5}; }
};

TENON_PROGRAM(AFunctionHasADerivativeInside, 1) {
  static const auto five = compiler::allow_in_graph(
      "writes_in_added_ops::five", [](const Tensor& x) { return TimesFive::apply({x})[0]; });
  train(run, [](const Tensor& x, const Tensor& w) { return (five(x * w) * x).sum(); });
}
TENON_PROGRAM_IN_ONE_GRAPH(AFunctionHasADerivativeInside, 1);

}  // namespace
}  // namespace tenon::programs
