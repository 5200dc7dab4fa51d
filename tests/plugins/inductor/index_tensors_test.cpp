// Running folds, and reads and writes at indices that are data.
#include <gmock/gmock.h>

#include "plugins/inductor/ops.h"

#include <limits>

namespace tenon {
namespace {

using ::testing::HasSubstr;

const double nan = std::numeric_limits<double>::quiet_NaN();
const double infinity = std::numeric_limits<double>::infinity();

/// aten.NAME.default(x, dim) of f32[sizes], with `results` as in "%y: f32[3, 4]".
std::string scan(const std::string& name, const std::string& sizes, int dim, bool has_positions) {
  std::string type = ": f32[" + sizes + "]";
  return "\n  input %x" + type + "\n  %y" + type +
         (has_positions ? ", %p: i64[" + sizes + "]" : "") + " = aten." + name + ".default(%x, " +
         std::to_string(dim) + ")\n  output %y" + (has_positions ? ", %p" : "") + "\n";
}

TEST_F(InductorOps, RunningSumsAlongEveryDimension) {
  for (int dim : {0, 1, 2}) {
    expect_same(scan("cumsum", "5, 37, 70", dim, false), {randn({5, 37, 70})}, 1e-4);
    expect_same(scan("cumprod", "5, 37, 70", dim, false), {rand({5, 37, 70}) + 0.5}, 1e-2);
    expect_same(scan("logcumsumexp", "5, 37, 70", dim, false), {randn({5, 37, 70})}, 1e-5);
  }
}

TEST_F(InductorOps, RunningFoldsKeepWhatIsNoNumber) {
  Tensor x = randn({4, 100});
  x.select(0, 1).select(0, 40).fill_(nan);
  x.select(0, 2).select(0, 30).fill_(infinity);
  x.select(0, 2).select(0, 60).fill_(-infinity);
  x.select(0, 3).fill_(-infinity);
  expect_same(scan("cumsum", "4, 100", 1, false), {x}, 1e-4);
  expect_same(scan("logcumsumexp", "4, 100", 1, false), {x}, 1e-4);
}

TEST_F(InductorOps, RunningExtremesNameTheLastPosition) {
  Tensor x = floor(randn({6, 90}) * 3);  // many are equal
  x.select(0, 1).select(0, 40).fill_(nan);
  x.select(0, 2).fill_(-infinity);
  for (int dim : {0, 1}) {
    expect_same(scan("cummax", "6, 90", dim, true), {x});
    expect_same(scan("cummin", "6, 90", dim, true), {x});
  }
}

TEST_F(InductorOps, ARunningSumIsReadByWhatComesAfter) {
  expect_same(R"(
  input %x: i64[7, 50]
  %e: i64[7, 50] = aten.mul.Tensor(%x, %x)
  %c: i64[7, 50] = aten.cumsum.default(%e, 1)
  %d: i64[7, 50] = aten.sub.Tensor(%c, %e)
  %s: i64[7] = aten.sum.dim_IntList(%c, [1])
  output %d, %s
)",
              {randint(-9, 9, {7, 50})});
}

TEST_F(InductorOps, ARunningSumServesAllSizes) {
  const char* const graph = R"(
  symbol s0 in [1, 1000] hint 8 from size(%x, 1)
  input %x: f32[3, s0]
  %y: f32[3, s0] = aten.cumsum.default(%x, 1)
  output %y
)";
  for (int64_t n : {1, 15, 16, 17, 63, 64, 65, 999}) expect_same(graph, {randn({3, n})}, 1e-4, {n});
}

// ---- writes

std::string scatter(const std::string& op, const std::string& more, int dim) {
  return R"(
  input %x: f32[9, 20]
  input %i: i64[7, 20]
  input %s: f32[8, 20]
  %y: f32[9, 20] = aten.)" +
         op + "(%x, " + std::to_string(dim) + ", %i, %s" + more + ")\n  output %y\n";
}

TEST_F(InductorOps, ScattersMeetInOrder) {
  std::vector<Tensor> down{randn({9, 20}), randint(0, 9, {7, 20}), randn({8, 20})};
  std::vector<Tensor> along{randn({9, 20}), randint(0, 20, {7, 20}), randn({8, 20})};
  for (int dim : {0, 1}) {
    const auto& inputs = dim ? along : down;
    expect_same(scatter("scatter.src", "", dim), inputs);
    expect_same(scatter("scatter_add.default", "", dim), inputs, 1e-5);
    for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"})
      for (const char* include_self : {"true", "false"})
        expect_same(scatter("scatter_reduce.two",
                            ", \"" + std::string(reduce) + "\", " + include_self, dim),
                    inputs, 1e-5);
  }
}

TEST_F(InductorOps, ScattersOfIntegersAndTruth) {
  for (const char* type : {"i64", "i32", "u8", "bool"}) {
    std::string t = type;
    auto of = [&](const Tensor& x) {
      return x.to(t == "i64"   ? Dtype::i64
                  : t == "i32" ? Dtype::i32
                  : t == "u8"  ? Dtype::u8
                               : Dtype::bool_);
    };
    for (const char* reduce : {"sum", "prod", "amax", "amin"})
      expect_same("\n  input %x: " + t + "[30]\n  input %i: i64[40]\n  input %s: " + t +
                      "[40]\n  %y: " + t + "[30] = aten.scatter_reduce.two(%x, 0, %i, %s, \"" +
                      reduce + "\", false)\n  output %y\n",
                  {of(randint(0, 3, {30})), randint(0, 30, {40}), of(randint(0, 3, {40}))});
  }
}

TEST_F(InductorOps, IndexPutWritesWhereTensorsSay) {
  for (const char* accumulate : {"false", "true"}) {
    std::string end = std::string(", ") + accumulate + ")\n  output %y\n";
    Tensor at = randint(-11, 11, {4, 1}), other = randint(0, 5, {6});
    expect_same(
        "\n  input %x: f32[11, 5, 9]\n  input %a: i64[4, 1]\n  input %b: i64[6]\n"
        "  input %v: f32[4, 6, 9]\n  %y: f32[11, 5, 9] = aten.index_put.default(%x, [%a, %b], %v" +
            end,
        {randn({11, 5, 9}), at, other, randn({4, 6, 9})}, 1e-5);
    expect_same(
        "\n  input %x: f32[11, 7, 5]\n  input %a: i64[4, 1]\n  input %b: i64[6]\n"
        "  input %v: f32[7]\n  %y: f32[11, 7, 5] = aten.index_put.default(%x, [%a, none, %b], %v" +
            end,
        {randn({11, 7, 5}), at, other, randn({7})}, 1e-5);
  }
}

TEST_F(InductorOps, AMaskedWriteOfOneValueIsASelection) {
  expect_same(R"(
  input %x: f32[5, 7, 3]
  input %m: bool[5, 7]
  input %v: f32[]
  %y: f32[5, 7, 3] = aten.index_put.default(%x, [%m], %v)
  output %y
)",
              {randn({5, 7, 3}), rand({5, 7}) > 0.5, randn({})});
}

TEST_F(InductorOps, RowsOfATableGetTheirGradient) {
  for (const char* by_count : {"false", "true"})
    expect_same(
        "\n  input %g: f32[6, 10, 33]\n  input %i: i64[6, 10]\n"
        "  %y: f32[12, 33] = aten.embedding_dense_backward.default(%g, %i, 12, 3, " +
            std::string(by_count) + ")\n  output %y\n",
        {randn({6, 10, 33}), randint(0, 12, {6, 10})}, 1e-5);
}

// ---- bags

std::string bag(const std::string& operands, const std::string& more) {
  return R"(
  input %t: f32[20, 33]
  input %i: i64[50]
  input %o: i64[6])" +
         operands + R"(
  %y: f32[6, 33], %b: i64[50], %n: i64[6], %m: i64[6] = aten._embedding_bag.default(%t, %i, %o, )" +
         more + ")\n  output %y, %b, %n\n";
}

/// The first bag and one more are empty.
Tensor offsets() { return tensor<int64_t>({0, 0, 7, 30, 30, 41}); }

TEST_F(InductorOps, BagsAreSumsAndMeansOfRows) {
  Tensor table = randn({20, 33}), rows = randint(0, 20, {50});
  expect_same(bag("", "false, 1"), {table, rows, offsets()}, 1e-5);
  expect_same(bag("", "false, 1, false, none, false, 3"), {table, rows, offsets()}, 1e-5);
  expect_same(bag("\n  input %s: f32[50]", "false, 0, false, %s, false, 3"),
              {table, rows, offsets(), randn({50})}, 1e-4);
}

/// All indices are one: what is added up does not depend on where a bag lies, its length does.
std::string bag_of_one_row(const std::string& before, const std::string& offsets) {
  return R"(
  input %t: f32[20, 33]
  input %one: i64[1]
  input %o: i64[6]
  %i: i64[50] strides [0] = aten.expand.default(%one, [50])
)" + before +
         "  %y: f32[6, 33], %b: i64[50], %n: i64[6], %m: i64[6] = aten._embedding_bag.default(%t, "
         "%i, " +
         offsets + ", false, 1)\n  output %y, %n\n";
}

TEST_F(InductorOps, BagsOfOneRowHaveTheirLengths) {
  Tensor table = randn({20, 33}), row = tensor<int64_t>({7});
  expect_same(bag_of_one_row("", "%o"), {table, row, offsets()}, 1e-5);
  expect_same(bag_of_one_row("  %h: i64[6] = aten.mul.Scalar(%o, 1)\n"
                             "  %p: i64[6] = aten.cumsum.default(%h, 0)\n",
                             "%p"),
              {table, row, tensor<int64_t>({0, 3, 0, 11, 2, 4})}, 1e-5);
  Tensor wrong = offsets();
  wrong.select(0, 5).fill_(51);
  EXPECT_THAT(failure_of(bag_of_one_row("", "%o"), {table, row, wrong}), HasSubstr("out of range"));
}

TEST_F(InductorOps, BagsBeginWithTheFirstIndex) {
  Tensor table = randn({20, 33}), rows = randint(0, 20, {50});
  Tensor late = tensor<int64_t>({3, 4, 7, 30, 30, 41});
  for (const char* more : {"false, 1", "false, 1, false, none, false, 3"})
    EXPECT_THAT(failure_of(bag("", more), {table, rows, late}), HasSubstr("out of range")) << more;
}

TEST_F(InductorOps, RowsOfBagsGetTheirGradient) {
  for (const char* mode : {"0", "1"})
    for (const char* by_count : {"false", "true"})
      for (const char* padding : {"-1", "3"})
        expect_same(
            "\n  input %g: f32[6, 33]\n  input %i: i64[50]\n  input %o: i64[6]\n"
            "  input %b: i64[0]\n  input %n: i64[6]\n"
            "  %y: f32[20, 33] = aten._embedding_bag_backward.default(%g, %i, %o, %b, %n, %n, "
            "20, " +
                std::string(by_count) + ", " + mode + ", false, none, " + padding +
                ")\n  output %y\n",
            {randn({6, 33}), randint(0, 20, {50}), offsets(), zeros({0}, Dtype::i64),
             zeros({6}, Dtype::i64)},
            1e-4);
}

TEST_F(InductorOps, BagsThatDoNotFitAreAnError) {
  Tensor table = randn({20, 33}), rows = randint(0, 20, {50});
  Tensor wrong = offsets();
  wrong.select(0, 2).fill_(51);
  EXPECT_THAT(failure_of(bag("", "false, 1"), {table, rows, wrong}), HasSubstr("out of range"));
  rows.select(0, 11).fill_(20);
  EXPECT_THAT(failure_of(bag("", "false, 1"), {table, rows, offsets()}), HasSubstr("out of range"));
}

TEST_F(InductorOps, WhatIsScatteredIsComputedOnTheWay) {
  expect_same(R"(
  input %x: f32[40, 30]
  input %i: i64[40]
  %z: f32[9, 30] = aten.full.default([9, 30], 0.5)
  %e: f32[40, 30] = aten.exp.default(%x)
  %j: i64[40] = aten.remainder.Scalar(%i, 9)
  %y: f32[9, 30] = aten.index_put.default(%z, [%j], %e, true)
  %s: f32[9] = aten.sum.dim_IntList(%y, [1])
  output %y, %s
)",
              {randn({40, 30}), randint(0, 1000, {40})}, 1e-3);
}

TEST_F(InductorOps, AWriteOutsideOfItsTensorIsAnError) {
  std::string add = scatter("scatter_add.default", "", 0);
  std::string along = scatter("scatter.src", "", 1);
  std::string table =
      "\n  input %g: f32[10, 33]\n  input %i: i64[10]\n"
      "  %y: f32[12, 33] = aten.embedding_dense_backward.default(%g, %i, 12, -1, false)\n"
      "  output %y\n";
  for (int64_t wrong : {20, -21, 1 << 30}) {
    Tensor index = randint(0, 9, {7, 20});
    index.select(0, 3).select(0, 4).fill_(wrong);
    for (const std::string& graph : {add, along})
      EXPECT_THAT(failure_of(graph, {randn({9, 20}), index, randn({8, 20})}),
                  HasSubstr("index out of range"));
    Tensor rows = randint(0, 12, {10});
    rows.select(0, 7).fill_(wrong);
    EXPECT_THAT(failure_of(table, {randn({10, 33}), rows}), HasSubstr("index out of range"));
  }
}

// All rows are one in memory, or in no memory: what is read does not depend on the index.
TEST_F(InductorOps, AnIndexIsCheckedThoughNoElementDependsOnIt) {
  std::string rows =
      "\n  input %x: f32[1, 4]\n  input %j: i64[2]\n"
      "  %e: f32[3, 4] strides [0, 1] = aten.expand.default(%x, [3, 4])\n";
  std::string loss =
      "\n  input %x: f32[2, 1]\n  input %j: i64[2]\n"
      "  %e: f32[2, 3] strides [1, 0] = aten.expand.default(%x, [2, 3])\n"
      "  %y: f32[], %w: f32[] = aten.nll_loss_forward.default(%e, %j, none, 1, -100)\n"
      "  output %y\n";
  std::string chosen = "  output %y\n";
  std::string read[] = {"  %y: f32[2, 4] = aten.index.Tensor(%e, [%j])\n",
                        "  %y: f32[2, 4] = aten.embedding.default(%e, %j)\n",
                        "  %y: f32[2, 4] = aten.index_select.default(%e, 0, %j)\n"};
  for (int64_t wrong : {3, -4, 1 << 30}) {
    Tensor index = randint(0, 3, {2});
    index.select(0, 1).fill_(wrong);
    for (const std::string& r : read)
      EXPECT_THAT(failure_of(rows + r + chosen, {randn({1, 4}), index}),
                  HasSubstr("index out of range"));
    EXPECT_THAT(failure_of(loss, {randn({2, 1}), index}), HasSubstr("index out of range"));
  }
}

// A negative class is not the last one.
TEST_F(InductorOps, ALossCountsNoClassFromTheEnd) {
  std::string inputs = "\n  input %x: f32[2, 3]\n  input %j: i64[2]\n  input %g: f32[]\n";
  std::string forward =
      inputs +
      "  %y: f32[], %w: f32[] = aten.nll_loss_forward.default(%x, %j, none, 1, -100)\n"
      "  output %y\n";
  std::string backward =
      inputs +
      "  %y: f32[2, 3] = aten.nll_loss_backward.default(%g, %x, %j, none, 1, -100, %g)\n"
      "  output %y\n";
  for (const std::string& graph : {forward, backward}) {
    std::vector<Tensor> given{randn({2, 3}), tensor({int64_t{2}, int64_t{-100}}), ones({})};
    expect_same(graph, given);
    given[1] = tensor({int64_t{2}, int64_t{-1}});
    EXPECT_THAT(failure_of(graph, given), HasSubstr("index out of range"));
  }
}

// A fold of each column says where that column is written: places of lanes that have nothing in
// common, though their index goes on by ones.
TEST_F(InductorOps, PlacesThatAFoldOfTheirOwnColumnGives) {
  auto graph = graph_of(R"(
  input %x: i64[1, 8, 33]
  %c: i64[1, 8, 33] = aten.mul.Scalar(%x, 2)
  %n: bool[1, 8, 33] = aten.ne.Scalar(%c, 0)
  %a: bool[1, 1, 33] = aten.any.dim(%n, 1, true)
  %q: i64[1, 1, 33] = aten._to_copy.default(%a, dtype=i64)
  %z: i64[1, 8, 33] = aten.scatter_add.default(%c, 1, %q, %q)
  output %z, %c
)");
  auto artifact = compiled("inductor", graph);
  EXPECT_EQ(stats_of(*artifact)["failed_kernels"], 0);
  Tensor x = (rand({1, 8, 33}) > 0.9).to(Dtype::i64);
  EXPECT_EQ(difference(graph, *artifact, {x}), 0);
}

}  // namespace
}  // namespace tenon
