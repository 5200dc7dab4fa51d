// The loop IR of codegen/loopir: walking a buffer with other variables, the arena, fusion, and how
// loops become vectors.
#include <gtest/gtest.h>
#include <loopir/memory.h>

#include "codegen/loopir/indices.h"

#include <random>

namespace loopir {
namespace {

// ---- walking a buffer with other variables

struct Unifying : IndexExpressions {
  /// A loop over all variables of `index` that stores at it, or that loads from it.
  Group storing(Id index) {
    Loop loop;
    loop.outer = x.variables_of_index(index);
    loop.buffer = 0, loop.index = index;
    loop.value = x.number(1.0, TN_F32);
    return {{loop}};
  }
  Group loading(Id index) {
    Loop loop;
    loop.outer = x.variables_of_index(index);
    loop.buffer = 1, loop.index = x.constant(0);
    loop.value = x.load(0, index, TN_F32);
    return {{loop}};
  }
  std::optional<Unified> unified(Id stored, Id loaded) {
    return unify(x, storing(stored), stored, loading(loaded), loaded);
  }
  /// Expects that what is stored and what is loaded have the same variables and the same index.
  void expect_unified(Id stored, Id loaded, size_t n_variables) {
    auto both = unified(stored, loaded);
    ASSERT_TRUE(both);
    const Loop &a = both->a.loops[0], &b = both->b.loops[0];
    EXPECT_EQ(x.value_at(b.value).b, a.index);
    EXPECT_EQ(sorted(a.outer), sorted(b.outer));
    EXPECT_EQ(a.outer.size(), n_variables);
  }
  static Ids sorted(Ids ids) {
    std::sort(ids.begin(), ids.end());
    return ids;
  }
};

TEST_F(Unifying, OneVariableBecomesTheTwoOfAReshape) {
  Id n = variable(12), b = variable(3), k = variable(4);
  expect_unified(n, x.add(times(4, b), k), 2);
  expect_unified(x.add(times(4, b), k), n, 2);
}

TEST_F(Unifying, SymbolicSizesAreSplit) {
  Id n = x.variable(x.multiply(s, t)), b = x.variable(s), k = x.variable(t);
  expect_unified(n, x.add(x.multiply(b, t), k), 2);
}

TEST_F(Unifying, TwoSplitsMeetInTheirCommonRefinement) {
  Id i = variable(6), j = variable(4), p = variable(3), q = variable(8);
  expect_unified(x.add(times(4, i), j), x.add(times(8, p), q), 3);
}

TEST_F(Unifying, DigitsThatDoNotDivideAreRefused) {
  Id n = variable(12), b = variable(3), k = variable(5);
  EXPECT_FALSE(unified(n, x.add(times(5, b), k)));
  Id i = variable(4), j = variable(6), p = variable(6), q = variable(4);
  EXPECT_FALSE(unified(x.add(times(6, i), j), x.add(times(4, p), q)));
}

TEST_F(Unifying, OtherElementsAreRefused) {
  Id n = variable(12), m = variable(12), few = variable(6);
  EXPECT_FALSE(unified(n, x.add(m, number(1))));  // shifted
  EXPECT_FALSE(unified(n, times(2, m)));          // every second one
  EXPECT_FALSE(unified(n, few));                  // some
  EXPECT_FALSE(unified(n, x.mod(m, number(5))));  // no line
}

// ---- the arena

struct Arena : ::testing::Test {
  Id add_symbolic(Id size) {
    return program.add_buffer({Buffer::Place::temporary, 0, TN_F32, {size}, {one}, ""});
  }
  Id add(int64_t size) { return add_symbolic(program.expressions.constant(size)); }
  MemoryPlan planned(const std::vector<Access>& accesses, std::span<const int64_t> symbols = {}) {
    return plan_memory(program, accesses, symbols, std::vector<bool>(program.buffers.size(), true));
  }
  int64_t bytes(Id buffer, std::span<const int64_t> symbols = {}) {
    return bytes_of(program, program.buffers[buffer], symbols);
  }

  Program program;
  Id one = program.expressions.constant(1);
};

TEST_F(Arena, BytesAreUsedAgainWhenTheirBufferHasBeenRead) {
  Id a = add(1000), b = add(1000), c = add(1000);
  MemoryPlan plan = planned({{{}, {a}}, {{a}, {b}}, {{b}, {c}}});
  EXPECT_EQ(plan.offsets[a], plan.offsets[c]);
  EXPECT_NE(plan.offsets[a], plan.offsets[b]);
  EXPECT_EQ(plan.bytes, plan.lower_bound);
  EXPECT_LT(plan.bytes, plan.naive_bytes);
}

// Items 1 and 2 both need item 0, and item 3 needs them.
TEST_F(Arena, BytesOfWhatMayRunAtOnceAreApart) {
  Id a = add(1000), b = add(1000), c = add(1000), d = add(1000), e = add(1000);
  std::vector<Access> accesses{{{}, {a}}, {{a}, {b, d}}, {{a}, {c}}, {{b, c}, {e}}};
  DoneBefore one_after_the_other{{false, false, false, false},
                                 {true, false, false, false},
                                 {true, true, false, false},
                                 {true, true, true, false}};
  DoneBefore branches = one_after_the_other;
  branches[2][1] = false;
  std::vector<bool> all(program.buffers.size(), true);
  MemoryPlan in_order = plan_memory(program, accesses, {}, all);
  MemoryPlan same = plan_memory(program, accesses, {}, all, true, one_after_the_other);
  MemoryPlan branched = plan_memory(program, accesses, {}, all, true, branches);
  EXPECT_EQ(in_order.offsets, same.offsets);
  EXPECT_EQ(in_order.offsets[c], in_order.offsets[d]) << "d is over when c begins";
  EXPECT_NE(branched.offsets[c], branched.offsets[d]) << "d may still be written";
  EXPECT_EQ(branched.offsets[e], branched.offsets[a]) << "all that reads a is done";
}

TEST_F(Arena, HoldsWhatItIsAskedFor) {
  Id inside = add(10), outside = add(10);
  std::vector<Access> accesses{{{}, {inside, outside}}};
  MemoryPlan plan = plan_memory(program, accesses, {}, {true, false});
  EXPECT_EQ(plan.offsets[inside], 0);
  EXPECT_EQ(plan.offsets[outside], -1);
  EXPECT_GE(plan.bytes, bytes(inside));
  EXPECT_LT(plan.bytes, bytes(inside) + 256);
}

TEST_F(Arena, FollowsSymbolicSizes) {
  program.expressions.symbols = {symbol_from(1, 1000, "s")};
  Id a = add_symbolic(program.expressions.symbol(0));
  std::vector<int64_t> few{10}, many{1000};
  EXPECT_LT(planned({{{}, {a}}}, few).bytes, 4000);
  EXPECT_GE(planned({{{}, {a}}}, many).bytes, 4000);
}

TEST_F(Arena, BuffersThatLiveAtTheSameTimeDoNotOverlap) {
  std::mt19937_64 random(1);
  auto below = [&](int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random); };
  for (int round = 0; round < 100; ++round) {
    program.buffers.clear();
    size_t n_items = 2 + static_cast<size_t>(below(30));
    std::vector<Access> accesses(n_items);
    std::vector<std::pair<int64_t, int64_t>> lives;
    for (int64_t n = 1 + below(40); n > 0; --n) {
      Id buffer = add(below(4) == 0 ? below(3) : below(5000));
      int64_t first = below(int64_t(n_items)), last = first + below(int64_t(n_items) - first);
      accesses[size_t(first)].writes.push_back(buffer);
      accesses[size_t(last)].reads.push_back(buffer);
      lives.emplace_back(first, last);
    }
    MemoryPlan plan = planned(accesses);
    EXPECT_GE(plan.bytes, plan.lower_bound);
    EXPECT_LE(plan.bytes, plan.naive_bytes);
    for (Id a = 0; a < lives.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % 64, 0);
      EXPECT_LE(plan.offsets[a] + bytes(a), plan.bytes);
      for (Id b = 0; b < a; ++b) {
        bool both_live = lives[a].first <= lives[b].second && lives[b].first <= lives[a].second;
        bool apart = plan.offsets[a] + bytes(a) <= plan.offsets[b] ||
                     plan.offsets[b] + bytes(b) <= plan.offsets[a];
        ASSERT_TRUE(!both_live || apart) << "round " << round << ", buffers " << a << " and " << b;
      }
    }
  }
}

// ---- from a kernel to loops over vectors

struct Nests : ::testing::Test {
  Id variable(int64_t extent) { return x.variable(x.constant(extent)); }
  Id times(int64_t factor, Id i) { return x.multiply(x.constant(factor), i); }
  Kernel copying(Ids variables, Id stored, Id loaded) {
    Statement s;
    s.value = x.load(0, loaded, TN_F32);
    s.buffer = 1, s.index = stored;
    return {std::move(variables), {{{}, {s}}}, {}, "copy", 0, 1};
  }
  Kernel summing(Ids outer, Ids inner, Id stored, Id loaded) {
    Statement s;
    s.fold = Fold::sum, s.folded = 0;
    s.value = x.load(0, loaded, TN_F32);
    s.buffer = 1, s.index = stored;
    return {std::move(outer), {{std::move(inner), {s}}}, {}, "sum", 1, 1};
  }
  Nest made(Kernel kernel) { return make_nest(program, std::move(kernel), 16); }
  int64_t extent(Id variable) { return x.hint(x.extent_of(variable)); }

  Program program;
  Expressions& x = program.expressions;
};

TEST_F(Nests, NeighboursOfContiguousMemoryBecomeOneVariable) {
  Id i = variable(4), j = variable(5), k = variable(6);
  Id index = x.add(times(30, i), x.add(times(6, j), k));
  Nest nest = made(copying({i, j, k}, index, index));
  ASSERT_EQ(nest.kernel.outer.size(), 1u);
  EXPECT_EQ(extent(nest.kernel.outer[0]), 120);
  EXPECT_EQ(nest.lanes, nest.kernel.outer[0]);
  const Statement& s = nest.kernel.stages[0].statements[0];
  EXPECT_EQ(s.index, nest.lanes);
  EXPECT_EQ(x.value_at(s.value).b, nest.lanes);
  EXPECT_EQ(nest.rows, x.constant(1));
}

TEST_F(Nests, SymbolicNeighboursBecomeOneVariable) {
  x.symbols = {symbol_from(2, 100, "s"), symbol_from(2, 100, "t")};
  Id s = x.symbol(0), t = x.symbol(1), i = x.variable(s), j = x.variable(t);
  Id index = x.add(x.multiply(i, t), j);
  Nest nest = made(copying({i, j}, index, index));
  ASSERT_EQ(nest.kernel.outer.size(), 1u);
  EXPECT_EQ(x.extent_of(nest.kernel.outer[0]), x.multiply(s, t));
}

TEST_F(Nests, VariablesOfAPaddedBufferStayApart) {
  Id i = variable(4), j = variable(32);
  Nest nest = made(copying({i, j}, x.add(times(32, i), j), x.add(times(40, i), j)));
  EXPECT_EQ(nest.kernel.outer, (Ids{i, j}));
  EXPECT_EQ(nest.lanes, j);
  EXPECT_EQ(nest.rows, x.constant(4));
}

TEST_F(Nests, ATransposeIsVectorisedAlongItsStores) {
  Id i = variable(32), j = variable(32);
  Nest nest = made(copying({j, i}, x.add(times(32, i), j), x.add(times(32, j), i)));
  EXPECT_EQ(nest.lanes, j);
  EXPECT_EQ(nest.kernel.outer, (Ids{i, j}));
}

TEST_F(Nests, SumsOfRowsHaveTheirLanesInTheRow) {
  Id i = variable(7), j = variable(8), k = variable(16);
  Nest nest = made(summing({i}, {j, k}, i, x.add(times(128, i), x.add(times(16, j), k))));
  EXPECT_EQ(nest.lanes, none);
  const Stage& stage = nest.kernel.stages[0];
  ASSERT_EQ(stage.inner.size(), 1u);
  EXPECT_EQ(extent(stage.inner[0]), 128);
  EXPECT_EQ(nest.lanes_of_stage[0], stage.inner[0]);
}

// What is stored once a row, beside its neighbours, does not make loads of the row gathers.
TEST_F(Nests, MeansOfRowsHaveTheirLanesInTheRow) {
  Id i = variable(64), j = variable(128);
  Kernel kernel = summing({i}, {j}, none, x.add(times(128, i), j));
  kernel.stages[0].statements[0].buffer = none;
  Statement stored;
  stored.value = x.value({value_folded, TN_F32, 0});
  stored.buffer = 1, stored.index = i;
  kernel.stages.push_back({{}, {stored}});
  Nest nest = made(std::move(kernel));
  EXPECT_EQ(nest.lanes, none);
  EXPECT_EQ(nest.lanes_of_stage, (Ids{j, none}));
}

TEST_F(Nests, SumsOfColumnsHaveAColumnInEachLane) {
  Id i = variable(64), j = variable(64);
  Nest nest = made(summing({j}, {i}, j, x.add(times(64, i), j)));
  EXPECT_EQ(nest.lanes, j);
  EXPECT_EQ(nest.lanes_of_stage[0], none);
  EXPECT_EQ(nest.kernel.stages[0].inner, Ids{i});
}

// Lanes of a load lie a row apart: both directions are cut into pieces that divide them.
TEST_F(Nests, ATransposedCopyIsCutIntoTiles) {
  Id i = variable(96), j = variable(160);
  Nest nest = made(copying({i, j}, x.add(times(160, i), j), x.add(times(96, j), i)));
  cut_into_tiles(program, nest, 16);
  EXPECT_EQ(nest.lanes, none);
  ASSERT_EQ(nest.kernel.outer.size(), 2u);
  const Ids& inner = nest.kernel.stages[0].inner;
  ASSERT_EQ(inner.size(), 2u);
  EXPECT_EQ(nest.lanes_of_stage[0], inner[1]);
  EXPECT_EQ(extent(inner[1]), 16);
  EXPECT_EQ(extent(inner[0]), 32);
  EXPECT_EQ(nest.rows, x.constant(96 / 32 * 160 / 16));
  const Statement& s = nest.kernel.stages[0].statements[0];
  EXPECT_EQ(x.coefficient(s.index, inner[1]), x.constant(1));
  EXPECT_EQ(x.coefficient(x.value_at(s.value).b, inner[0]), x.constant(1));
}

TEST_F(Nests, PrimeAndSmallExtentsStayWhole) {
  struct Extents {
    int64_t n, m, lanes;
  };
  for (auto [n, m, lanes] : {Extents{1009, 1013, 16}, {32, 32, 4}}) {
    Id i = variable(n), j = variable(m);
    Nest nest = made(copying({i, j}, x.add(times(m, i), j), x.add(times(n, j), i)));
    cut_into_tiles(program, nest, lanes);
    EXPECT_EQ(nest.lanes, j);
  }
}

// Whatever is turned in registers takes less than gathers, also where all of it lies in the cache.
TEST_F(Nests, SmallExtentsOfWideVectorsAreTiles) {
  Id i = variable(32), j = variable(56);
  Nest nest = made(copying({i, j}, x.add(times(56, i), j), x.add(times(32, j), i)));
  cut_into_tiles(program, nest, 8);
  ASSERT_EQ(nest.lanes, none);
  const Ids& inner = nest.kernel.stages[0].inner;
  EXPECT_EQ(x.extent_of(inner[0]), x.constant(32));
  EXPECT_EQ(x.extent_of(inner[1]), x.constant(8));
  // What has one piece only is no variable of the rows.
  EXPECT_EQ(nest.rows, x.constant(7));
}

TEST_F(Nests, PowersOfKnownExponentsAreProductsAndRoots) {
  Id v = x.load(0, variable(8), TN_F32);
  auto power = [&](double e) { return x.apply(TN_F_POW, TN_F32, v, x.number(e, TN_F32)); };
  EXPECT_EQ(power(1), v);
  EXPECT_EQ(power(2), x.apply(TN_F_MUL, TN_F32, v, v));
  EXPECT_EQ(power(0.5), x.apply(TN_F_SQRT, TN_F32, v));
  EXPECT_EQ(x.value_at(power(2.5)).code, TN_F_POW);
}

// As the gradient of a square has them.
TEST_F(Nests, DifferencesOfSmallNumbersAreExponents) {
  Id v = x.load(0, variable(8), TN_F32);
  for (int32_t dtype : {TN_F32, TN_BF16, TN_F64}) {
    auto number = [&](double n) { return x.number(n, dtype); };
    auto apply = [&](uint16_t code, double a, double b) {
      return x.apply(code, dtype, number(a), number(b));
    };
    EXPECT_EQ(apply(TN_F_SUB, 2, 1), number(1));
    EXPECT_EQ(apply(TN_F_ADD, 2, 1), number(3));
    EXPECT_EQ(x.apply(TN_F_EQ, TN_BOOL, number(2), number(0)), x.number(int64_t{0}, TN_BOOL));
    EXPECT_EQ(x.value_at(apply(TN_F_ADD, 0.1, 1)).code, TN_F_ADD);  // not as every dtype has it
  }
  Id never = x.number(int64_t{0}, TN_BOOL);
  EXPECT_EQ(x.apply(TN_F_SELECT, TN_F32, never, x.number(0.0, TN_F32), v), v);
  EXPECT_EQ(x.apply(TN_F_POW, TN_F32, v,
                    x.apply(TN_F_SUB, TN_F32, x.number(2.0, TN_F32), x.number(1.0, TN_F32))),
            v);
}

// ---- fusion

struct Fusing : Nests {
  Id buffer(Buffer::Place place, std::initializer_list<int64_t> sizes) {
    Ids dims, strides;
    int64_t stride = 1;
    for (int64_t size : sizes) dims.push_back(x.constant(size));
    for (size_t d = dims.size(); d-- > 0; stride *= std::data(sizes)[d])
      strides.insert(strides.begin(), x.constant(stride));
    return program.add_buffer({place, 0, TN_F32, dims, strides, ""});
  }
  void add_loop(Ids outer, Ids reduced, Fold fold, Id value, Id to, Id index) {
    program.steps.push_back(
        Loop{std::move(outer), std::move(reduced), fold, value, none, to, index, "loop"});
  }
  std::vector<Item> fused(Id output) {
    program.outputs.push_back({Output::Kind::buffer, {output, x.constant(0), {}, {}}});
    return std::move(fuse(program, {}).items);
  }
  Id exp_of(Id v) { return x.apply(TN_F_EXP, TN_F32, v); }
};

TEST_F(Fusing, ReadersThroughAReshapeAreOneKernel) {
  Id in = buffer(Buffer::Place::input, {12}), between = buffer(Buffer::Place::temporary, {12}),
     out = buffer(Buffer::Place::output, {3, 4});
  Id n = variable(12), b = variable(3), k = variable(4), index = x.add(times(4, b), k);
  add_loop({n}, {}, Fold::none, exp_of(x.load(in, n, TN_F32)), between, n);
  add_loop({b, k}, {}, Fold::none, exp_of(x.load(between, index, TN_F32)), out, index);
  std::vector<Item> items = fused(out);
  ASSERT_EQ(items.size(), 1u);
  const Kernel& kernel = std::get<Kernel>(items[0]);
  ASSERT_EQ(kernel.stages.size(), 1u);
  EXPECT_EQ(kernel.stages[0].statements.size(), 1u);  // what lies between needs no memory
}

TEST_F(Fusing, AFoldAndWhatReadsItAreStagesOfOneKernel) {
  Id in = buffer(Buffer::Place::input, {3, 4}), sum = buffer(Buffer::Place::temporary, {3}),
     out = buffer(Buffer::Place::output, {3, 4});
  Id r = variable(3), k = variable(4), b = variable(3), c = variable(4);
  Id at = x.add(times(4, b), c);
  add_loop({r}, {k}, Fold::sum, x.load(in, x.add(times(4, r), k), TN_F32), sum, r);
  Id quotient = x.apply(TN_F_DIV, TN_F32, x.load(in, at, TN_F32), x.load(sum, b, TN_F32));
  add_loop({b, c}, {}, Fold::none, quotient, out, at);
  std::vector<Item> items = fused(out);
  ASSERT_EQ(items.size(), 1u);
  const Kernel& kernel = std::get<Kernel>(items[0]);
  EXPECT_EQ(kernel.outer.size(), 1u);
  EXPECT_EQ(kernel.stages.size(), 2u);
  EXPECT_EQ(kernel.n_folds, 1u);
}

// y = exp(x), and the sum of x: apart, where a kernel of one row would leave threads without work.
TEST_F(Fusing, ASumOfFewElementsIsOneKernelWithWhatReadsThem) {
  for (int64_t size : {16, 1 << 20}) {
    program = {};
    Id in = buffer(Buffer::Place::input, {size}), out = buffer(Buffer::Place::output, {size}),
       sum = buffer(Buffer::Place::output, {});
    Id n = variable(size), k = variable(size);
    add_loop({n}, {}, Fold::none, exp_of(x.load(in, n, TN_F32)), out, n);
    add_loop({}, {k}, Fold::sum, x.load(in, k, TN_F32), sum, x.constant(0));
    program.outputs.push_back({Output::Kind::buffer, {out, x.constant(0), {}, {}}});
    EXPECT_EQ(fused(sum).size(), size == 16 ? 1u : 2u);
  }
}

}  // namespace
}  // namespace loopir
