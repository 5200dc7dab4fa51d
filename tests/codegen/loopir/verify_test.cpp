// Schedules and memory plans that are wrong are told so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <loopir/in_place.h>
#include <loopir/verify.h>

namespace loopir {
namespace {

using ::testing::HasSubstr;

struct Verifying : ::testing::Test {
  Id add(Buffer::Place place, int64_t size) {
    return program.add_buffer({place, 0, TN_F32, {x.constant(size)}, {x.constant(1)}, "t"});
  }
  /// to[i + shift] = from[i] for i < n.
  Item copy(Id from, Id to, int64_t n, int64_t shift = 0) {
    Id i = x.variable(x.constant(n));
    Kernel kernel;
    kernel.outer = {i};
    Statement s;
    s.value = x.load(from, i, TN_F32);
    s.buffer = to;
    s.index = x.add(i, x.constant(shift));
    kernel.stages.push_back({{}, {s}});
    return kernel;
  }
  std::string problem_of_two(Item first, Item second) {
    Schedule schedule;
    schedule.items.push_back(std::move(first));
    schedule.items.push_back(std::move(second));
    return problem_of(program, schedule);
  }

  Program program;
  Expressions& x = program.expressions;
};

TEST_F(Verifying, FindsNothingInASoundSchedule) {
  Id in = add(Buffer::Place::input, 8), a = add(Buffer::Place::temporary, 8),
     out = add(Buffer::Place::output, 9);
  EXPECT_EQ(problem_of_two(copy(in, a, 8), copy(a, out, 8, 1)), "");
}

TEST_F(Verifying, NamesWhatIsReadBeforeItIsWritten) {
  Id in = add(Buffer::Place::input, 8), a = add(Buffer::Place::temporary, 8),
     out = add(Buffer::Place::output, 8);
  EXPECT_THAT(problem_of_two(copy(a, out, 8), copy(in, a, 8)),
              HasSubstr("item 0 reads buffer 1 (t) before anything has written it"));
}

TEST_F(Verifying, NamesStoresAndLoadsOutsideOfTheirBuffer) {
  Id in = add(Buffer::Place::input, 8), out = add(Buffer::Place::output, 8);
  Id more = add(Buffer::Place::output, 9);
  EXPECT_THAT(problem_of_two(copy(in, out, 8), copy(in, out, 8, 1)),
              HasSubstr("item 1 writes buffer 1 (t) at 1 to 8, and its last element is 7"));
  EXPECT_THAT(problem_of_two(copy(in, out, 8), copy(in, more, 9)), HasSubstr("item 1 reads"));
}

TEST_F(Verifying, NamesProductsOfDtypesThatDoNotGoTogether) {
  Multiplier by = Multiplier::cpu;
  auto problem = [&](int32_t left, int32_t right, int32_t bias, int32_t result) {
    auto view = [&](int32_t dtype) {
      Id b = add(Buffer::Place::input, 4);
      program.buffers[b].dtype = dtype;
      return View{b, x.constant(0), {x.constant(2), x.constant(2)}, {x.constant(2), x.constant(1)}};
    };
    Product p;
    p.left = view(left), p.right = view(right), p.bias = view(bias), p.result = view(result);
    return problem_of(program, p, by);
  };
  EXPECT_EQ(problem(TN_F32, TN_F32, TN_F32, TN_F32), "");
  EXPECT_EQ(problem(TN_F64, TN_F64, TN_F64, TN_F64), "");
  EXPECT_EQ(problem(TN_BF16, TN_BF16, TN_F32, TN_F32), "");
  EXPECT_EQ(problem(TN_BF16, TN_BF16, TN_F32, TN_BF16), "");
  EXPECT_NE(problem(TN_BF16, TN_F32, TN_F32, TN_F32), "");
  EXPECT_NE(problem(TN_BF16, TN_BF16, TN_BF16, TN_BF16), "");
  EXPECT_NE(problem(TN_F32, TN_F32, TN_F32, TN_BF16), "");
  EXPECT_NE(problem(TN_F16, TN_F16, TN_F32, TN_F16), "");
  EXPECT_NE(problem(TN_I32, TN_I32, TN_I32, TN_I32), "");
  by = Multiplier::any;
  EXPECT_EQ(problem(TN_BF16, TN_BF16, TN_BF16, TN_BF16), "");
  EXPECT_EQ(problem(TN_F16, TN_F16, TN_F32, TN_F16), "");
  EXPECT_NE(problem(TN_BF16, TN_F16, TN_F32, TN_F32), "");
  EXPECT_NE(problem(TN_F16, TN_F16, TN_BF16, TN_F16), "");
  EXPECT_NE(problem(TN_I32, TN_I32, TN_I32, TN_I32), "");
}

TEST_F(Verifying, NamesBuffersThatOverlapWhileBothLive) {
  Id a = add(Buffer::Place::temporary, 8), b = add(Buffer::Place::temporary, 8);
  std::vector<Access> accesses{{{}, {a}}, {{a}, {b}}, {{b}, {}}};
  MemoryPlan plan = plan_memory(program, accesses, {}, {true, true});
  EXPECT_EQ(problem_of(program, accesses, plan, {}), "");
  plan.offsets[b] = plan.offsets[a];
  EXPECT_THAT(problem_of(program, accesses, plan, {}), HasSubstr("live at the same time"));
  plan.bytes = 16;
  EXPECT_THAT(problem_of(program, accesses, plan, {}), HasSubstr("of an arena of 16"));
}

// ---- buffers in the memory of others

struct TakingOver : Verifying {
  struct Copy {
    Id from, to;
    int64_t n = 8, shift = 0;
  };
  /// Who takes over whose memory; by default each item is a step.
  Ids found(const std::vector<Copy>& copies, std::vector<size_t> steps = {}) {
    items.clear();
    accesses.clear();
    for (const Copy& c : copies) {
      items.push_back(copy(c.from, c.to, c.n, c.shift));
      accesses.push_back(access_of(program, items.back()));
      if (steps.size() < items.size()) steps.push_back(items.size());
    }
    return find_in_place_reuse({program, items, accesses, steps, std::vector<bool>(items.size())});
  }
  std::vector<Item> items;
  std::vector<Access> accesses;
  Id in = add(Buffer::Place::input, 8), a = add(Buffer::Place::temporary, 8),
     b = add(Buffer::Place::temporary, 8), c = add(Buffer::Place::temporary, 8),
     out = add(Buffer::Place::output, 8);
};

TEST_F(TakingOver, AChainIsOneMemory) {
  std::vector<Copy> chain{{in, a}, {a, b}, {b, c}, {c, out}};
  EXPECT_EQ(found(chain), (Ids{none, none, a, a, none}));
  EXPECT_EQ(found(chain, {0, 0, 0, 0}), (Ids{none, none, a, a, none}));  // each chunk does all
}

TEST_F(TakingOver, APlanWithItIsSound) {
  program.memory_of = found({{in, a}, {a, b}, {b, out}});
  MemoryPlan plan = plan_memory(program, accesses, {}, {false, true, true, false, false});
  EXPECT_EQ(plan.offsets[a], plan.offsets[b]);
  EXPECT_EQ(problem_of(program, accesses, plan, {}), "");
  accesses.push_back({{a}, {out}});  // once more, when b is there
  EXPECT_THAT(problem_of(program, accesses, plan, {}), HasSubstr("live at the same time"));
}

TEST_F(TakingOver, NotWhereTheTensorIsReadAgain) {
  EXPECT_EQ(found({{in, a}, {a, b}, {a, out}, {b, out}})[b], none);
}

TEST_F(TakingOver, NotWhereAnotherElementIsRead) {
  Id wide = add(Buffer::Place::temporary, 9);
  EXPECT_EQ(found({{in, wide}, {wide, b}})[b], none);
  EXPECT_EQ(found({{in, a}, {a, b, 7, 1}, {b, out}})[b], none);
}

TEST_F(TakingOver, NotWhereTheStepReadsTheTensorAsAWhole) {
  // Chunks of a step are at different items: one may still read what another has replaced.
  std::vector<Copy> copies{{in, a}, {a, b}, {a, c}, {b, out}};
  EXPECT_EQ(found(copies, {0, 1, 1, 2})[c], none);
  EXPECT_EQ(found(copies, {0, 1, 2, 3})[c], a);
}

}  // namespace
}  // namespace loopir
