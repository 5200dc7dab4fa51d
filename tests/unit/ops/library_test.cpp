// Ops of a program's own, described with TENON_LIBRARY: each kind, in eager and compiled code, and
// what is said of descriptions that cannot be.
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/dispatch.h"
#include "ops/custom_op.h"
#include "unit/message_of.h"

#include <cmath>
#include <thread>

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TENON_LIBRARY(library_test, lib) {
  lib.op("swiglu(Tensor x, Tensor gate, *, float beta=1.0) -> Tensor")
      .formula<3>([](auto x, auto gate, auto beta) { return x * gate * sigmoid(beta * gate); })
      .pt2_compliant();
  lib.op("row_sums(Tensor x, Tensor? bias=None, int[] extra=[]) -> Tensor")
      .meta([](const Tensor& x, std::optional<Tensor>, const std::vector<int64_t>&) {
        return empty({x.size(0)}, x.dtype());
      })
      .kernel([](Tensor& out, const Tensor& x, std::optional<Tensor> bias,
                 const std::vector<int64_t>& extra) {
        auto values = x.to_vector<float>();
        int64_t columns = x.size(1).guard_int();
        for (int64_t i = 0; i < x.size(0).guard_int(); ++i) {
          float sum = bias ? bias->to_vector<float>()[static_cast<size_t>(i)] : 0;
          for (int64_t j = 0; j < columns; ++j) sum += values[static_cast<size_t>(i * columns + j)];
          for (int64_t more : extra) sum += static_cast<float>(more);
          out.data_ptr<float>()[i] = sum;
        }
      });
  lib.def("library_test::sin_and_cos(Tensor x) -> (Tensor, Tensor)")
      .decomposition([](const Tensor& x) { return std::tuple(sin(x), cos(x)); });
  lib.op("twice(Tensor x) -> Tensor")
      .like(0)
      .kernel([](const Tensor& x) { return x * 2; })
      .vjp([](const VjpCtx& c, const Tensor& dy) {
        auto [x] = c.inputs<1>();
        return c.grads(dy * 2 + x * 0);
      });
  lib.op("joined(Tensor[] xs, Tensor k) -> Tensor")
      .meta([](TensorList xs, const Tensor&) {
        return empty({xs[0].size(0) * static_cast<int64_t>(xs.size())}, xs[0].dtype());
      })
      .kernel([](TensorList xs, const Tensor& k) {
        NoGradGuard off;
        return cat(xs) * k;
      })
      .vjp([](const VjpCtx& c, const Tensor& dy) {
        return c.grads(dy * c.input(1), (dy * c.result()).sum(0, true));
      });
  lib.op("clip(Tensor x, float lo, float hi) -> Tensor")
      .formula<3>(
          [](auto x, auto lo, auto hi) { return select(x < lo, lo, select(x > hi, hi, x)); },
          TN_TYPES_FLOAT | TN_TYPES_INT);
}

TENON_LIBRARY(library_lies, lib) {
  auto like = [](const Tensor& x) { return empty(x.sizes(), x.dtype()); };
  lib.op("dtype(Tensor x) -> Tensor").meta(like).kernel([](const Tensor& x) {
    return x.to(Dtype::i64);
  });
  lib.op("rank(Tensor x) -> Tensor").meta(like).kernel([](const Tensor& x) {
    return x.unsqueeze(0).clone();
  });
  lib.op("strides(Tensor x) -> Tensor").meta(like).kernel([](const Tensor& x) {
    return x.t().contiguous().t();
  });
  lib.op("nothing(Tensor x) -> Tensor").meta(like).kernel([](const Tensor&) { return Tensor(); });
}

TENON_LIBRARY(library_broken, lib) { lib.op("nothing(Tensor x) -> Tensor").like(0); }

const Op<Tensor(const Tensor&, const Tensor&, double)> swiglu{"library_test::swiglu"};
const Op<Tensor(const Tensor&)> row_sums{"library_test::row_sums"};
const Op<Tensor(const Tensor&)> twice{"library_test::twice"};

TEST(Library, ResultsAreHeldAgainstTheShapeFunction) {
  Tensor x = ones({2, 3});
  for (auto [name, expected] :
       {std::pair("library_lies::dtype",
                  "result 0 is i64[2, 3] with strides [3, 1], expected f32[2, 3]"),
        std::pair("library_lies::rank", "result 0 is f32[1, 2, 3]"),
        std::pair("library_lies::strides",
                  "with strides [1, 2], expected f32[2, 3] with strides [3, 1]"),
        std::pair("library_lies::nothing", "result 0 is missing")}) {
    const Op<Tensor(const Tensor&)> op{name};
    EXPECT_THAT(message_of<Error>([&] { op(x); }), HasSubstr(expected));
  }
}

TEST(Library, AFormulaIsAnOp) {
  Tensor x = tensor({1.0f, -2.0f, 0.5f}), g = tensor({0.5f, 3.0f, -1.0f});
  auto seen = swiglu(x, g, 2.0).to_vector<float>();
  auto a = x.to_vector<float>(), b = g.to_vector<float>();
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(seen[i], a[i] * b[i] / (1 + std::exp(-2 * b[i])), 1e-6);
  const Op<Tensor(const Tensor&, double, double)> clip{"library_test::clip"};
  EXPECT_THAT(clip(x, -1.0, 0.75).to_vector<float>(), ElementsAre(0.75, -1, 0.5));
}

TEST(Library, KernelsFillWhatTheMetaFunctionSays) {
  Tensor x = ones({2, 3});
  EXPECT_THAT(row_sums(x).to_vector<float>(), ElementsAre(3, 3));
  const Op<Tensor(const Tensor&, std::optional<Tensor>, std::vector<int64_t>)> full{
      "library_test::row_sums"};
  EXPECT_THAT(full(x, tensor({10.0f, 20.0f}), {1, 2}).to_vector<float>(), ElementsAre(16, 26));
}

TEST(Library, CompiledCodeHasThemAsNodes) {
  auto body = [](const Tensor& x) { return row_sums(swiglu(x, x, 1.0)) + twice(ones({1})); };
  for (const char* backend : {"eager", "aot_eager"}) {
    auto f = compile(body, {.backend = backend, .dynamic = true});
    for (int64_t rows : {3, 5}) {
      Tensor x = randn({rows, 4});
      EXPECT_EQ(f(x).to_vector<float>(), body(x).to_vector<float>()) << backend;
    }
    EXPECT_EQ(f.stats().compiles, 1);
    EXPECT_THAT(f.explain(), HasSubstr("library_test.swiglu.default"));
    EXPECT_THAT(f.explain(), HasSubstr("library_test.row_sums.default"));
  }
}

TEST(Library, ADecompositionServesFakesToo) {
  const Op<std::tuple<Tensor, Tensor>(const Tensor&)> both{"library_test::sin_and_cos"};
  auto f = compile([&](const Tensor& x) { return std::get<1>(both(x)); }, {.backend = "eager"});
  EXPECT_THAT(f(zeros({2})).to_vector<float>(), ElementsAre(1, 1));
}

TEST(Library, TheVjpIsKept) {
  const OpEntry* op = find_op("library_test.twice.default");
  Tensor x = ones({2}), grad = tensor({3.0f, 4.0f});
  Value args[] = {Value::of(x)};
  auto grads =
      custom_op_of(*op)->vjp({op, args, nullptr, 1, 1}, std::span(&x, 1), std::span(&grad, 1));
  EXPECT_THAT(grads.at(0).to_vector<float>(), ElementsAre(6, 8));
}

TEST(Library, AVjpGivesAGradientForEachElementOfAList) {
  const Op<Tensor(const std::vector<Tensor>&, const Tensor&)> joined{"library_test::joined"};
  Tensor x = ones({2}).requires_grad_(), k = ones({1}).requires_grad_();
  EXPECT_EQ(
      message_of<Error>([&] {
        joined({x, x, x}, k).sum().backward();
      }),
      "library_test.joined.default: its vjp gave 2 gradients, expected 4: one for each tensor "
      "argument and for each element of a list, in the order of the arguments, undefined where "
      "there is none");
  joined({x}, k).sum().backward();
  EXPECT_THAT(x.grad().to_vector<float>(), ElementsAre(1, 1));
  EXPECT_THAT(k.grad().to_vector<float>(), ElementsAre(2));
}

TEST(Library, ArgumentsAreHeldAgainstTheSchema) {
  Tensor x = ones({2, 3});
  const Op<Tensor(const Tensor&, const Tensor&, const Tensor&)> tensor_for_float{
      "library_test::swiglu"};
  EXPECT_EQ(message_of<Error>([&] { tensor_for_float(x, x, x); }),
            "library_test.swiglu.default: argument beta must be float, found Tensor");
  const Op<Tensor(double)> number_for_tensor{"library_test::twice"};
  EXPECT_EQ(message_of<Error>([&] { number_for_tensor(2.0); }),
            "library_test.twice.default: argument x must be Tensor, found float");
  EXPECT_EQ(message_of<Error>([&] { twice(Tensor()); }),
            "library_test.twice.default: argument x must be Tensor, found None");
  const Op<Tensor(const Tensor&, std::optional<double>)> float_for_int{"aten::cumsum"};
  EXPECT_EQ(message_of<Error>([&] { float_for_int(x, 1.0); }),
            "aten.cumsum.default: argument dim must be int, found float");
  const Op<Tensor(const Tensor&, const Tensor&)> gives_a_number{"aten::equal"};
  EXPECT_EQ(message_of<Error>([&] { gives_a_number(x, x); }),
            "aten.equal.default gives bool; tenon::Op is for ops that give tensors");
}

TEST(Library, NumbersConvertWhereNothingIsLost) {
  Tensor x = ones({2, 3});
  const Op<Tensor(const Tensor&, const Tensor&, int)> int_for_float{"library_test::swiglu"};
  EXPECT_EQ(int_for_float(x, x, 2).to_vector<float>(), swiglu(x, x, 2.0).to_vector<float>());
  const Op<Tensor(const Tensor&, int64_t)> one_for_a_list{"aten::sum.dim_IntList"};
  EXPECT_THAT(one_for_a_list(x, 1).to_vector<float>(), ElementsAre(3, 3));
  const Op<std::vector<Tensor>(const Tensor&, int64_t, bool)> bool_for_int{"aten::unbind.int"};
  EXPECT_THAT(message_of<Error>([&] { bool_for_int(x, 1, true); }), HasSubstr("takes 2 arguments"));
  const Op<std::vector<Tensor>(const Tensor&, bool)> unbind{"aten::unbind.int"};
  EXPECT_EQ(unbind(x, true).size(), 3u);
}

int calls_of_note = 0;
TENON_LIBRARY(library_notes, lib) {
  lib.op("note(Tensor x) -> ()").kernel([](const Tensor&) { ++calls_of_note; });
}

TEST(Library, WhatGivesAndWritesNothingRunsForItsEffect) {
  const Op<void(const Tensor&)> note{"library_notes::note"};
  for (const char* backend : {"eager", "aot_eager"}) {
    auto f = compile(
        [&](const Tensor& x) {
          note(x * 2);
          return x + 1;
        },
        {.backend = backend});
    calls_of_note = 0;
    for (int i = 0; i < 3; ++i) f(ones({2}));
    EXPECT_EQ(calls_of_note, 3) << backend;
  }
}

TEST(Library, CopiesOfAnOpAreTheSame) {
  Op<Tensor(const Tensor&)> copy = twice;
  EXPECT_THAT(copy(ones({2})).to_vector<float>(), ElementsAre(2, 2));
  copy = Op<Tensor(const Tensor&)>{"library_test::none"};
  EXPECT_THAT(message_of<Error>([&] { copy(ones({2})); }), HasSubstr("library_test::none"));
  copy = twice;
  EXPECT_THAT(copy(ones({2})).to_vector<float>(), ElementsAre(2, 2));
}

TEST(Library, WrongDescriptionsAreTold) {
  const Op<Tensor(const Tensor&)> nothing{"library_broken::nothing"};
  EXPECT_THAT(
      message_of<Error>([&] { nothing(ones({1})); }),
      HasSubstr("there is no op library_broken::nothing; its library could not be added: op "
                "library_broken.nothing.default: nothing runs it"));
  auto told = [](const std::string& schema) {
    return message_of<Error>([&] {
      Library::add("library_more", [&](Library& lib) {
        lib.op(schema).like(0).kernel([](const Tensor& x) { return x; });
      });
    });
  };
  EXPECT_THAT(told("other::a(Tensor x) -> Tensor"), HasSubstr("does not belong to library"));
  EXPECT_THAT(told("a(Tensor x) ->"), HasSubstr("expected"));
  EXPECT_EQ(told("a(Tensor x) -> Tensor"), "no error");
  EXPECT_THAT(told("a(Tensor x) -> Tensor"), HasSubstr("the name is taken, by a program"));
  EXPECT_EQ(told("b(Tensor x, int k) -> Tensor"),
            "op library_more.b.default: its kernel takes 1 arguments, its schema has 2");
  EXPECT_EQ(told("b(Tensor[] x) -> Tensor"),
            "op library_more.b.default: its kernel takes a Tensor as argument x, which is Tensor[] "
            "in its schema");
  const Op<Tensor()> none{"library_test::twice"};
  EXPECT_THAT(message_of<Error>([&] { none(); }), HasSubstr("argument x has no default"));
}

TEST(Library, FunctionsTakeWhatTheSchemaGives) {
  int n = 0;
  auto told = [&n](const std::string& arguments, auto function) {
    return message_of<Error>([&] {
      Library::add("library_types", [&](Library& lib) {
        lib.op("f" + std::to_string(n++) + "(" + arguments + ") -> Tensor").decomposition(function);
      });
    });
  };
  auto whole = [](int64_t) { return ones({1}); };
  auto real = [](std::optional<double>) { return ones({1}); };
  auto any = [](Number) { return ones({1}); };
  auto text = [](const std::string&) { return ones({1}); };
  for (const char* taken : {"int k", "SymInt k", "Scalar k", "bool k"})
    EXPECT_EQ(told(taken, whole), "no error") << taken;
  for (const char* taken : {"float k", "int? k", "Scalar k"})
    EXPECT_EQ(told(taken, real), "no error") << taken;
  for (const char* taken : {"float k", "bool k", "int k"})
    EXPECT_EQ(told(taken, any), "no error") << taken;
  EXPECT_EQ(told("str k", text), "no error");
  EXPECT_THAT(told("float k", whole),
              HasSubstr("its decomposition takes an integer as argument k, which is float in"));
  EXPECT_THAT(told("Tensor k", real), HasSubstr("takes a real number as argument k"));
  EXPECT_THAT(told("int[] k", text), HasSubstr("takes a text as argument k, which is int[] in"));
}

TEST(Library, ATupleHasNoMoreResultsThanTheOp) {
  const Op<std::tuple<Tensor, Tensor>(const Tensor&)> two{"aten::relu"};
  EXPECT_EQ(message_of<Error>([&] { two(ones({1})); }),
            "aten::relu: the tuple of its signature has 2 tensors, the op gives 1");
}

// Entries are complete before anybody can find them, whoever else is adding some.
TEST(Library, OpsAreAddedWhileOthersRun) {
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop)
      for (size_t i = 0; i < op_count(); ++i)
        ASSERT_FALSE(entry_of(static_cast<OpId>(i)).name.empty());
  });
  std::vector<std::thread> writers;
  for (int t = 0; t < 3; ++t)
    writers.emplace_back([t] {
      for (int i = 0; i < 50; ++i) {
        std::string name = message("op_{}_{}", t, i);
        Library::add("library_threads", [&](Library& lib) {
          lib.op(name + "(Tensor x) -> Tensor").formula<1>([](auto x) { return x + 1; });
        });
        const std::string full = "library_threads::" + name;
        const Op<Tensor(const Tensor&)> op{full.c_str()};
        EXPECT_EQ(op(zeros({1})).item<float>(), 1);
      }
    });
  for (std::thread& w : writers) w.join();
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace tenon
