// What may be compiled, and what it may take and give: modules, member functions, default arguments,
// pointers, views, opaque objects; each called plain and compiled, with equal results.
#include <tenon/compiler.h>
#include <tenon/tenon.h>

#include "unit/capture/short.h"
#include "unit/message_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

struct Scale {  // no aggregate
  explicit Scale(float f) : factor_(f) {}
  float factor() const { return factor_; }

 private:
  float factor_;
};
TENON_OPAQUE(Scale)

namespace tenon {
namespace {

using testing::HasSubstr;

struct Net : nn::Module {
  nn::Linear fc{3, 2};
  nn::Dropout drop{0.5};
  TENON_MODULE(Net, fc, drop)
  Tensor forward(const Tensor& x) { return drop(fc(x)); }
  Tensor scaled(const Tensor& x, double k) const { return x * k; }
  Tensor twice(const Tensor& x) { return fc(x) * 2; }
};

TEST(Callables, AModuleIsReferredTo) {
  Net net;
  auto f = compile(net, eager);
  Tensor x = ones({1, 3});
  f(x);
  net.eval();  // seen by the compiled callable
  EXPECT_EQ(values(f(x)), values(net(x)));
  net.fc.weight = nn::Parameter(full({2, 3}, 2.0));
  EXPECT_EQ(values(f(x)), values(net(x)));
}

TEST(Callables, ASharedPointerToAModuleKeepsItAlive) {
  auto net = std::make_shared<Net>();
  net->eval();
  Tensor x = ones({1, 3}), wanted = (*net)(x);
  auto f = compile(net, eager);
  net.reset();
  EXPECT_EQ(values(f(x)), values(wanted));
  EXPECT_EQ(values(f(x)), values(wanted));
}

TEST(Callables, AMemberFunctionTakesItsObjectFirst) {
  Net net, other;
  Tensor x = ones({1, 3});
  auto f = compile(&Net::twice, eager);
  auto g = compile(&Net::scaled, eager);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(values(f(net, x)), values(net.twice(x)));
    EXPECT_EQ(values(f(other, x)), values(other.twice(x)));
    EXPECT_EQ(values(g(net, x, 2.0 + i)), values(x * (2.0 + i)));
  }
}

TEST(Callables, ModulesArePassedOn) {
  Net one, two;
  one.eval(), two.eval();
  Tensor x = ones({1, 3});
  auto f = compile([](Net& n, const Tensor& t) { return n(t); }, eager);
  auto g = compile([](Net* n, const Tensor& t) { return (*n)(t); }, eager);
  auto h = compile([](auto& n, const Tensor& t) { return n(t); }, eager);
  for (Net* n : {&one, &two, &one, &two}) {
    Tensor wanted = (*n)(x);
    EXPECT_EQ(values(f(*n, x)), values(wanted));
    EXPECT_EQ(values(g(n, x)), values(wanted));
    EXPECT_EQ(values(h(*n, x)), values(wanted));
  }
}

TEST(Callables, DefaultArgumentsMayBeLeftOut) {
  auto f = compile([](const Tensor& t, double k = 2, int n = 3) { return t * k + n; }, eager);
  Tensor x = ones({1});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(f(x).item<float>(), 5);
    EXPECT_EQ(f(x, 4.0).item<float>(), 7);
    EXPECT_EQ(f(x, 4.0, 1).item<float>(), 5);
  }
}

TEST(Callables, AnyThatCanBeCalledSoFitsOneType) {
  CompiledFunction<Tensor(const Tensor&)> f;
  EXPECT_FALSE(f);
  EXPECT_THAT(message_of([&] { f(ones({1})); }), HasSubstr("empty"));
  f = compile([](const Tensor& t) { return t + 1; }, eager);
  EXPECT_EQ(f(ones({1})).item<float>(), 2);
  EXPECT_EQ(f(ones({1})).item<float>(), 2);
  EXPECT_EQ(f.stats().calls, 2);
  Net net;
  net.eval();
  std::vector<CompiledFunction<Tensor(const Tensor&)>> list{f, compile(net, eager)};
  EXPECT_EQ(values(list[1](ones({1, 3}))), values(net(ones({1, 3}))));
}

TEST(Callables, OneThatWasMovedFromSaysSo) {
  auto f = compile([](const Tensor& t) { return t + 1; }, eager);
  auto g = std::move(f);
  EXPECT_EQ(g(ones({1})).item<float>(), 2);
  EXPECT_THAT(message_of([&] { f(ones({1})); }), HasSubstr("moved from"));
  EXPECT_THAT(message_of([&] { f.stats(); }), HasSubstr("moved from"));
}

struct Holder {
  std::unique_ptr<Tensor> tensor;
  int n;
};

TEST(Callables, TakeParametersDevicesNumbersViewsAndPointers) {
  auto body = [](const nn::Parameter& p, Device device, Number n, std::span<const Tensor> ts,
                 const std::unique_ptr<Tensor>& u, const Holder& h, std::optional<Tensor> o) {
    Tensor y = p * n + ts[1] + *u + *h.tensor * h.n;
    return (o ? y + *o : y) + double(device.index);
  };
  auto f = compile(body, eager);
  nn::Parameter p(ones({2}));
  std::vector<Tensor> ts{zeros({2}), full({2}, 3.0)};
  auto u = std::make_unique<Tensor>(ones({2}));
  Holder h{std::make_unique<Tensor>(ones({2})), 2};
  for (int i = 1; i < 5; ++i) {
    h.n = i;
    EXPECT_EQ(values(f(p, Device(), i, ts, u, h, std::nullopt)),
              values(body(p, Device(), i, ts, u, h, std::nullopt)));
    EXPECT_EQ(values(f(p, Device(), 0.5 * i, ts, u, h, *u)),
              values(body(p, Device(), 0.5 * i, ts, u, h, *u)));
  }
}

TEST(Callables, ListsOfTensorsAndSizesAreViews) {
  auto f = compile([](TensorList l, IntList sizes,
                      SymIntList strides) { return l[0].reshape(sizes) + strides.size(); },
                   eager);
  std::vector<Tensor> ts{ones({2, 3})};
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(f(ts, std::vector<int64_t>{3, 2}, ts[0].strides()).sizes(), IntList({3, 2}));
  EXPECT_FALSE(ts[0].is_fake());
}

TEST(Callables, OpaqueObjectsAreTheCallersOwn) {
  auto f = compile([](const Scale& s, std::mt19937* rng, const std::function<Tensor(Tensor)>& fn,
                      const Tensor& t) { return fn(t) * s.factor() + double((*rng)() % 8); },
                   eager);
  std::mt19937 rng(1), same(1);
  auto neg = [](Tensor t) { return -t; };
  for (int i = 1; i < 6; ++i) {
    Tensor y = f(Scale(float(i)), &rng, neg, ones({1}));
    EXPECT_EQ(y.item<float>(), float(double(same() % 8) - i));
  }
}

TEST(Callables, NumbersMayBeWritten) {
  int calls = 0;
  auto f = compile([](const Tensor& t, int& n) { return t + double(++n); }, eager);
  for (int i = 1; i < 6; ++i) EXPECT_EQ(f(zeros({1}), calls).item<float>(), float(i));
  EXPECT_EQ(calls, 5);
}

TEST(Callables, SharedPointersAreNotSharedWithTheBody) {
  auto f =
      compile([](std::shared_ptr<Tensor> t) { return std::make_shared<Tensor>(*t * 2.0); }, eager);
  auto pure = compile([](std::shared_ptr<Tensor> t) { return std::make_shared<Tensor>(*t * 2.0); },
                      Options{.backend = "eager", .pure = true});
  auto in = std::make_shared<Tensor>(ones({1}));
  for (auto* g : {&f}) {
    auto first = (*g)(in);
    *in = full({1}, 5.0);
    auto second = (*g)(in), third = pure(in), fourth = pure(std::make_shared<Tensor>(ones({1})));
    EXPECT_EQ(first->item<float>(), 2);
    EXPECT_EQ(second->item<float>(), 10);
    EXPECT_EQ(third->item<float>(), 10);
    EXPECT_EQ(fourth->item<float>(), 2);
    EXPECT_FALSE(in->is_fake());
  }
}

TEST(Callables, ADisabledFunctionGetsItsArgumentsAsTheyAre) {
  std::vector<float> seen;
  auto note = disable([](std::vector<float>& out, const Tensor& t, std::ostream&) {
    out.push_back(t.sum().item<float>());
  });
  auto scale = disable([](Tensor& t, double k) { t = t * k; });
  std::ostringstream stream;
  auto body = [&](const Tensor& x) {
    Tensor y = x + 1.0;
    note(seen, y, stream);
    scale(y, 3.0);
    return y - 1.0;
  };
  auto f = compile(body, eager);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f(full({1}, double(i))).item<float>(), float(3 * i + 2));
  EXPECT_EQ(seen, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(body(ones({1})).item<float>(), 5);
}

TEST(Callables, ACallableOfTheProgramIsABackend) {
  int compiled = 0, calls = 0;
  compiler::register_backend("of_this_test",
                             [&](const compiler::Graph& graph, std::span<const Tensor> examples) {
                               ++compiled;
                               EXPECT_EQ(graph.n_inputs(), examples.size());
                               EXPECT_THAT(graph.text(), HasSubstr("aten.mul"));
                               return [graph, &calls](const std::vector<Tensor>& in) {
                                 ++calls;
                                 return graph.run(in);
                               };
                             });
  auto f = compile([](const Tensor& x) { return x * 2.0 + 1.0; }, {.backend = "of_this_test"});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(ones({2})).to_vector<float>()[1], 3);
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(calls, 3);
  EXPECT_THAT(message_of([] { compiler::register_backend("eager", {}); }), HasSubstr("already"));
  EXPECT_EQ(message_of([] { compiler::register_backend("of_nobody", {}); }),
            "register_backend: the function of backend 'of_nobody' is empty; give one that can be "
            "called");
}

TEST(Callables, ABackendOfTheProgramServesNumbersThatChange) {
  compiler::register_backend(
      "of_numbers_that_change", [](const compiler::Graph& graph, std::span<const Tensor>) {
        return [graph](const std::vector<Tensor>& in) { return graph.run(in); };
      });
  double rate = 0;
  auto by_capture =
      compile([&](const Tensor& x) { return x * rate; }, {.backend = "of_numbers_that_change"});
  auto by_argument = compile([](const Tensor& x, SymInt n) { return x * n + x.size(0); },
                             {.backend = "of_numbers_that_change"});
  for (int i = 2; i < 7; ++i) {
    rate = i;
    EXPECT_EQ(values(by_capture(ones({2}))), (std::vector<float>(2, float(i))));
    EXPECT_EQ(values(by_argument(ones({i}), 3 * i)), (std::vector<float>(i, float(4 * i))));
  }
  EXPECT_LT(by_capture.stats().compiles, 4);
  EXPECT_LT(by_argument.stats().compiles, 4);
}

// It has written by then, as it runs op by op.
TEST(Callables, ABackendOfTheProgramGivesWhatItHasBeforeAnError) {
  compiler::register_backend(
      "of_bad_indices", [](const compiler::Graph& graph, std::span<const Tensor>) {
        return [graph](const std::vector<Tensor>& in) { return graph.run(in); };
      });
  std::vector<Tensor> kept{zeros({2})};
  Tensor n_calls = zeros({});
  auto f = compile(
      [&](const Tensor& x, const Tensor& at) {
        kept[0] = kept[0] + x;
        n_calls.add_(1);
        return x.index_select(0, at);
      },
      {.backend = "of_bad_indices"});
  for (int i = 1; i < 5; ++i) {
    if (i % 2)
      EXPECT_THAT(message_of([&] { f(ones({2}), tensor({9})); }), HasSubstr("index 9"));
    else
      f(ones({2}), tensor({1}));
    EXPECT_EQ(values(kept[0]), (std::vector<float>(2, float(i))));
    EXPECT_EQ(n_calls.item<float>(), i);
  }
}

TEST(Callables, ABackendOfTheProgramMayAskWhatTheResultsOfItsExamplesAre) {
  std::vector<std::string> told;
  compiler::register_backend(
      "of_shapes", [&](const compiler::Graph& graph, std::span<const Tensor> examples) {
        for (const Tensor& t : graph.run({examples.begin(), examples.end()}))
          told.push_back(t.is_fake() ? message("{}", t) : "with data");
        return [graph](const std::vector<Tensor>& in) { return graph.run(in); };
      });
  auto f = compile(
      [](const Tensor& x, SymInt n) {
        return std::tuple(cat({x, x}), (x * n).sum());
      },
      {.backend = "of_shapes"});
  for (int i = 2; i < 7; ++i) {
    auto [joined, sum] = f(ones({i}), 3 * i);
    EXPECT_EQ(joined.size(0), 2 * i);
    EXPECT_EQ(sum.item<float>(), float(3 * i * i));
  }
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_THAT(told, testing::ElementsAre("f32[4]", "f32[]", "f32[2*s0]", "f32[]"));
}

TEST(Callables, ABackendOfTheProgramThatUsesItsOwnCallable) {
  CompiledFunction<Tensor(const Tensor&)> f;
  std::function<void()> use;
  compiler::register_backend("of_itself", [&](const compiler::Graph& graph, auto) {
    use();
    return [graph](const std::vector<Tensor>& in) { return graph.run(in); };
  });
  auto told = [&](const std::function<void()>& how) {
    use = how;
    f = compile(twice, {.backend = "of_itself"});
    return message_of([&] { f(ones({2})); });
  };
  std::string explained;
  EXPECT_EQ(told([&] { explained = f.explain(); }), "no error");
  EXPECT_THAT(explained, HasSubstr("0 versions, 1 compiles"));
  EXPECT_THAT(told([&] { f(ones({2})); }), HasSubstr("is being compiled by this thread, and its"));
  EXPECT_THAT(told([&] { f.reset(); }), HasSubstr("do so after the call that compiles"));
}

TEST(Callables, ABackendOfTheProgramGivesWhatTheGraphSays) {
  std::function<Tensor(const Tensor&)> change;
  compiler::register_backend("changing", [&](const compiler::Graph& graph, auto) {
    return [graph, &change](const std::vector<Tensor>& in) {
      std::vector<Tensor> results = graph.run(in);
      for (Tensor& t : results) t = change(t);
      return results;
    };
  });
  auto told = [&](const std::function<Tensor(const Tensor&)>& how, bool dynamic) {
    change = how;
    auto f = compile(twice, {.backend = "changing", .dynamic = dynamic});
    return message_of([&] {
      f(ones({2, 3}));
      f(ones({4, 3}));
    });
  };
  for (bool dynamic : {false, true}) {
    EXPECT_EQ(told([](const Tensor& t) { return t; }, dynamic), "no error");
    EXPECT_THAT(told(
                    [](const Tensor& t) {
                      return cat({t, t});
                    },
                    dynamic),
                HasSubstr("backend 'changing': output 0 of its code has sizes [4, 3], the graph "
                          "says [2, 3]; give what Graph::run() gives"));
    EXPECT_THAT(told([](const Tensor& t) { return t.t().contiguous().t(); }, dynamic),
                HasSubstr("has strides [1, 2], the graph says [3, 1]; give what"));
    EXPECT_THAT(told([](const Tensor& t) { return t.to(Dtype::f64); }, dynamic),
                HasSubstr("backend 'changing': output 0 of its code is f64[2, 3]; expected f32"));
  }
}

TEST(Callables, StancesSayWhatCallsDo) {
  auto f = compile([](const Tensor& x) { return x * 2.0; }, eager);
  {
    compiler::StanceScope stance(compiler::Stance::force_eager);
    f(ones({2}));
    EXPECT_EQ(f.stats().compiles, 0);
  }
  f(ones({2}));
  compiler::StanceScope stance(compiler::Stance::eager_on_recompile);
  EXPECT_EQ(values(f(ones({3}))), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(f.stats().compiles, 1);
  compiler::set_stance(compiler::Stance::fail_on_recompile);
  EXPECT_THAT(message_of([&] { f(ones({4})); }), HasSubstr("recompile is needed"));
  f(ones({2}));
}

TEST(Callables, DisabledOnesAndOwnLimits) {
  auto f = compile([](const Tensor& x) { return x * 2.0; }, {.backend = "eager", .disable = true});
  EXPECT_EQ(f(ones({1})).item<float>(), 2);
  EXPECT_EQ(f.stats().calls, 0);
  auto g = compile([](const Tensor& x) { return x * 2.0; },
                   {.backend = "eager", .dynamic = false, .recompile_limit = 2});
  for (int i = 1; i < 6; ++i) g(ones({i}));
  EXPECT_EQ(g.stats().compiles, 2);
}

TEST(Callables, EmptyBracesAreOptions) {
  auto f = compile([](const Tensor& x) { return x * 2.0; }, {});
  EXPECT_EQ(f(ones({1})).item<float>(), 2);
}

TEST(Callables, ThatAreNullAreRefusedWhenTheyAreCompiled) {
  auto said = [](auto callable) {
    return message_of<UserError>([&] { compile(callable, eager); });
  };
  EXPECT_THAT(said(std::shared_ptr<Net>()), HasSubstr("null pointer"));
  EXPECT_THAT(said(static_cast<Tensor (*)(const Tensor&)>(nullptr)), HasSubstr("null pointer"));
  EXPECT_THAT(said(std::function<Tensor(const Tensor&)>()), HasSubstr("empty function"));
}

TEST(Callables, ThatWereMovedFromSaySo) {
  std::vector<int> captured(100, 1);
  auto f = compile([captured](const Tensor& x) { return x * double(captured.size()); }, eager);
  auto g = std::move(f);
  EXPECT_THAT(message_of<UserError>([&] { f.original()(ones({1})); }), HasSubstr("moved from"));
  EXPECT_THAT(message_of<UserError>([&] { f.entries(); }), HasSubstr("moved from"));
  EXPECT_EQ(g.original()(ones({1})).item<float>(), 100);
}

TEST(Callables, TellTheirVersions) {
  auto f = compile([](const Tensor& x) { return (x + 1.0).relu(); }, eager);
  EXPECT_TRUE(f.entries().empty());
  f(ones({2}));
  f(ones({2, 2}));
  std::vector<CompiledEntry> entries = f.entries();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].ops, (std::vector<std::string>{"aten.add.Scalar", "aten.relu.default"}));
  EXPECT_THAT(entries[0].id, testing::EndsWith("/1"));
  EXPECT_THAT(entries[0].guards, testing::Contains(HasSubstr("f32 on cpu")));
  EXPECT_THAT(entries[0].regime, HasSubstr("body runs on every call"));
  CompiledFunction<Tensor(const Tensor&)> any = f;
  EXPECT_EQ(any.entries().size(), 2u);
  f.reset();
  EXPECT_TRUE(f.entries().empty());
}

TEST(Callables, FunctionsForTheCompilerHaveOneNameInBothNamespaces) {
  static_assert(std::is_same_v<Stance, compiler::Stance>);
  static_assert(std::is_same_v<ErrorOnGraphBreak, compiler::ErrorOnGraphBreak>);
  EXPECT_EQ(&set_stance, &compiler::set_stance);
  EXPECT_EQ(&on_event, &compiler::on_event);
  EXPECT_EQ(&counters, &compiler::counters);
  EXPECT_EQ(&set_logs, &compiler::set_logs);
  EXPECT_EQ(&plugin_errors, &compiler::plugin_errors);
  EXPECT_EQ(&register_log_fn, &compiler::register_log_fn);
  EXPECT_EQ(&save_cache_artifacts, &compiler::save_cache_artifacts);
  EXPECT_EQ(&load_cache_artifacts, &compiler::load_cache_artifacts);
  EXPECT_EQ(&cudagraph_mark_step_begin, &compiler::cudagraph_mark_step_begin);
  EXPECT_FALSE(is_dynamo_compiling() || is_exporting());
  auto same = substitute_in_graph(twice, twice);
  auto f = compiler::compile(
      [&](const Tensor& x) {
        return compiler::cond(
            x.sum() > 0, [&](const Tensor& t) { return same(t); },
            [](const Tensor& t) { return t; }, x);
      },
      eager);
  EXPECT_EQ(f(ones({1})).item<float>(), 2);
}

TEST(Callables, TheDefaultBackendIsThatOfTheConfigurationAgain) {
  std::string before = get_default_backend();
  set_default_backend("eager");
  EXPECT_EQ(get_default_backend(), "eager");
  set_default_backend();
  EXPECT_EQ(get_default_backend(), before);
}

TEST(Callables, NamesAreCheckedWhereTheyAreGiven) {
  auto body = [](const Tensor& x) { return x; };
  EXPECT_THAT(message_of([&] { compile(body, {.backend = "indutcor"}); }), HasSubstr("inductor"));
  EXPECT_THAT(message_of([&] {
                compile(body, {.mode = "max-autotune", .options = {{"winograd", "\"off\""}}});
              }),
              HasSubstr("both"));
  EXPECT_THAT(message_of([&] {
                compile(body, {.mode = "default", .options = {{"winograd", "\"off\""}}});
              }),
              HasSubstr("both"));
  compile(body, {.mode = "default"});
  compile(body, {.mode = "default", .options = {{"dynamo.recompile_limit", "2"}}});
}

TEST(Callables, TheTextOfAnOptionSetsNoOther) {
  auto body = [](const Tensor& x) { return x; };
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"dynamo.recompile_limit", "1\ndynamo.disable = true"},
                                          {"winograd", "\"off\"\nthreads = 1"},
                                          {"dynamo.disable = true #", "1"}})
    EXPECT_THAT(message_of<UserError>([&] {
                  compile(body, {.backend = "inductor", .options = {{key, value}}});
                }),
                HasSubstr(message("option '{}': expected a name and one TOML value", key)));
  EXPECT_THAT(message_of<UserError>([&] {
                compile(body, {.backend = "eager", .options = {{"dynamo.recompile_limit", "one"}}});
              }),
              HasSubstr("option 'dynamo.recompile_limit':1:"));
  auto f = compile(body, {.backend = "eager", .options = {{"dynamo.recompile_limit", "1 # few"}}});
  EXPECT_EQ(f(ones({1})).item<float>(), 1);
}

}  // namespace
}  // namespace tenon
