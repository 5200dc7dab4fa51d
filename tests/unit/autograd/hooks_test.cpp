// Hooks, saved-tensor hooks, functions, checkpoints and anomaly mode.
#include "unit/autograd/autograd_test.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Hooks, RunInTheOrderOfTheEngine) {
  Tensor a = leaf({1}, {1}), b = leaf({2}, {1});
  std::vector<std::string> order;
  auto note = [&](std::string what) {
    return [&order, what](const Tensor&) { order.push_back(what); };
  };
  Tensor m = a * b, s = m.exp();
  autograd::register_hook(a, note("a hook"));
  autograd::register_hook(b, note("b hook"));
  autograd::register_hook(m, note("m hook"));
  autograd::register_hook(s, note("s hook"));
  autograd::grad_fn(s).register_prehook([&](const std::vector<Tensor>&) {
    order.push_back("exp pre");
    return std::vector<Tensor>();
  });
  autograd::grad_fn(s).register_hook([&](const std::vector<Tensor>&, const std::vector<Tensor>&) {
    order.push_back("exp post");
    return std::vector<Tensor>();
  });
  autograd::register_post_accumulate_grad_hook(a, note("a post-acc"));
  autograd::register_post_accumulate_grad_hook(b, note("b post-acc"));
  s.backward();
  EXPECT_THAT(order, ElementsAre("s hook", "exp pre", "exp post", "m hook", "a hook", "a post-acc",
                                 "b hook", "b post-acc"));
}

TEST(Hooks, ReplaceGradientsAndCanBeRemoved) {
  Tensor x = leaf({1}, {1});
  autograd::HookHandle handle = autograd::register_hook(x, [](const Tensor& g) { return g * 10; });
  (x * 2).backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(20));
  handle.remove();
  (x * 2).backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(22));
}

TEST(Hooks, OfTensorsReturnAGradientOfTheSameShape) {
  auto error_of = [](autograd::TensorHook hook) {
    Tensor x = leaf({1, 2}, {2});
    autograd::register_hook(x, std::move(hook));
    std::string error = message_of([&] { (x * 2).sum().backward(); });
    EXPECT_FALSE(x.grad().defined());
    return error;
  };
  EXPECT_THAT(error_of([](const Tensor& g) { return g.sum(); }),
              HasSubstr("a hook of a tensor returned a gradient of shape [] on cpu in the place of "
                        "one of shape [2] on cpu"));
  EXPECT_THAT(error_of([](const Tensor& g) { return g.reshape({1, 2, 1}); }),
              HasSubstr("of shape [1, 2, 1] on cpu"));
}

TEST(Hooks, OfLeavesReturnWhatIsCast) {
  Tensor x = leaf({1, 2}, {2});
  autograd::register_hook(x, [](const Tensor& g) { return g.to(Dtype::f32) * 2; });
  (x * 3).sum().backward();
  EXPECT_EQ(x.grad().dtype(), Dtype::f64);
  EXPECT_THAT(numbers(x.grad()), ElementsAre(6, 6));
}

TEST(Hooks, OfNodesOfLeavesReturnWhatCanBeSummed) {
  Tensor x = leaf({1, 2}, {2});
  Tensor made_of_x = x * 1;
  bool sums = true;
  autograd::grad_fn(made_of_x).next_functions()[0].register_prehook(
      [&](const std::vector<Tensor>& g) {
        Tensor rows = g[0].reshape({1, 2, 1});
        return std::vector<Tensor>{sums ? rows.expand({3, 2, 1}).squeeze(2) : rows};
      });
  (x * 2).sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(6, 6));
  sums = false;
  EXPECT_THAT(message_of([&] { (x * 2).sum().backward(); }),
              HasSubstr("AccumulateGrad gave a gradient of shape [1, 2, 1] for argument 0, which "
                        "has shape [2]"));
  EXPECT_THAT(numbers(x.grad()), ElementsAre(6, 6));
}

TEST(Hooks, AnExceptionLeavesTheEngineUsable) {
  Tensor x = leaf({1}, {1});
  Tensor y = x * 2;
  autograd::HookHandle handle =
      autograd::register_hook(y, [](const Tensor&) { throw std::runtime_error("from the hook"); });
  EXPECT_EQ(message_of([&] { y.backward({}, true); }), "from the hook");
  handle.remove();
  y.backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(2));
}

TEST(Hooks, ABackwardInsideOfAHookIsAPassOfItsOwn) {
  Tensor x = leaf({2}, {1}), z = leaf({3}, {1});
  Tensor y = x * x;
  autograd::register_hook(y, [&](const Tensor&) {
    EnableGradGuard record;  // hooks run in the grad mode of the pass
    (z * z).backward();
  });
  y.backward();
  EXPECT_THAT(numbers(z.grad()), ElementsAre(6));
  EXPECT_THAT(numbers(x.grad()), ElementsAre(4));
}

TEST(Hooks, CallbacksRunAtTheEndInOrder) {
  Tensor x = leaf({2}, {1});
  std::vector<std::string> order;
  autograd::register_hook(x, [&](const Tensor&) {
    order.push_back("hook");
    autograd::queue_callback([&] {
      order.push_back("first");
      autograd::queue_callback([&] { order.push_back("third"); });
    });
    autograd::queue_callback([&] { order.push_back("second"); });
  });
  autograd::register_post_accumulate_grad_hook(x, [&](const Tensor&) { order.push_back("post"); });
  (x * 2).backward();
  EXPECT_THAT(order, ElementsAre("hook", "post", "first", "second", "third"));
}

TEST(SavedTensorHooks, PackAndUnpackWhatIsKept) {
  Tensor x = leaf({2}, {1});
  int packed = 0, unpacked = 0;
  Tensor y;
  {
    autograd::SavedTensorHooks hooks(
        [&](const Tensor& t) {
          ++packed;
          return std::static_pointer_cast<void>(std::make_shared<Tensor>(t * 10));
        },
        [&](const std::shared_ptr<void>& p) {
          ++unpacked;
          return *std::static_pointer_cast<Tensor>(p) / 10;
        });
    y = x.sin() * x;
  }
  y.backward();
  EXPECT_EQ(packed, 3);
  EXPECT_EQ(unpacked, 3);
  EXPECT_NEAR(numbers(x.grad())[0], std::sin(2.0) + 2 * std::cos(2.0), 1e-12);
}

struct Scale : autograd::Function<Scale> {
  static std::vector<Tensor> forward(autograd::Context& c, const std::vector<Tensor>& in) {
    Tensor y = in[0] * in[1];
    c.save_for_backward({in[0], in[1], y});
    return {y};
  }
  static std::vector<Tensor> backward(autograd::Context& c, std::vector<Tensor> grads) {
    std::vector<Tensor> saved = c.saved_tensors();
    EXPECT_EQ(saved[2].detach().to_vector<double>()[0], 6);
    return {grads[0] * saved[1] * 100, grads[0] * saved[0]};
  }
};

TEST(Function, ItsBackwardIsUsed) {
  Tensor x = leaf({2}, {1}), w = leaf({3}, {1});
  Tensor y = Scale::apply({x, w})[0];
  EXPECT_EQ(autograd::grad_fn(y).name(), "ScaleBackward");
  y.backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(300));
  EXPECT_THAT(numbers(w.grad()), ElementsAre(2));
}

TEST(Function, CanBeDifferentiatedTwice) {
  Tensor x = leaf({2}, {1}), w = leaf({3}, {1});
  Tensor gx = autograd::grad({Scale::apply({x, w})[0]}, {x}, {.create_graph = true})[0];
  EXPECT_THAT(numbers(autograd::grad({gx}, {w})[0]), ElementsAre(100));
}

TEST(Checkpoint, GivesTheSameGradientsAndKeepsLess) {
  auto f = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{(in[0].sin() * in[0].exp()).tanh()};
  };
  Tensor x = leaf({0.3}, {1}), y = leaf({0.3}, {1});
  f({x})[0].backward();
  autograd::checkpoint(f, {y})[0].backward();
  EXPECT_EQ(numbers(x.grad()), numbers(y.grad()));
}

TEST(Checkpoint, RunsAgainWithTheSameRandomNumbers) {
  Tensor x = ones({1000}, Dtype::f64).requires_grad_();
  Tensor y = autograd::checkpoint(
      [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{dropout(in[0], 0.5, true) * in[0]};
      },
      {x})[0];
  y.sum().backward();
  EXPECT_EQ(numbers(x.grad()), numbers(y * 2));
}

TEST(Checkpoint, AWrittenInputIsFound) {
  Tensor x = leaf({2}, {1}), c = tensor(std::vector<double>{5}, {1});
  Tensor y = autograd::checkpoint(
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * in[1]}; }, {x, c})[0];
  c.add_(1);
  EXPECT_THAT(message_of([&] { y.backward(); }), HasSubstr("input 1 was modified in place"));
}

TEST(Checkpoint, AWriteToWhatTheRegionSavedIsFoundAsWithoutIt) {
  auto region = [](const std::vector<Tensor>& in) {
    Tensor t = in[0].exp();
    t.mul_(4);
    return std::vector<Tensor>{t};
  };
  Tensor x = leaf({0, 1}, {2});
  std::string plain = message_of([&] { region({x * 1})[0].sum().backward(); });
  EXPECT_THAT(plain,
              HasSubstr("ExpBackward: its result 0 of shape [2], which its backward needs, was "
                        "modified in place: it is at version 1, expected version 0"));
  Tensor y = autograd::checkpoint(region, {x * 1})[0].sum();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(message_of([&] { y.backward({}, true); }), plain);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Checkpoint, TheRegionMayWriteBeforeItsTensorsAreSaved) {
  auto region = [](const std::vector<Tensor>& in) {
    Tensor t = in[0] * 3;
    t.add_(1);
    return std::vector<Tensor>{t.square()};
  };
  Tensor x = leaf({0, 1}, {2});
  Tensor y = autograd::checkpoint(region, {x * 1})[0].sum();
  for (int i = 1; i < 3; ++i) {
    y.backward({}, true);
    EXPECT_THAT(numbers(x.grad()), ElementsAre(6 * i, 24 * i));
  }
}

// The first pass comes before the region has saved all that it saves.
TEST(Checkpoint, TheRegionMayAskForGradientsItself) {
  int runs = 0;
  auto region = [&](const std::vector<Tensor>& in) {
    ++runs;
    Tensor v = in[0] * in[0];
    Tensor slope = autograd::grad({(v * v).sum()}, {v}, {.create_graph = true})[0];
    return std::vector<Tensor>{slope * in[0]};
  };
  Tensor x = leaf({1, 2}, {2});
  autograd::checkpoint(region, {x})[0].sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(6, 24));  // of 2 x^3
  EXPECT_EQ(runs, 3);
}

TEST(Anomaly, ANanStopsThePassAndNamesTheOp) {
  Tensor x = leaf({-1}, {1});
  autograd::DetectAnomalyGuard detect;
  EXPECT_THAT(message_of([&] { x.sqrt().backward(); }),
              HasSubstr("Function 'SqrtBackward' returned nan values in its 0th output."));
}

TEST(GradCheck, FindsAWrongDerivative) {
  Tensor x = tensor(std::vector<double>{0.3, 0.7}, {2}), w = tensor(std::vector<double>{2, 3}, {2});
  EXPECT_EQ(
      autograd::grad_check(
          [](const std::vector<Tensor>& in) { return std::vector<Tensor>{(in[0] * in[1]).sin()}; },
          {x, w}, {.second_order = true}),
      "");
  EXPECT_THAT(
      autograd::grad_check(
          [](const std::vector<Tensor>& in) {
            return Scale::apply({in[0], in[1]});
          },
          {tensor(std::vector<double>{2}, {1}), tensor(std::vector<double>{3}, {1})}),
      HasSubstr("first derivative with respect to input 0, element 0: the tape gives 252.44"));
}

}  // namespace
}  // namespace tenon
