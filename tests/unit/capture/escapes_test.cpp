// Tensors that a body keeps beyond its call have data, wherever in the body they were made.
#include "unit/capture/short.h"

#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tenon {
namespace {

// Calls `body` three times; after each, what it has kept is real and as expected.
template <class Body>
void expect_kept(Tensor& kept, Body body, const std::vector<float>& expected) {
  auto f = compile(body, eager);
  for (int i = 0; i < 3; ++i) {
    kept = Tensor();
    f(ones({3}));
    ASSERT_TRUE(kept.defined() && !kept.is_fake()) << "call " << i;
    EXPECT_EQ(kept.to_vector<float>(), expected) << "call " << i;
  }
}

TEST(Escapes, BeforeALookWithNothingBehindIt) {
  Tensor kept;
  expect_kept(kept,
              [&](const Tensor& x) {
                kept = x + 1.0;
                return x.sum().item<float>() > 0;
              },
              {2, 2, 2});
}

TEST(Escapes, BeforeALookWithOperationsBehindIt) {
  Tensor kept;
  expect_kept(kept,
              [&](const Tensor& x) {
                kept = x + 1.0;
                return x.sum().item<float>() > 0 ? x * 2.0 : x;
              },
              {2, 2, 2});
}

TEST(Escapes, AnArgumentBehindAnAddress) {
  Tensor kept;
  expect_kept(kept,
              [&](const Tensor& x) {
                float first = x.to(Dtype::f32).data_ptr<float>()[0];
                kept = x;
                return x * double(first);
              },
              {1, 1, 1});
}

TEST(Escapes, WhatWasMadeOutsideOfTheGraph) {
  Tensor kept;
  expect_kept(kept,
              [&](const Tensor& x) {
                kept = masked_select(x * 3.0, x > 0);
                return x + 1.0;
              },
              {3, 3, 3});
}

TEST(Escapes, FromABodyThatThrows) {
  Tensor kept;
  auto f = compile(
      [&](const Tensor& x) -> Tensor {
        kept = x + 1.0;
        throw std::runtime_error("mine");
      },
      eager);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(f(ones({2})), std::runtime_error);
    EXPECT_EQ(kept.to_vector<float>(), (std::vector<float>{2, 2}));
  }
}

TEST(Escapes, WhereResultsAreOthers) {
  bool flag = false;
  auto f = compile(
      [&](const Tensor& x, const Tensor& y) {
        Tensor t = x * 2.0, u = x + 1.0;
        return flag ? std::vector<Tensor>{y, t, u} : std::vector<Tensor>{t, u, x};
      },
      eager);
  Tensor x = full({1}, 1.0), y = full({1}, 7.0);
  for (int i = 0; i < 6; ++i) {
    flag = i % 2;
    std::vector<Tensor> r = f(x, y);
    EXPECT_EQ(r[0].item<float>(), flag ? 7 : 2);
    EXPECT_EQ(r[2].item<float>(), flag ? 2 : 1);
  }
}

TEST(Escapes, OneTensorWhereTheRecordingHadTwo) {
  Tensor m = full({3}, 1.0), other = full({3}, 2.0);
  auto f = compile([&](const Tensor& y) { return std::pair{m.flatten(), y + m}; }, eager);
  for (const Tensor& y : {other, m, other, m}) {
    auto [first, second] = f(y);
    EXPECT_EQ(first[0].item<float>(), 1);
    EXPECT_EQ(second[0].item<float>(), y.is_same(m) ? 2 : 3);
  }
}

// The answer is of one call, and a body that is left out would not be asked again.
TEST(Escapes, APureBodyThatAsksWhetherAnArgumentIsCapturedRunsOnEveryCall) {
  Tensor w = full({3}, 1.0), other = full({3}, 5.0);
  auto f = compile([&](const Tensor& x) { return x.is_same(w) ? x * 3.0 : x + 1.0; },
                   {.backend = "eager", .pure = true});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(f(w)[0].item<float>(), 3);
    EXPECT_EQ(f(other)[0].item<float>(), 6);
  }
  EXPECT_NE(f.explain().find("is_same() of an argument and another tensor"), std::string::npos);
}

template <class F>
std::string error_of(const F& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

TEST(Escapes, OfABodyThatMustBeOneGraphAreNamed) {
  Tensor kept = ones({2, 3});
  auto f = compile(
      [&](const Tensor& x) {
        kept = cat({kept, x});
        return kept.sum();
      },
      {.backend = "eager", .fullgraph = true});
  EXPECT_EQ(error_of([&] {
              f(ones({2, 3}));
            }),
            "GraphBreakError: a traced tensor (f32[4, 3]) that aten.cat.default made is stored "
            "outside of the function, which needs a graph break, and fullgraph = true forbids "
            "cutting the graph; return it and store it after the call, or leave out fullgraph");
}

TEST(Escapes, LooksOfTheLibraryHaveNoPlaceOfItsOwn) {
  auto f = compile([](const Tensor& x) { return x * array_view<float, 1>(x + 1.0)(1); },
                   {.backend = "eager", .fullgraph = true});
  std::string error = error_of([&] { f(ones({2})); });
  EXPECT_TRUE(error.starts_with("GraphBreakError: item() looks at data, and")) << error;
}

// Behind the operation that fails, in a place whose former tensor nobody knows.
TEST(Escapes, OfAFailedCallSayWhyTheyHaveNoData) {
  for (int bad_call : {0, 1}) {
    std::vector<Tensor> kept{zeros({1})};
    auto f = compile(
        [&](const Tensor& x, const Tensor& at) {
          kept[0] = x.index_select(0, at) * 2.0;
          return kept[0] + 1.0;
        },
        eager);
    for (int i = 0; i < bad_call; ++i) f(ones({2}), tensor({1}));
    EXPECT_NE(error_of([&] { f(ones({2}), tensor({9})); }).find("index 9"), std::string::npos);
    const char* why =
        "has no data: the call of a compiled callable that made it ended with an error before it "
        "was computed; assign the tensor anew";
    for (const std::string& error : {error_of([&] { static_cast<void>(kept[0] + 1.0); }),
                                     error_of([&] { kept[0].item<float>().value(); })})
      EXPECT_NE(error.find(why), std::string::npos) << error;
    EXPECT_EQ(f(ones({2}), tensor({1})).item<float>(), 3);
    EXPECT_EQ(kept[0].item<float>(), 2);
  }
}

}  // namespace
}  // namespace tenon
