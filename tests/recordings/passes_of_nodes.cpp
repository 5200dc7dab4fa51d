// Recorded passes over nodes of ops: sizes, numbers, accumulation, views, wanted inputs, switches.
#include "recordings/recorded_pass.h"
#include "unit/message_of.h"

#include <tenon/nn.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::recorded_passes {
namespace {

void diamond_accumulation(const Scenario& s) {
  Run run = compiled([] {
    Tensor a = leaf({3}), u = a * 2;
    Tensor sine = u.sin(), both = sine + u.cos();
    (both + u.exp()).sum().backward();
    return Tensors{a.grad()};
  });
  expect_all(run.results, s.root.field("grads"));
  EXPECT_EQ(run.captures, 1);
  EXPECT_EQ(run.nodes, node_names(s.root.field("graph")));
}

void mlp_basic(const Scenario& s) {
  auto step = [] {
    Tensor w1 = leaf({4, 3}), b1 = leaf({4}), w2 = leaf({2, 4});
    linear(linear(fill({5, 3}), w1, b1).tanh(), w2).pow(2).sum().backward();
    return Tensors{w1.grad(), b1.grad(), w2.grad()};
  };
  Run first = compiled(step), second = compiled(step);
  expect_all(first.results, s.root.field("grads"));
  expect_all(second.results, s.root.field("grads"));
  s.expect_captures({first.captures, second.captures});
  EXPECT_EQ(first.nodes, node_names(s.root.field("graph")));
}

void batch_size_changes(const Scenario& s) {
  std::vector<int64_t> captures;
  for (JsonView step : s.root.field("steps").items()) {
    int64_t batch = step.field("batch").integer();
    auto go = [&] {
      Tensor w = leaf({3, 3});
      fill({batch, 3}).matmul(w).relu().sum({0}).mean().backward();
      return Tensors{w.grad()};
    };
    Tensors plain = go();
    Run run = compiled(go);
    EXPECT_TRUE(close(run.results[0], plain[0])) << batch;
    captures.push_back(run.captures);
    EXPECT_EQ(run.engine, 0);
    if (captures.size() == 1) {
      EXPECT_EQ(run.nodes, node_names(step.field("graph")));
    }
  }
  s.expect_captures(captures);
}

void rank_and_dtype_changes(const Scenario& s) {
  const std::function<Tensor()> parameters[] = {[] {
                                                  return leaf({4, 3});
                                                },
                                                [] {
                                                  return leaf({5, 3});
                                                },
                                                [] {
                                                  return leaf({4, 3}, Dtype::f64);
                                                },
                                                [] { return leaf({12}); },
                                                [] {
                                                  return leaf({4, 3});
                                                }};
  std::vector<int64_t> captures;
  for (const auto& parameter : parameters) {
    auto go = [&] {
      Tensor p = parameter();
      (p.sin() * p).sum().backward();
      return Tensors{p.grad()};
    };
    Tensors plain = go();
    Run run = compiled(go);
    EXPECT_TRUE(close(run.results[0], plain[0]));
    captures.push_back(run.captures);
  }
  s.expect_captures(captures);
}

void scalar_changes(const Scenario& s) {
  std::vector<int64_t> captures;
  for (JsonView step : s.root.field("steps").items()) {
    Run run = compiled([&] {
      Tensor p = leaf({3});
      if (auto a = step.optional_field("multiplier"))
        (p * a->real()).sum().backward();
      else if (auto e = step.optional_field("exponent"))
        p.abs().pow(e->real()).sum().backward();
      else
        leaky_relu(p, step.field("slope").real()).sum().backward();
      return Tensors{p.grad()};
    });
    expect_values(run.results[0], step.field("grad"));
    captures.push_back(run.captures);
  }
  s.expect_captures(captures);
}

// One capture fewer: what a leaf has as its gradient is no input of the code.
void grad_accumulation(const Scenario& s) {
  Tensor w = leaf({3});
  std::vector<int64_t> captures;
  for (JsonView step : s.root.field("steps").items()) {
    if (!step.field("call").is_integer()) w.set_grad({});
    Run run = compiled([&] {
      (w * w).sum().backward();
      return Tensors{w.grad()};
    });
    expect_values(run.results[0], step.field("grad"));
    captures.push_back(run.captures);
    if (captures.size() == 1) {
      EXPECT_EQ(run.nodes, node_names(step.field("graph")));
    }
  }
  EXPECT_EQ(captures, (std::vector<int64_t>{1, 0, 0, 0, 0}));
}

// The third one has another version of the function, and so another backward half.
void aot_backward_inlined(const Scenario& s) {
  auto f = compile([](const Tensor& x, const Tensor& w) { return x.matmul(w).sin(); },
                   {.backend = "aot_eager"});
  std::vector<int64_t> captures;
  for (JsonView step : s.root.field("steps").items()) {
    int64_t batch = step.field("batch").integer();
    Tensor plain = leaf({3, 2});
    fill({batch, 3}).matmul(plain).sin().sum().backward();
    Run run = compiled([&] {
      Tensor w = leaf({3, 2});
      f(fill({batch, 3}), w).sum().backward();
      return Tensors{w.grad()};
    });
    EXPECT_TRUE(close(run.results[0], plain.grad())) << batch;
    captures.push_back(run.captures);
    if (run.captures > 0) {
      EXPECT_EQ(run.nodes, node_names(step.field("graph")));
    }
  }
  s.expect_captures(captures);
}

void inplace_on_view(const Scenario& s) {
  Run run = compiled([] {
    Tensor a = leaf({4}), b = leaf({2}), y = a * 1.0;
    y.narrow(0, 1, 2).mul_(b);
    y.sum().backward();
    return Tensors{a.grad(), b.grad()};
  });
  expect_all(run.results, s.root.field("grads"));
  EXPECT_EQ(run.captures, 1);
  // The node of the write calls the rule of `mul` itself; PyTorch records a prologue, the rule and an
  // epilogue.
  EXPECT_EQ(run.nodes,
            (Log{"SumBackward", "CopySlices", "accumulate", "MulBackward", "accumulate"}));
}

// Gradients that are recorded are the engine's: one capture fewer.
void create_graph(const Scenario& s) {
  Run run = compiled([] {
    Tensor a = leaf({3});
    Tensor g = autograd::grad({a.pow(3).sum()}, {a}, {.create_graph = true})[0];
    return Tensors{g.detach(), autograd::grad({g.sum()}, {a})[0]};
  });
  expect_all(run.results, s.root.field("result"));
  EXPECT_EQ(run.captures, 1);
  EXPECT_EQ(run.engine, 1);
}

void dynamic_false_sizes(const Scenario& s) {
  std::vector<int64_t> captures;
  for (JsonView step : s.root.field("steps").items()) {
    int64_t batch = step.field("batch").integer();
    auto go = [&] {
      Tensor w = leaf({3, 3});
      fill({batch, 3}).matmul(w).relu().expand({2, batch, 3}).sum().backward();
      return Tensors{w.grad()};
    };
    Tensors plain = go();
    Run run = compiled(go, {.dynamic = false});
    EXPECT_TRUE(close(run.results[0], plain[0])) << batch;
    captures.push_back(run.captures);
    if (run.captures > 0) {
      EXPECT_EQ(run.nodes, node_names(step.field("graph")));
    }
  }
  s.expect_captures(captures);
}

void retain_graph_twice(const Scenario& s) {
  Tensor a = leaf({3}), y = (a * a).sum();
  std::vector<int64_t> captures;
  for (bool retain : {true, true, false})
    captures.push_back(compiled([&] {
                         y.backward({}, retain);
                         return Tensors();
                       }).captures);
  std::string error = message_of([&] {
    compiled([&] {
      y.backward();
      return Tensors();
    });
  });
  EXPECT_THAT(error, testing::HasSubstr("a second time"));
  expect_values(a.grad(), s.root.field("grad"));
  EXPECT_EQ(captures, (std::vector<int64_t>{1, 0, 0}));  // see grad_accumulation
}

void explicit_root_gradient(const Scenario& s) {
  Run run = compiled([] {
    Tensor a = leaf({3}), b = leaf({3}), frozen = fill({3});
    Tensor u = a * b, v = (a + frozen).exp();
    autograd::backward(
        {u, v}, {.grad_outputs = {tensor({1.0f, 2.0f, 3.0f}), tensor({0.5f, 0.25f, 0.125f})}});
    return Tensors{a.grad(), b.grad()};
  });
  expect_all(run.results, s.root.field("grads"));
  EXPECT_EQ(run.captures, 1);
  // Two gradients of `a` are added when the second one is there; PyTorch's passes move the addition
  // to where the sum is used.
  EXPECT_EQ(run.nodes,
            (Log{"ExpBackward", "AddBackward", "MulBackward", "add", "accumulate", "accumulate"}));
}

void autograd_grad_inputs(const Scenario& s) {
  Run run = compiled([] {
    Tensor a = leaf({3}), b = leaf({3}), c = leaf({3});
    Tensors out = autograd::grad({(a * b).sum()}, {a, c}, {.allow_unused = true});
    out.push_back(a.grad());
    return out;
  });
  expect_values(run.results[0], s.root.field("result").items()[0]);
  EXPECT_FALSE(run.results[1].defined() || run.results[2].defined());
  EXPECT_EQ(run.captures, 1);
  EXPECT_EQ(run.nodes, node_names(s.root.field("graph")));
}

void reset_clears(const Scenario& s) {
  auto go = [] {
    Tensor a = leaf({3});
    (a * 2).sum().backward();
    return Tensors();
  };
  std::vector<int64_t> captures{compiled(go).captures, compiled(go).captures};
  ca::reset();
  captures.push_back(compiled(go).captures);
  s.expect_captures(captures);
}

void disable_inside(const Scenario& s) {
  Run run = compiled([] {
    Tensor a = leaf({3});
    {
      auto off = ca::disable();
      (a * 2).sum().backward();
    }
    (a * 3).sum().backward();
    return Tensors{a.grad()};
  });
  expect_values(run.results[0], s.root.field("grad"));
  s.expect_captures({run.captures});
}

// The code of a pass is made once, whatever the sizes: the recorded second level compiles again.
void with_dynamo_second_level(const Scenario& s) {
  int compiles = 0;
  auto count = [&compiles](const compiler::Graph& graph, std::span<const Tensor>) {
    ++compiles;
    return [graph](const Tensors& in) { return graph.run(in); };
  };
  std::vector<int64_t> captures;
  auto on = ca::enable(count);
  for (JsonView step : s.root.field("steps").items()) {
    int64_t batch = step.field("batch").integer(), before = ca::stats().captures;
    Tensor w = leaf({3, 3});
    fill({batch, 3}).matmul(w).relu().expand({2, batch, 3}).sum().backward();
    captures.push_back(ca::stats().captures - before);
  }
  s.expect_captures(captures);
  EXPECT_EQ(compiles, 1);
}

void training_loop(const Scenario& s) {
  Tensor w1 = leaf({6, 4}), b1 = leaf({6}), w2 = leaf({3, 6});
  std::vector<int64_t> captures;
  for (JsonView size : s.root.field("batch_sizes").items()) {
    int64_t batch = size.integer();
    captures.push_back(compiled([&] {
                         Tensor y = linear(gelu(linear(fill({batch, 4}), w1, b1)), w2);
                         mse_loss(y, y.detach().zeros_like()).backward();
                         return Tensors();
                       }).captures);
    NoGradGuard off;
    for (const Tensor& p : {w1, b1, w2}) {
      p.detach().sub_(p.grad() * 0.05);
      p.set_grad({});
    }
  }
  expect_all({w1, b1, w2}, s.root.field("params_after"));
  s.expect_captures(captures);
}

}  // namespace

std::map<std::string, Body> scenarios_of_nodes() {
  return {
      {"aot_backward_inlined", aot_backward_inlined},
      {"autograd_grad_inputs", autograd_grad_inputs},
      {"batch_size_changes", batch_size_changes},
      {"create_graph", create_graph},
      {"diamond_accumulation", diamond_accumulation},
      {"disable_inside", disable_inside},
      {"dynamic_false_sizes", dynamic_false_sizes},
      {"explicit_root_gradient", explicit_root_gradient},
      {"grad_accumulation", grad_accumulation},
      {"inplace_on_view", inplace_on_view},
      {"mlp_basic", mlp_basic},
      {"rank_and_dtype_changes", rank_and_dtype_changes},
      {"reset_clears", reset_clears},
      {"retain_graph_twice", retain_graph_twice},
      {"scalar_changes", scalar_changes},
      {"training_loop", training_loop},
      {"with_dynamo_second_level", with_dynamo_second_level},
  };
}

}  // namespace tenon::recorded_passes
