// Recorded passes that call hooks, functions and callbacks of the program.
#include "recordings/recorded_pass.h"
#include "unit/message_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tenon::recorded_passes {
namespace {

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

// Functions of the user are called, not traced: nothing about a gradient is banned.
void strict_mode_banned_op(const Scenario& s) {
  static_cast<void>(s);
  struct Looks : autograd::Function<Looks> {
    static Tensors forward(autograd::Context& context, const Tensors& in) {
      context.save_for_backward({in[0]});
      return {in[0].clone()};
    }
    static Tensors backward(autograd::Context&, Tensors grads) {
      return {grads[0] * (grads[0].stride(0) == 0 ? 2 : 3)};  // a sum's gradient is expanded
    }
  };
  Run run = compiled([] {
    Tensor p = leaf({3});
    Looks::apply({p})[0].sum().backward();
    return Tensors{p.grad()};
  });
  EXPECT_EQ(run.results[0].to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

}  // namespace

std::map<std::string, Body> scenarios_of_user_code() {
  return {
      {"anomaly_nan", anomaly_nan},
      {"custom_function", custom_function},
      {"final_callbacks", final_callbacks},
      {"hook_order", hook_order},
      {"hooks_in_key", hooks_in_key},
      {"nested_region", nested_region},
      {"post_acc_hook_optimizer", post_acc_hook_optimizer},
      {"saved_tensor_hooks", saved_tensor_hooks},
      {"strict_mode_banned_op", strict_mode_banned_op},
  };
}

}  // namespace tenon::recorded_passes
