// Errors that say of a body that it cannot be recorded: the call ends with them although the body catches
// them, and nothing is compiled of what it does then. Its own errors stay what they are.
#include "unit/message_of.h"

#include <tenon/autograd.h>
#include <tenon/compiler.h>
#include <tenon/control_flow.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::HasSubstr;

constexpr const char* in_front = "GraphBreakError: item() looks at data";

class CaughtErrors : public testing::TestWithParam<const char*> {
 protected:
  static Options in_one_graph() { return {.backend = GetParam(), .fullgraph = true}; }

  /// In each of two calls.
  template <class F>
  static void expect_error(F& f, const std::string& text) {
    for (int i = 0; i < 2; ++i)
      EXPECT_THAT(message_of([&] { f(full({2}, 5.0)); }), HasSubstr(text));
    EXPECT_EQ(f.stats().compiles, 0);
  }
};

TEST_P(CaughtErrors, ALookUnderFullgraph) {
  auto f = compile(
      [](const Tensor& x) {
        bool is_large = false;
        try {
          is_large = x.sum().item<float>() > 3;
        } catch (const std::exception&) {
        }
        return is_large ? x * 2 : x * 3;
      },
      in_one_graph());
  expect_error(f, in_front);
}

TEST_P(CaughtErrors, NoOperationComesBehindIt) {
  auto f = compile(
      [](const Tensor& x) {
        try {
          static_cast<void>(x.version());
        } catch (...) {
        }
        return x;
      },
      in_one_graph());
  expect_error(f, "GraphBreakError: version() looks at data");
}

TEST_P(CaughtErrors, MemoryThatIsLentAgainUnderFullgraph) {
  float memory[2] = {1, 2};
  Tensor lent = from_memory(memory, {2}, Dtype::f32);
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = lent * 2;
        try {
          from_memory(memory, {2}, Dtype::f32);
        } catch (const std::exception&) {
        }
        return x + y;
      },
      in_one_graph());
  expect_error(f, "GraphBreakError: from_memory() of memory that the body has used needs a graph");
}

TEST_P(CaughtErrors, AnotherErrorTakesItsPlaceInTheBody) {
  auto f = compile(
      [](const Tensor& x) {
        try {
          if (x.sum().item<float>() > 3) return x;
        } catch (const UserError&) {
          throw std::runtime_error("no sum");
        }
        return x * 2;
      },
      in_one_graph());
  expect_error(f, in_front);
}

TEST_P(CaughtErrors, ANumberOfTheDataDecides) {
  auto f = compile(
      [](const Tensor& x) {
        SymInt n = x.sum().to(Dtype::i64).item<int64_t>();
        bool is_large = false;
        try {
          is_large = n > 3;
        } catch (const std::exception&) {
        }
        return is_large ? x * 2 : x * 3;
      },
      in_one_graph());
  expect_error(f, "DataDependentError: ");
}

TEST_P(CaughtErrors, ErrorOnGraphBreak) {
  auto f = compile(
      [](const Tensor& x) {
        compiler::ErrorOnGraphBreak strict;
        bool is_large = false;
        try {
          is_large = x.sum().item<float>() > 3;
        } catch (const std::exception&) {
        }
        return is_large ? x * 2 : x * 3;
      },
      {.backend = GetParam()});
  expect_error(f, "GraphBreakError: item()");
}

TEST_P(CaughtErrors, AHookThatWouldSeeAPartOfAGradient) {
  auto f = compile(
      [](const Tensor& w) {
        Tensor h = w * 3, twice = h * 2;
        graph_break("here");
        try {
          autograd::register_hook(h, [](const Tensor& g) { return g * 10; });
        } catch (const std::exception&) {
        }
        return twice + h;
      },
      {.backend = GetParam()});
  for (int call = 0; call < 3; ++call) {
    Tensor w = ones({2}).requires_grad_();
    EXPECT_THAT(message_of([&] { f(w); }), HasSubstr("whose part of its gradient"));
  }
}

TEST_P(CaughtErrors, AWriteThatTheStateDoesNotName) {
  Tensor named = zeros({2}), other = zeros({2});
  auto f = compile(
      [&](const Tensor& x) {
        try {
          other.add_(x);
        } catch (const std::exception&) {
        }
        return named.add_(x) * 1.0;
      },
      state(named), in_one_graph());
  expect_error(f, "that state() does not name");
  EXPECT_EQ(named.sum().item<float>() + other.sum().item<float>(), 0);
}

TEST_P(CaughtErrors, ALookInABranch) {
  auto f = compile(
      [](const Tensor& x) {
        return cond(
            x.sum() > 0,
            [](const Tensor& t) {
              try {
                if (t.max().item<float>() > 2) return t * 2;
              } catch (const std::exception&) {
                return t * 100;
              }
              return t * 3;
            },
            [](const Tensor& t) { return t * 1; }, x);
      },
      {.backend = GetParam()});
  expect_error(f, in_front);
}

TEST_P(CaughtErrors, BranchesThatDiffer) {
  auto f = compile(
      [](const Tensor& x) {
        try {
          return cond(
              x.sum() > 0, [](const Tensor& t) { return t * 2; },
              [](const Tensor& t) { return t.sum(); }, x);
        } catch (const std::exception&) {
          return x * 100;
        }
      },
      {.backend = GetParam()});
  expect_error(f, "cond");
}

TEST_P(CaughtErrors, ALookInADestructorUnderFullgraph) {
  struct Report {
    const Tensor& t;
    float& seen;
    ~Report() { seen += t.sum().item<float>().value(); }
  };
  float seen = 0;
  auto f = compile(
      [&](const Tensor& x) {
        Report one{x, seen}, another{x, seen};
        return x * 2;
      },
      in_one_graph());
  expect_error(f, in_front);
}

TEST_P(CaughtErrors, TheBodysOwnAreItsOwn) {
  auto f = compile(
      [](const Tensor& x) {
        try {
          return x.reshape({3});
        } catch (const UserError&) {
          return x * 2;
        }
      },
      in_one_graph());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(f(ones({2})).sum().item<float>(), 4);
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(CaughtErrors, AnotherVersionWhereNoneMayBe) {
  auto f = compile(
      [](const Tensor& x, bool looks) {
        Tensor y = x * 2;
        if (!looks) return y + 1;
        try {
          if (y.sum().item<float>() > 3) return y;
        } catch (const std::exception&) {
        }
        return y * 3;
      },
      {.backend = GetParam()});
  f(ones({2}), false);
  compiler::StanceScope fixed(compiler::Stance::fail_on_recompile);
  EXPECT_THAT(message_of([&] { f(ones({2}), true); }), HasSubstr("RecompileError"));
}

INSTANTIATE_TEST_SUITE_P(Backends, CaughtErrors, testing::Values("eager", "aot_eager", "inductor"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tenon
