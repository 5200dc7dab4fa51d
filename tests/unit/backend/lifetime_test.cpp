// Who is inside a plugin, who holds something of it, and in which order things are retired. The
// gate itself closes once a process: tests/plugins/trust/lifetime_test.cpp.
#include "backend/life/lifetime.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

namespace tenon {
namespace {

TEST(PluginLife, KnowsTheInnermostPluginOfAThread) {
  PluginLife a("a"), b("b");
  EXPECT_EQ(InPlugin::current(), nullptr);
  {
    InPlugin in_a(a);
    ASSERT_TRUE(in_a);
    EXPECT_EQ(InPlugin::current(), &a);
    {
      InPlugin in_b(b);
      EXPECT_EQ(InPlugin::current(), &b);
      std::thread([] { EXPECT_EQ(InPlugin::current(), nullptr); }).join();
    }
    EXPECT_EQ(InPlugin::current(), &a);
  }
  EXPECT_EQ(InPlugin::current(), nullptr);
}

TEST(PluginLife, CountsOnWhenCallsNestDeeply) {
  PluginLife life("deep");
  std::vector<std::unique_ptr<InPlugin>> all;
  for (int i = 0; i < 100; ++i) all.push_back(std::make_unique<InPlugin>(life));
  EXPECT_EQ(InPlugin::current(), &life);
  while (!all.empty()) all.pop_back();
  EXPECT_EQ(InPlugin::current(), nullptr);
}

TEST(PluginLife, TellsWhoIsBusyElsewhere) {
  PluginLife mine("mine"), outer("outer"), inner("inner");
  InPlugin here(mine);  // the thread that waits does not wait for itself
  EXPECT_TRUE(wait_for_calls(0).empty());
  std::atomic<bool> inside{false}, end{false};
  std::thread other([&] {
    InPlugin in_outer(outer);
    InPlugin in_inner(inner);
    inside = true;
    while (!end) std::this_thread::yield();
  });
  while (!inside) std::this_thread::yield();
  EXPECT_EQ(wait_for_calls(0.01), (std::vector<const PluginLife*>{&outer, &inner}));
  end = true;
  EXPECT_TRUE(wait_for_calls(60).empty());
  other.join();
}

TEST(PluginLife, IsHeldByReferences) {
  PluginLife life("held");
  std::optional<PluginRef> a(std::in_place, life);
  {
    PluginRef b(life);
    EXPECT_EQ(life.n_references(), 2);
  }
  a.reset();
  EXPECT_EQ(life.n_references(), 0);
}

TEST(PluginLife, NamesWhatItHolds) {
  PluginLife life("holding");
  EXPECT_EQ(life.held_text(), "");
  life.add_held(Held::tensor, 2);
  life.add_held(Held::status, 1);
  EXPECT_EQ(life.held_text(), "2 tensors, 1 status");
  life.add_held(Held::tensor, -3);  // gave back more than it got: not left behind
  EXPECT_EQ(life.held_text(), "1 status");
}

TEST(Retirables, GoNewestFirstAndOnce) {
  static std::vector<int> retired;
  struct Thing : Retirable {
    explicit Thing(int n, std::unique_ptr<Thing> p = {}) : number(n), part(std::move(p)) { join(); }
    ~Thing() override {
      if (leave()) retire();
    }
    void retire() noexcept override {
      retired.push_back(number);
      part.reset();
    }
    int number;
    std::unique_ptr<Thing> part;
  };
  Thing first(1);
  Thing composite(3, std::make_unique<Thing>(2));
  { Thing gone(4); }
  retire_all();
  EXPECT_EQ(retired, (std::vector<int>{4, 3, 2, 1}));
}

}  // namespace
}  // namespace tenon
