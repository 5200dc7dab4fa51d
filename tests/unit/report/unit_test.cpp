// Units of a report: times that add up, memory that is bounded, and what stands out.
#include "report/findings.h"

#include <tenon/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tenon::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void wait(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

double ms_of(const Unit& unit, Work work) {
  return static_cast<double>(time_of(unit.facts(), work).ns) / 1e6;
}

TEST(TimeScope, CountsWorkOnceHoweverItIsNested) {
  Unit unit(UnitKind::callable, "f");
  auto begin = std::chrono::steady_clock::now();
  {
    TimeScope call(&unit, Work::call);
    wait(4);
    {
      TimeScope compile(Work::compile);  // for the unit at work
      wait(4);
      TimeScope backend(Work::backend);
      wait(4);
    }
  }
  std::chrono::duration<double, std::milli> all = std::chrono::steady_clock::now() - begin;
  for (Work work : {Work::call, Work::compile, Work::backend}) EXPECT_GE(ms_of(unit, work), 3.9);
  EXPECT_LE(ms_of(unit, Work::call) + ms_of(unit, Work::compile) + ms_of(unit, Work::backend),
            all.count());
}

TEST(TimeScope, OfAnotherUnitInsideCountsForThatOneOnly) {
  Unit outer(UnitKind::callable, "outer"), inner(UnitKind::callable, "inner");
  auto begin = std::chrono::steady_clock::now();
  {
    TimeScope a(&outer, Work::call);
    TimeScope b(&inner, Work::call);
    wait(20);
  }
  std::chrono::duration<double, std::milli> all = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(ms_of(inner, Work::call), 19);
  EXPECT_LE(ms_of(outer, Work::call) + ms_of(inner, Work::call), all.count());
}

TEST(TimeScope, WithoutAUnitDoesNothing) {
  TimeScope scope(nullptr, Work::call);
  EXPECT_EQ(current_unit(), nullptr);
}

TEST(TimeScope, EndsWithAnException) {
  Unit unit(UnitKind::callable, "f");
  try {
    TimeScope scope(&unit, Work::call);
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(current_unit(), nullptr);
  EXPECT_EQ(time_of(unit.facts(), Work::call).n, 1);
}

TEST(Unit, CountsFromAllThreads) {
  Unit unit(UnitKind::callable, "f");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        TimeScope scope(&unit, Work::call);
        unit.note_break("item() at a.cpp:1");
        unit.note_recompile("size");
        if (i % 50 == 0) unit.note_graph({.id = "0/0"});
      }
    });
  std::thread reader([&] {
    for (int i = 0; i < 50; ++i) unit.facts();
  });
  for (std::thread& thread : threads) thread.join();
  reader.join();
  UnitFacts facts = unit.facts();
  EXPECT_EQ(time_of(facts, Work::call).n, 2000);
  EXPECT_EQ(facts.breaks.total(), 2000);
  EXPECT_EQ(facts.recompiles.n, 2000);
  EXPECT_EQ(facts.n_graphs, 40);
}

TEST(Unit, KeepsBoundedMemory) {
  Unit unit(UnitKind::callable, "f");
  for (int i = 0; i < 1000; ++i) {
    unit.note_break("place " + std::to_string(i));
    unit.note_recompile("reason " + std::to_string(i));
    unit.note_version({.id = "0/" + std::to_string(i)});
    unit.note_saved({.id = "0/" + std::to_string(i)});
    unit.note_graph({.id = "0/" + std::to_string(i)});
  }
  UnitFacts facts = unit.facts();
  EXPECT_EQ(facts.breaks.counts().size(), 64u);
  EXPECT_EQ(facts.breaks.n_others(), 936);
  EXPECT_EQ(facts.recompiles.items.size(), 32u);
  EXPECT_EQ(facts.recompiles.items.back().why, "reason 999");
  EXPECT_EQ(facts.versions.items.size(), 16u);
  EXPECT_EQ(facts.saved.items.size(), 8u);
  EXPECT_EQ(facts.graphs.size(), 24u);
  EXPECT_EQ(facts.graphs.back().id, "0/999");
}

TEST(Unit, KeepsTheGraphsWhoseCodeTakesMostTime) {
  Unit unit(UnitKind::callable, "f");
  auto first = unit.note_graph({.id = "slow"});
  first->ns = 1000;
  for (int i = 0; i < 100; ++i) unit.note_graph({.id = "fast"});
  EXPECT_EQ(unit.facts().graphs.front().id, "slow");
}

TEST(WorkNames, AreThoseOfPhases) {
  EXPECT_EQ(work_of("trace"), Work::trace);
  EXPECT_EQ(work_of("backend"), Work::backend);
  EXPECT_EQ(work_of("something new"), Work::compile);
}

// ---- what stands out

UnitFacts facts_of(const std::string& name) {
  Unit unit(UnitKind::callable, name);
  return unit.facts();
}

std::string said_of(UnitFacts unit) {
  std::string out;
  for (const Finding& f : findings({.wall_s = 1, .units = {std::move(unit)}})) out += f.text + "\n";
  return out;
}

TEST(Findings, SayNothingOfAUnitThatIsWell) {
  EXPECT_THAT(said_of(facts_of("fine")), Not(HasSubstr("fine")));
}

TEST(Findings, NameTheLimitItsCostAndItsReason) {
  UnitFacts unit = facts_of("step");
  unit.figures.after_limit = 7;
  unit.times[static_cast<size_t>(Work::eager)] = {3'000'000, 7};
  unit.recompiles.add({"size at dimension 0 expected 3, found 5", 0.1});
  EXPECT_THAT(said_of(unit), AllOf(HasSubstr("step has reached its limit"), HasSubstr("7 calls"),
                                   HasSubstr("3.00 ms"), HasSubstr("expected 3, found 5")));
}

TEST(Findings, TellTheReasonOfTheNewestVersionOnce) {
  UnitFacts unit = facts_of("step");
  for (int i = 0; i < 3; ++i) unit.recompiles.add({"0/1: found 5; 0/0: found 6", 0.1});
  EXPECT_THAT(said_of(unit), AllOf(HasSubstr("step was compiled again 3 times"),
                                   HasSubstr("0/1: found 5"), Not(HasSubstr("0/0"))));
  unit.figures.after_limit = 1;
  EXPECT_THAT(said_of(unit), AllOf(HasSubstr("reached its limit"), Not(HasSubstr("again"))));
}

TEST(Findings, NameTheBreakThatHappensMost) {
  UnitFacts unit = facts_of("step");
  unit.breaks.add("item() at a.cpp:1");
  for (int i = 0; i < 3; ++i) unit.breaks.add("item() at b.cpp:2");
  EXPECT_THAT(said_of(unit),
              AllOf(HasSubstr("2 places"), HasSubstr("because of item() at b.cpp:2")));
}

TEST(Findings, NameWhatTheBackendDeclined) {
  UnitFacts unit = facts_of("step");
  unit.graphs.push_back({.elsewhere = {{"eager", "aten.sort.default", "no kernel", 2}}});
  EXPECT_THAT(said_of(unit), AllOf(HasSubstr("2 nodes of step were declined"),
                                   HasSubstr("eager runs them, most of them aten.sort.default")));
}

TEST(Findings, PutTheCostliestFirst) {
  UnitFacts cheap = facts_of("cheap"), dear = facts_of("dear");
  for (UnitFacts* unit : {&cheap, &dear}) unit->breaks.add("item() at a.cpp:1");
  dear.times[static_cast<size_t>(Work::call)] = {5'000'000, 1};
  std::vector<Finding> all = findings({.wall_s = 1, .units = {cheap, dear}});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_THAT(all[1].text, HasSubstr("dear"));
}

TEST(TimeText, HasThreeDigits) {
  EXPECT_EQ(time_text(12), "12 ns");
  EXPECT_EQ(time_text(1'500), "1.50 µs");
  EXPECT_EQ(time_text(23'400'000), "23.4 ms");
  EXPECT_EQ(time_text(4'560'000'000), "4.56 s");
}

// ---- the page

TEST(ProgramPage, IsTheSameForTheSameFacts) {
  ProgramFacts facts{.command = "./app <x>", .wall_s = 1, .units = {facts_of("a"), facts_of("b")}};
  EXPECT_EQ(program_page(facts), program_page(facts));
  EXPECT_THAT(program_page(facts), HasSubstr("./app &lt;x&gt;"));
}

TEST(ProgramPage, TellsWhatIsSavedAndWhy) {
  UnitFacts unit = facts_of("loss");
  unit.saved.add(
      {.id = "0/0",
       .values = {{"%h", "f32[32, 128]", "aten.gelu.default", 16384, "compute intensive op"}},
       .bytes = 16384,
       .recomputed = {{"aten.relu.default", 2}}});
  EXPECT_THAT(program_page({.units = {unit}}),
              AllOf(HasSubstr("16.4 KB"), HasSubstr("compute intensive op"),
                    HasSubstr("2 × aten.relu.default")));
}

TEST(ProgramPage, OfNothingSaysSo) {
  EXPECT_THAT(program_page({}), HasSubstr("Nothing was compiled."));
}

TEST(ProgramPage, IsRefusedWhereNothingIsCollected) {
  EXPECT_THROW(write_program_report("x.html"), Error);
}

}  // namespace
}  // namespace tenon::report
