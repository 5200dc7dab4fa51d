// Backward passes that PyTorch captured: gradients, the order of hooks and callbacks, and how often
// a pass is captured. A recording has its function as Python text; the C++ for each stands here.
// Where Tenon captures less often than PyTorch, or has other nodes, the scenario says so and why.
#include "recordings/json_files.h"
#include "unit/message_of.h"

#include <tenon/compiled_autograd.h>
#include <tenon/config.h>
#include <tenon/nn.h>
#include <tenon/tenon.h>
#include "report/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace tenon {
namespace {

namespace ca = compiled_autograd;
using formats::JsonView;
using Tensors = std::vector<Tensor>;
using Log = std::vector<std::string>;

Tensor fill(IntList sizes, Dtype dtype = Dtype::f32) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>((7 * i + 3) % 11) / 4 - 1);
  return tensor(values, sizes).to(dtype);
}
Tensor leaf(IntList sizes, Dtype dtype = Dtype::f32) { return fill(sizes, dtype).requires_grad_(); }

void expect_values(const Tensor& found, JsonView expected) {
  ASSERT_TRUE(found.defined());
  std::vector<double> values = found.detach().to(Dtype::f64).reshape({-1}).to_vector<double>();
  std::vector<JsonView> recorded = expected.field("values").items();
  ASSERT_EQ(values.size(), recorded.size());
  for (size_t i = 0; i < values.size(); ++i) {
    double wanted = recorded[i].real();
    EXPECT_NEAR(values[i], wanted, 1e-5 * std::max(1.0, std::abs(wanted))) << "element " << i;
  }
}

void expect_all(const Tensors& found, JsonView expected) {
  std::vector<JsonView> recorded = expected.items();
  ASSERT_EQ(found.size(), recorded.size());
  for (size_t i = 0; i < found.size(); ++i) expect_values(found[i], recorded[i]);
}

bool close(const Tensor& found, const Tensor& wanted) {
  Tensor bound = wanted.abs() * 1e-5 + 1e-6;
  return found.sizes() == wanted.sizes() &&
         static_cast<bool>(((found - wanted).abs() <= bound).all());
}

Log texts(JsonView list) {
  Log out;
  for (JsonView item : list.items()) out.emplace_back(item.text());
  return out;
}

/// One run of a step with compiled autograd on.
struct Run {
  Tensors results;
  int64_t captures = 0, engine = 0;
  Log nodes;
};

// "MulBackward (NodeCall 2)" or "MulBackward (NodeCall 2): tensor hooks", or "add".
std::string node_of(std::string line) {
  size_t call = line.find(" (NodeCall");
  if (call == line.npos) return line;
  size_t what = line.find("): ", call);
  return what == line.npos ? line.substr(0, call) : line.substr(what + 3);
}

Run compiled(const std::function<Tensors()>& step, const ca::EnableOptions& options = {}) {
  auto verbose = config::patch({{"logging.logs", "compiled_autograd_verbose"}});
  report::LogCapture lines;
  ca::Stats before = ca::stats();
  Run run;
  {
    auto on = ca::enable("aot_eager", options);
    run.results = step();
  }
  run.captures = ca::stats().captures - before.captures;
  run.engine = ca::stats().eager_passes - before.eager_passes;
  for (std::string line : lines.lines()) {
    if (line.find("compiled_autograd_verbose") == line.npos) continue;
    line = line.substr(line.find("] ") + 2);
    if (!line.starts_with("Cache miss") && !line.starts_with("holds where"))
      run.nodes.push_back(node_of(line));
  }
  return run;
}

// The names of a recorded graph as Tenon has them: without numbers of overloads, checks of shapes
// and what belongs to another step.
Log node_names(JsonView graph) {
  static const std::map<std::string, std::string> names = {
      {"validate_outputs", ""},
      {"_exec_final_callbacks_stub", ""},
      {"call_accumulate_grad", "accumulate"},
      {"call_hook:tensor_pre_hook", "tensor hooks"},
      {"call_cpp_tensor_pre_hooks", ""},  // retain_grad() goes with the hooks of the tensor
      {"call_hook:pre_hook", "pre-hooks"},
      {"call_hook:post_hook", "post-hooks"},
      {"call_hook:post_acc_grad_hook", ""},  // goes with the accumulation
      {"call_hook:unpack_hook", "unpack"},
      {"call_aot_bwd_prologue", "CompiledFunctionBackward"},  // then its ops, such as cos.default
      {"call_backward", "function"},
  };
  Log out;
  for (const std::string& node : texts(graph.field("nodes"))) {
    auto known = names.find(node);
    bool is_op = node.find('.') != node.npos;
    std::string name = is_op ? "" : known == names.end() ? node : known->second;
    while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back()))) name.pop_back();
    if (!name.empty()) out.push_back(name);
  }
  return out;
}

/// All about one recording.
class Scenario {
 public:
  explicit Scenario(const std::string& name)
      : root(json_file(reference_folder("compiled_autograd") + "/" + name + ".json")) {}

  /// Captures of each step, as recorded or, with a reason, as `fewer` says.
  void expect_captures(const std::vector<int64_t>& found) const {
    std::vector<int64_t> recorded;
    for (JsonView n : root.field("captures_per_step").items()) recorded.push_back(n.integer());
    EXPECT_EQ(found, recorded);
  }

  JsonView root;
};

using Body = void (*)(const Scenario&);

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

Tensors hook_scene(Log& log) {
  Tensor a = leaf({3}), b = leaf({3}), m = a * b, e = m.exp();
  auto says = [&log](const char* text) { return [&log, text](auto&&...) { log.push_back(text); }; };
  auto says_of_node = [&log](const char* text) {
    return [&log, text](auto&&...) {
      log.push_back(text);
      return Tensors();
    };
  };
  autograd::register_hook(m, says("tensor_hook(m)"));
  autograd::register_hook(e, says("tensor_hook(s)"));
  autograd::register_hook(a, says("tensor_hook(a)"));
  autograd::register_hook(b, [&log](const Tensor& g) {
    log.push_back("tensor_hook(b) scales by 10");
    return g * 10;
  });
  autograd::grad_fn(m).register_prehook(says_of_node("node_pre_hook(mul)"));
  autograd::grad_fn(m).register_hook(says_of_node("node_post_hook(mul)"));
  autograd::grad_fn(e).register_prehook(says_of_node("node_pre_hook(exp)"));
  autograd::grad_fn(e).register_hook(says_of_node("node_post_hook(exp)"));
  autograd::register_post_accumulate_grad_hook(a, says("post_acc_grad_hook(a)"));
  autograd::register_post_accumulate_grad_hook(b, says("post_acc_grad_hook(b)"));
  m.retain_grad();
  e.sum().backward();
  EXPECT_TRUE(m.grad().defined());
  return {a.grad(), b.grad()};
}

void hook_order(const Scenario& s) {
  Log plain, first, second;
  hook_scene(plain);
  Run one = compiled([&] { return hook_scene(first); });
  Run two = compiled([&] { return hook_scene(second); });
  EXPECT_EQ(plain, texts(s.root.field("eager_order")));
  EXPECT_EQ(first, texts(s.root.field("compiled_order_first_call")));
  EXPECT_EQ(second, texts(s.root.field("compiled_order_second_call")));
  expect_all(one.results, s.root.field("grads"));
  expect_all(two.results, s.root.field("grads"));
  s.expect_captures({one.captures, two.captures});
  EXPECT_EQ(one.nodes, node_names(s.root.field("graph")));
}

void hooks_in_key(const Scenario& s) {
  const std::function<Tensor(const Tensor&)> hooks[] = {
      nullptr, [](const Tensor& g) { return g * 2; }, [](const Tensor& g) { return g * 3; },
      nullptr};
  std::vector<int64_t> captures;
  std::vector<JsonView> steps = s.root.field("steps").items();
  for (size_t i = 0; i < steps.size(); ++i) {
    Run run = compiled([&] {
      Tensor p = leaf({3}), m = p.sin();
      if (hooks[i]) autograd::register_hook(m, hooks[i]);
      m.sum().backward();
      return Tensors{p.grad()};
    });
    expect_values(run.results[0], steps[i].field("grad"));
    captures.push_back(run.captures);
  }
  s.expect_captures(captures);
}

// The attribute that the recorded class keeps in its context.
struct Scaled : autograd::Function<Scaled> {
  static inline double scale = 1;
  static Tensors forward(autograd::Context& context, const Tensors& in) {
    context.save_for_backward({in[0]});
    context.user = std::make_shared<double>(scale);
    return {in[0] * in[0] * scale};
  }
  static Tensors backward(autograd::Context& context, Tensors grads) {
    double k = *std::static_pointer_cast<double>(context.user);
    return {grads[0] * context.saved_tensors()[0] * (2 * k)};
  }
};

void custom_function(const Scenario& s) {
  std::vector<int64_t> captures;
  for (JsonView step : s.root.field("steps").items()) {
    Run run = compiled([&] {
      Tensor p = leaf({3});
      Scaled::scale = step.field("k").real();
      Scaled::apply({p})[0].sum().backward();
      return Tensors{p.grad()};
    });
    expect_values(run.results[0], step.field("grad"));
    captures.push_back(run.captures);
    if (captures.size() == 1) {
      EXPECT_EQ(run.nodes, node_names(step.field("graph")));
    }
  }
  s.expect_captures(captures);
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

Tensors saved_tensor_scene(Log& log) {
  Tensor p = leaf({3}), y;
  {
    autograd::SavedTensorHooks hooks(
        [&log](const Tensor& t) {
          log.push_back("pack");
          return std::make_shared<Tensor>(t.clone() * 2);
        },
        [&log](const std::shared_ptr<void>& data) {
          log.push_back("unpack");
          return *std::static_pointer_cast<Tensor>(data) / 2;
        });
    y = p.sin().exp();
  }
  y.sum().backward();
  return {p.grad()};
}

void saved_tensor_hooks(const Scenario& s) {
  Log plain, order;
  Tensors expected = saved_tensor_scene(plain);
  Run run = compiled([&] { return saved_tensor_scene(order); });
  EXPECT_EQ(plain, texts(s.root.field("eager_order")));
  EXPECT_EQ(order, texts(s.root.field("compiled_order")));
  EXPECT_TRUE(close(run.results[0], expected[0]));
  EXPECT_EQ(run.captures, 1);
  EXPECT_EQ(run.nodes, node_names(s.root.field("graph")));
}

Tensors callback_scene(Log& log) {
  Tensor a = leaf({3}), m = a * 2;
  autograd::register_hook(m, [&log](const Tensor& g) {
    log.push_back("hook");
    autograd::queue_callback([&log] { log.push_back("final1"); });
    autograd::queue_callback([&log] { log.push_back("final2"); });
    return g;
  });
  autograd::register_post_accumulate_grad_hook(
      a, [&log](const Tensor&) { log.push_back("post_acc"); });
  m.sum().backward();
  log.push_back("backward returned");
  return {a.grad()};
}

void final_callbacks(const Scenario& s) {
  Log plain, order;
  callback_scene(plain);
  Run run = compiled([&] { return callback_scene(order); });
  EXPECT_EQ(plain, texts(s.root.field("eager_order")));
  EXPECT_EQ(order, texts(s.root.field("compiled_order")));
  EXPECT_EQ(run.captures, 1);
  EXPECT_EQ(run.nodes, node_names(s.root.field("graph")));
}

void post_acc_hook_optimizer(const Scenario& s) {
  std::vector<std::string> shapes;
  Tensors grads;
  Run run = compiled([&] {
    Tensor w1 = leaf({3, 3}), w2 = leaf({3, 3});
    for (const Tensor& p : {w1, w2})
      autograd::register_post_accumulate_grad_hook(p, [&](const Tensor& t) {
        {
          NoGradGuard off;
          t.detach().sub_(t.grad() * 0.1);
        }
        t.set_grad({});
        shapes.push_back(to_text(t.sizes()));
      });
    fill({2, 3}).matmul(w1).tanh().matmul(w2).sum().backward();
    grads = {w1.grad(), w2.grad()};
    return Tensors{w1, w2};
  });
  expect_all(run.results, s.root.field("params_after"));
  EXPECT_FALSE(grads[0].defined() || grads[1].defined());
  EXPECT_EQ(shapes.size(), 2u);
  EXPECT_EQ(run.captures, 1);
  EXPECT_EQ(run.nodes, node_names(s.root.field("graph")));
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

void anomaly_nan(const Scenario& s) {
  std::string error = message_of([] {
    compiled([] {
      Tensor a = leaf({3});
      autograd::DetectAnomalyGuard anomaly;
      (a * std::nan("")).sum().backward();
      return Tensors();
    });
  });
  EXPECT_THAT(error, testing::HasSubstr("NaN gradients for parameters"))
      << s.root.field("error").field("message").text();
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

void nested_region(const Scenario& s) {
  Run run = compiled([] {
    Tensor a = leaf({3}), m = a * 2;
    autograd::register_hook(m, [](const Tensor& g) {
      EXPECT_TRUE(ca::in_compiled_autograd_region());
      EnableGradGuard on;
      Tensor b = leaf({2});
      (b * b).sum().backward();
      EXPECT_TRUE(b.grad().defined());
      return g;
    });
    m.sum().backward();
    return Tensors{a.grad()};
  });
  EXPECT_EQ(run.captures, s.root.field("captures").integer());
  EXPECT_EQ(run.nodes, node_names(s.root.field("graphs").items()[0]));
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

// Functions of the user are called, not traced: nothing about a gradient is banned.
void strict_mode_banned_op(const Scenario& s) {
  static_cast<void>(s);
  struct Looks : autograd::Function<Looks> {
    static Tensors forward(autograd::Context& context, const Tensors& in) {
      context.save_for_backward({in[0]});
      return {in[0].clone()};
    }
    static Tensors backward(autograd::Context&, Tensors grads) {
      EXPECT_FALSE(grads[0].is_contiguous() && grads[0].stride(0) == 7);
      return {grads[0] * 2};
    }
  };
  Run run = compiled([] {
    Tensor p = leaf({3});
    Looks::apply({p})[0].sum().backward();
    return Tensors{p.grad()};
  });
  EXPECT_EQ(run.results[0].to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

const std::map<std::string, Body> scenarios = {
    {"anomaly_nan", anomaly_nan},
    {"aot_backward_inlined", aot_backward_inlined},
    {"autograd_grad_inputs", autograd_grad_inputs},
    {"batch_size_changes", batch_size_changes},
    {"create_graph", create_graph},
    {"custom_function", custom_function},
    {"diamond_accumulation", diamond_accumulation},
    {"disable_inside", disable_inside},
    {"dynamic_false_sizes", dynamic_false_sizes},
    {"explicit_root_gradient", explicit_root_gradient},
    {"final_callbacks", final_callbacks},
    {"grad_accumulation", grad_accumulation},
    {"hook_order", hook_order},
    {"hooks_in_key", hooks_in_key},
    {"inplace_on_view", inplace_on_view},
    {"mlp_basic", mlp_basic},
    {"nested_region", nested_region},
    {"post_acc_hook_optimizer", post_acc_hook_optimizer},
    {"rank_and_dtype_changes", rank_and_dtype_changes},
    {"reset_clears", reset_clears},
    {"retain_graph_twice", retain_graph_twice},
    {"saved_tensor_hooks", saved_tensor_hooks},
    {"scalar_changes", scalar_changes},
    {"strict_mode_banned_op", strict_mode_banned_op},
    {"training_loop", training_loop},
    {"with_dynamo_second_level", with_dynamo_second_level},
};

class CompiledAutogradRecording : public testing::TestWithParam<std::string> {};

TEST_P(CompiledAutogradRecording, IsReproduced) {
  std::string name = test_name_of({GetParam(), 0});
  auto body = scenarios.find(name);
  ASSERT_TRUE(body != scenarios.end()) << "no C++ is written down here for " << name;
  ca::reset();
  body->second(Scenario(name));
}

std::vector<std::string> recorded() {
  std::vector<std::string> files = files_in(reference_folder("compiled_autograd"), ".json");
  std::erase_if(files, [](const std::string& file) { return file.ends_with("index.json"); });
  return files;
}

TEST(CompiledAutogradRecordings, AllAreThere) {
  EXPECT_EQ(recorded().size(), scenarios.size())
      << nothing_in(reference_folder("compiled_autograd"));
}

INSTANTIATE_TEST_SUITE_P(All, CompiledAutogradRecording, testing::ValuesIn(recorded()),
                         test_name_of);

}  // namespace
}  // namespace tenon
