// Tensors that are read across their rows: every dtype, sizes that tiles divide and others, alone
// and with what follows, on each backend that makes code.
#include "backend/catalog.h"
#include "plugins/code_makers.h"

#include <tenon/tenon.h>

#include <gtest/gtest.h>

namespace tenon {
namespace {

struct Turn {
  std::vector<int64_t> sizes, order;
};

const Turn turns[] = {{{64, 16, 32}, {2, 0, 1}},      {{16, 16, 32}, {2, 0, 1}},
                      {{256, 256}, {1, 0}},           {{48, 80}, {1, 0}},
                      {{2, 32, 8, 12}, {0, 2, 3, 1}}, {{2, 8, 12, 32}, {0, 3, 1, 2}},
                      {{3, 4, 40, 24}, {0, 1, 3, 2}}, {{7, 9, 11, 13}, {3, 1, 0, 2}},
                      {{100, 10, 100}, {2, 1, 0}},    {{1, 16, 64}, {2, 1, 0}},
                      {{96, 1, 28}, {2, 1, 0}}};

std::string told(const Turn& turn, const std::string& backend, Dtype dtype) {
  std::string out = backend + ", dtype " + std::to_string(static_cast<int>(dtype)) + ", sizes";
  for (int64_t n : turn.sizes) out += " " + std::to_string(n);
  return out;
}

void expect_turned(const Turn& turn, const std::string& backend, Dtype dtype) {
  NoGradGuard no_grad;
  manual_seed(1);
  Tensor x = (randn(turn.sizes) * 50).to(dtype);
  auto copy = [&](const Tensor& x) { return x.permute(turn.order).contiguous(); };
  auto sums = [&](const Tensor& x) {
    Tensor turned = x.permute(turn.order);
    return turned + turned.contiguous();
  };
  EXPECT_TRUE(equal(compile(copy, {.backend = backend})(x), copy(x))) << told(turn, backend, dtype);
  if (dtype == Dtype::bool_) return;
  EXPECT_TRUE(equal(compile(sums, {.backend = backend})(x), sums(x)))
      << "sums, " << told(turn, backend, dtype);
}

TEST(TurnedTensors, AreWhatTheInterpreterMakesOfThem) {
  set_plugin_search({}, {});
  for (const std::string& backend : code_makers())
    for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16, Dtype::i64, Dtype::i32,
                        Dtype::i8, Dtype::bool_})
      for (const Turn& turn : turns) expect_turned(turn, backend, dtype);
}

}  // namespace
}  // namespace tenon
