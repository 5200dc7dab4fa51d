// Spellings that programs write first: printing, indexing, literals, arithmetic with sizes and
// numbers, named results.
#include <tenon/tenon.h>

#include "unit/message_of.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <vector>

namespace tenon {
namespace {

std::string printed(const auto& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(Spellings, TensorsArePrintedAsInPyTorch) {
  EXPECT_EQ(printed(tensor({1.0f, 2.5f})), "tensor([1.0000, 2.5000])");
  EXPECT_EQ(printed(tensor({1.0f, 2.0f})), "tensor([1., 2.])");
  EXPECT_EQ(printed(tensor({1, -20})), "tensor([  1, -20])");
  EXPECT_EQ(printed(tensor({true, false})), "tensor([ true, false])");
  EXPECT_EQ(printed(tensor(3.5)), "tensor(3.5000, dtype=f64)");
  EXPECT_EQ(printed(tensor({{1, 2}, {3, 4}})), "tensor([[1, 2],\n        [3, 4]])");
  EXPECT_EQ(printed(Tensor()), "tensor(undefined)");
  EXPECT_EQ(printed(zeros({0, 3})), "tensor([], size=[0, 3])");
  EXPECT_EQ(printed(tensor({1e-7f, 1.5f})), "tensor([1.0000e-07, 1.5000e+00])");
  EXPECT_EQ(printed(tensor({INFINITY, -1.0f})), "tensor([inf, -1.])");
}

TEST(Spellings, LongTensorsAreCutInTheMiddle) {
  EXPECT_EQ(printed(arange(2000)), "tensor([   0,    1,    2, ..., 1997, 1998, 1999])");
}

TEST(Spellings, FactsArePrinted) {
  Tensor x = ones({2, 3});
  EXPECT_EQ(printed(x.sizes()), "[2, 3]");
  EXPECT_EQ(printed(x.dtype()), "f32");
  EXPECT_EQ(printed(x.device()), "cpu");
  EXPECT_EQ(printed(x.size(1)), "3");
  EXPECT_EQ(printed(x.sum().item<float>()), "6");
}

TEST(Spellings, BracketsSelectAndAssignmentToThemWrites) {
  Tensor x = tensor({{1, 2}, {3, 4}});
  EXPECT_EQ(x[1].to_vector<int64_t>(), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(x[-1][0].item<int64_t>(), 3);
  EXPECT_EQ(x[x > 2].to_vector<int64_t>(), (std::vector<int64_t>{3, 4}));
  x[0] = tensor({7, 8});
  x[1][1] = 9;
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{7, 8, 3, 9}));
  Tensor row = x[0];
  row = zeros({2});  // another tensor for the handle; the elements stay
  EXPECT_EQ(x[0][0].item<int64_t>(), 7);
}

TEST(Spellings, CompoundAssignmentTakesNumbers) {
  Tensor x = ones({2});
  x += 2;
  x -= 1.0;
  x *= 3;
  x /= x.sum().item<float>();
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0.5f, 0.5f}));
}

TEST(Spellings, LiteralsHaveTheTypesOfPyTorch) {
  EXPECT_EQ(tensor({1, 2, 3}).dtype(), Dtype::i64);
  EXPECT_EQ(tensor(7).dtype(), Dtype::i64);
  EXPECT_EQ(tensor(true).dtype(), Dtype::bool_);
  EXPECT_EQ(tensor({1.0f, 2.0f}).dtype(), Dtype::f32);
  EXPECT_EQ(tensor(3.0).dim(), 0);
  EXPECT_EQ(tensor(std::vector<float>{1, 2}).sizes(), IntList({2}));
  EXPECT_EQ(tensor({{{1, 2}}, {{3, 4}}}).sizes(), IntList({2, 1, 2}));
  EXPECT_THROW(tensor({{1, 2}, {3}}), UserError);
}

TEST(Spellings, SizesCompare) {
  Tensor x = ones({2, 3}), y = zeros({2, 3}), z = ones({3, 2});
  EXPECT_TRUE(x.sizes() == y.sizes());
  EXPECT_TRUE(x.sizes() != z.sizes());
  EXPECT_TRUE(x.sizes() == (std::vector<int64_t>{2, 3}));
  bool is_two = x.size(0) == 2;
  EXPECT_TRUE(is_two);
}

TEST(Spellings, ResultsHaveNames) {
  Tensor x = tensor({1.0f, 3.0f, 2.0f});
  EXPECT_EQ(x.topk(2).values.to_vector<float>(), (std::vector<float>{3, 2}));
  EXPECT_EQ(x.topk(2).indices.to_vector<int64_t>(), (std::vector<int64_t>{1, 2}));
  auto [values, order] = x.sort();
  Tensor largest, where;
  std::tie(largest, where) = x.max(0, false);
  EXPECT_EQ(std::get<1>(x.max(0, false)).item<int64_t>(), 1);
  auto kept = x.topk(1);
  auto copy = kept;
  kept.values = zeros({1});
  EXPECT_EQ(copy.values.item<float>(), 3);
  EXPECT_EQ(std::get<0>(kept).item<float>(), 0);
}

TEST(Spellings, ScalarsAreNumbers) {
  Tensor x = tensor({4.0f, 9.0f});
  auto s = x.max().item<float>();
  EXPECT_EQ(std::sqrt(s), 3);
  EXPECT_EQ(std::max(s, 10.0f), 10);
  EXPECT_EQ(std::min(s, 10.0f), 9);
  EXPECT_EQ(-s + 1, -8);
  EXPECT_EQ(s * 2.0f - s / 3, 15);
  float sum = 0;
  sum += s;
  EXPECT_EQ(sum, 9);
  auto n = x.argmax().item<int64_t>();
  EXPECT_EQ(std::sqrt(n), 1);
  EXPECT_EQ((std::vector<int>{5, 6})[static_cast<size_t>(n)], 6);
}

TEST(Spellings, DevicesHaveNames) {
  EXPECT_EQ(Device("cpu"), kCPU);
  EXPECT_EQ(Device(std::string("cuda:1")), Device(DeviceType::cuda, 1));
  EXPECT_EQ(Device("cuda"), Device(DeviceType::cuda));
  EXPECT_EQ(Device("meta").type, DeviceType::meta);
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:1 ", "cpu:-2", "device3:0"}) {
    EXPECT_EQ(parse_device(text), std::nullopt) << text;
    EXPECT_EQ(message_of<UserError>([&] { Device device(text); }),
              "Device: expected a device such as cpu, cuda, cuda:1 or meta, found '" +
                  std::string(text) + "'");
  }
  static_assert(!std::is_convertible_v<const char*, Device>);
  static_assert(!std::is_constructible_v<Device, int>);
  static_assert(!std::is_constructible_v<Device, std::nullptr_t>);
}

TEST(Spellings, TensorsGoToADeviceByItself) {
  Tensor x = tensor({1.0, 2.0});
  EXPECT_EQ(x.to(kCPU).dtype(), Dtype::f64);
  EXPECT_TRUE(x.to(kCPU).is_same(x));
  EXPECT_FALSE(x.to(kCPU, false, /*copy=*/true).is_same(x));
  EXPECT_TRUE(x.to(Device("meta")).is_fake());
  EXPECT_EQ(to(x, DeviceType::meta).device(), Device("meta"));
}

TEST(Spellings, KindsOfElementsAreAskedFor) {
  EXPECT_TRUE(ones({1}).is_floating_point());
  EXPECT_FALSE(tensor({1, 2}).is_floating_point());
  EXPECT_FALSE(ones({1}).is_complex());
  EXPECT_TRUE(ones({1}).to(Dtype::c64).is_complex());
}

TEST(Spellings, PointersMayBeForReading) {
  Tensor x = tensor({1.5f, 2.0f});
  const float* p = x.data_ptr<const float>();
  EXPECT_EQ(p, x.data_ptr<float>());
  EXPECT_THROW(x.data_ptr<const double>(), UserError);
}

TEST(Spellings, VectorsOfVectorsAreTensors) {
  std::vector<std::vector<float>> rows{{1, 2, 3}, {4, 5, 6}};
  EXPECT_TRUE(equal(tensor(rows), tensor({{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}})));
  EXPECT_EQ(tensor(std::vector{rows, rows, rows}).sizes(), SymIntList({3, 2, 3}));
  EXPECT_EQ(tensor(std::vector<std::vector<int64_t>>()).sizes(), SymIntList({0}));
  rows[1].pop_back();
  EXPECT_THROW(tensor(rows), UserError);
}

TEST(Spellings, SizesAreNumbers) {
  SymInt n = ones({4, 2}).size(0);
  EXPECT_EQ(std::sqrt(n), 2);
  EXPECT_EQ(std::pow(n, 2), 16);
  EXPECT_EQ(std::max(n, 7), 7);
  EXPECT_EQ(std::min(n, SymInt(3)), 3);
  EXPECT_EQ(1.0 / n, 0.25);
  EXPECT_EQ(n * 0.5, 2.0);
  EXPECT_EQ(n++, 4);
  EXPECT_EQ(--n, 4);
  n /= 3;
  EXPECT_EQ(n, 1);
}

template <class... Numbers>
concept ListOfTensors = requires(Numbers... n) {
  TensorList{n...};
};

// x.index({0, 1}) would name address 0.
TEST(Spellings, IntegersAreNoListOfTensors) {
  static_assert(!ListOfTensors<int, int> && !ListOfTensors<int>);
  EXPECT_EQ(ones({2, 3}).index({{}, tensor({0, 1})}).size(1), 2);
}

TEST(Spellings, SymbolicFloatsKeepTheirSymbolInArithmetic) {
  auto f = compile(
      [](const Tensor& x, SymFloat a) {
        SymFloat b = a * 2 + 1.0;
        b /= 4;
        return x * b - a / x.size(0);
      },
      {.backend = "eager"});
  Tensor x = ones({2});
  for (double a : {1.0, 2.0, 3.0, 4.0, 5.0, 6.5})
    EXPECT_EQ(f(x, a).to_vector<float>()[0], static_cast<float>((a * 2 + 1) / 4 - a / 2)) << a;
  EXPECT_LE(f.stats().compiles, 2);
}

}  // namespace
}  // namespace tenon
