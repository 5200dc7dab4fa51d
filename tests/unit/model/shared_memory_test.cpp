// Models whose inputs share memory: with each other, and with their own buffers.
#include "unit/formats/written_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tenon/ops/view.h>
#include <tenon/tenon.h>

namespace tenon {
namespace {

using formats::testing::WrittenArchive;

// x.add_(1); return y * 2
Model add_then_double(const std::string& backend) {
  WrittenArchive archive;
  archive.call("add_.Tensor", "x", WrittenArchive::with(1), "add_")
      .call("mul.Tensor", "y", WrittenArchive::with(2), "mul");
  return archive.load(backend, {"mul"});
}

Tensor counts(int64_t n = 32) { return arange(n, Dtype::f32); }
Tensor matrix_at(const Tensor& memory, int64_t begin, int64_t row = 4, int64_t column = 1) {
  return memory.as_strided({4, 4}, {row, column}, begin);
}

class SharedMemory : public ::testing::TestWithParam<const char*> {};

TEST_P(SharedMemory, WhatIsWrittenToOneArgumentIsSeenInTheOther) {
  struct Case {
    int64_t begin, row, column;
  };
  Model model = add_then_double(GetParam());
  for (int turn = 0; turn < 2; ++turn)
    for (auto [begin, row, column] : {Case{0, 4, 1}, {3, 4, 1}, {16, 4, 1}, {0, 1, 4}, {2, 5, 1}}) {
      Tensor memory = counts(64), wanted = counts(64);
      Tensor found = model(matrix_at(memory, 0), matrix_at(memory, begin, row, column));
      matrix_at(wanted, 0).add_(1);
      EXPECT_TRUE(equal(found, matrix_at(wanted, begin, row, column) * 2)) << begin << " " << row;
      EXPECT_TRUE(equal(memory, wanted));
      found = model(matrix_at(memory, begin, row, column), matrix_at(memory, 0));
      matrix_at(wanted, begin, row, column).add_(1);
      EXPECT_TRUE(equal(found, matrix_at(wanted, 0) * 2)) << begin << " " << row;
      EXPECT_TRUE(equal(memory, wanted));
    }
}

TEST_P(SharedMemory, MemoryThatWasLentTwiceIsShared) {
  Model model = add_then_double(GetParam());
  std::vector<float> memory(32, 1);
  Tensor x = from_memory(memory.data(), {4, 4}, Dtype::f32);
  Tensor y = from_memory(memory.data() + 8, {4, 4}, Dtype::f32);
  Tensor found = model(x, y);
  EXPECT_EQ(found.sum().item<float>().value(), 48);
}

TEST_P(SharedMemory, WindowsThatSlideAreNotCompiledForever) {
  Model model = add_then_double(GetParam());
  Tensor memory = counts(64);
  for (int64_t begin = 0; begin < 40; ++begin) {
    Tensor wanted = memory.clone();
    matrix_at(wanted, 0).add_(1);
    Tensor found = model(matrix_at(memory, 0), matrix_at(memory, begin));
    EXPECT_TRUE(equal(found, matrix_at(wanted, begin) * 2)) << begin;
  }
  EXPECT_LE(model.compiles(), 10U);
}

TEST_P(SharedMemory, AModelInABodySharesTheMemoryOfItsArguments) {
  Model model = add_then_double(GetParam());
  auto f = compile([&](const Tensor& x, const Tensor& y) { return Tensor(model(x, y)); },
                   {.backend = GetParam()});
  for (int turn = 0; turn < 3; ++turn) {
    Tensor memory = counts(), wanted = counts();
    matrix_at(wanted, 0).add_(1);
    Tensor found = f(matrix_at(memory, 0), matrix_at(memory, 0, 1, 4));
    EXPECT_TRUE(equal(found, matrix_at(wanted, 0, 1, 4) * 2));
    EXPECT_TRUE(equal(memory, wanted));
  }
}

// c.mul_(2).add_(1); return c, y + c
TEST_P(SharedMemory, AStateThatIsReturnedIsPassedBack) {
  WrittenArchive archive;
  archive.call("mul_.Tensor", "b_c", WrittenArchive::with(2), "mul_")
      .call("add_.Tensor", "mul_", WrittenArchive::with(1), "add_")
      .call("add.Tensor", "y", WrittenArchive::with("add_"), "add");
  Model model = archive.load(GetParam(), {"add_", "add"});
  Tensor x = zeros({4, 4}), state = zeros({4, 4});
  float wanted[] = {1, 6, 14};
  for (float value : wanted) {
    Tree results = model(x, state);
    state = results[0];
    EXPECT_EQ(results[1].tensor().max().item<float>().value(), value);
  }
}

// c.select(0, 0).add_(1); return d + x[0], where d is that row
TEST_P(SharedMemory, BuffersOverOneRecordAreWrittenThroughViews) {
  WrittenArchive archive;
  archive.call("select.int", "b_c", WrittenArchive::first_row(), "row", "4")
      .call("add_.Tensor", "row", WrittenArchive::with(1), "add_", "4")
      .call("select.int", "x", WrittenArchive::first_row(), "given", "4")
      .call("add.Tensor", "b_d", WrittenArchive::with("given"), "sum", "4");
  Model model = archive.load(GetParam(), {"sum"});
  for (float wanted : {1, 2, 3})
    EXPECT_EQ(Tensor(model(zeros({4, 4}), zeros({4, 4}))).max().item<float>().value(), wanted);
}

// x.add_(1); return x, x.select(0, 0), y.select(0, 0)
TEST_P(SharedMemory, ResultsThatShowAnArgumentShowTheCallers) {
  WrittenArchive archive;
  archive.call("add_.Tensor", "x", WrittenArchive::with(1), "add_")
      .call("select.int", "add_", WrittenArchive::first_row(), "row", "4")
      .call("select.int", "y", WrittenArchive::first_row(), "other", "4");
  Model model = archive.load(GetParam(), {"add_", "row", "other"});
  Tensor memory = counts(64), x = matrix_at(memory, 0, 1, 4), y = matrix_at(memory, 20, 9, 2);
  std::vector<Tensor> results = model(x, y).tensors();
  EXPECT_TRUE(results[0].is_same(x));
  results[1].fill_(7);
  results[2].fill_(8);
  EXPECT_EQ(x.select(0, 0).to_vector<float>(), std::vector<float>(4, 7));
  EXPECT_EQ(x.select(0, 1).to_vector<float>(), (std::vector<float>{2, 6, 10, 14}));
  EXPECT_EQ(y.select(0, 0).to_vector<float>(), std::vector<float>(4, 8));
}

INSTANTIATE_TEST_SUITE_P(Backends, SharedMemory, ::testing::Values("eager", "aot_eager"));

}  // namespace
}  // namespace tenon
