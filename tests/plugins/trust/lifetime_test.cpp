// How plugins end: order, who keeps them, ends of processes that nobody announced, forks, leaks.
#include "in_child.h"

#include "backend/find/admission.h"
#include "core/float_mode.h"
#include "core/threads/thread_pool.h"

#include <tenon/autograd.h>
#include <tenon/compile.h>
#include <tenon/library.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tenon {
namespace {

using namespace test;

class Lifetime : public InChild {};

TEST_F(Lifetime, ShutsDownInReverseOrderBeforeStaticObjectsEnd) {
  put("life_above");
  put("life_below");
  EXPECT_EQ(run([] {
              compiled("life_above");
              EXPECT_EQ(plugin("life_below").state, "ready");
              shutdown();
              EXPECT_EQ(plugin("life_above").state, "down");
              shutdown();  // once is enough
            }),
            0);
  EXPECT_EQ(log(),
            (Lines{"life_below starts", "life_above starts", "life_above artifact is destroyed",
                   "life_above shuts down", "life_below shuts down",
                   "life_above static objects end", "life_below static objects end"}));
}

TEST_F(Lifetime, EndsWithTheProcessToo) {
  put("life_above");
  put("life_below");
  EXPECT_EQ(run([] {
              static auto kept = compiled("life_above");  // made before, destroyed after
              EXPECT_EQ(twice(*kept).to_vector<float>()[2], 2.0f);
            }),
            0);
  EXPECT_EQ(log(),
            (Lines{"life_below starts", "life_above starts", "life_above artifact is destroyed",
                   "life_above shuts down", "life_below shuts down",
                   "life_above static objects end", "life_below static objects end"}));
}

TEST_F(Lifetime, DestroysCompositesBeforeTheirParts) {
  put("life_above");
  put("life_below");
  EXPECT_EQ(run(
                [] {
                  auto outer = compiled("life_above");
                  auto other = compiled("life_below");
                  EXPECT_EQ(twice(*outer).to_vector<float>()[0], 2.0f);
                  shutdown();
                },
                "nest"),
            0);
  EXPECT_EQ(log(),
            (Lines{"life_below starts", "life_above starts", "life_below artifact is destroyed",
                   "life_above artifact is destroyed", "life_below artifact is destroyed",
                   "life_above shuts down", "life_below shuts down",
                   "life_above static objects end", "life_below static objects end"}));
}

TEST_F(Lifetime, RefusesWorkAfterShutdown) {
  put("life_below");
  EXPECT_EQ(run([] {
              auto artifact = compiled("life_below");
              shutdown();
              std::string closed =
                  "plugins are shut down: tenon::shutdown() was called, or the process is ending";
              EXPECT_EQ(error_of([&] { twice(*artifact); }),
                        "BackendCallFailed: backend life_below: " + closed);
              for (const char* known_or_not : {"life_below", "print"})
                EXPECT_EQ(error_of([&] { compiled(known_or_not); }), "PluginError: " + closed);
              EXPECT_EQ(artifact->describe(0), "");
              Tensor x = ones({2, 2});
              EXPECT_EQ((x + x).to_vector<float>()[0], 2.0f);  // ops do without plugins
            }),
            0);
}

TEST_F(Lifetime, CompilesNothingWithWhatIsUnmapped) {
  std::string path = put("life_below");
  EXPECT_EQ(run([&] {
              config::set("plugins.unload", std::string("explicit"));
              compiled("life_below");
              shutdown();
              std::string closed =
                  "PluginError: plugins are shut down: tenon::shutdown() was called, or the "
                  "process is ending";
              EXPECT_EQ(error_of([] { compiled("life_below"); }), closed);
              EXPECT_EQ(error_of([&] { load_plugin(path); }), closed);
            }),
            0);
}

TEST_F(Lifetime, LeavesGraphsAloneOfWhichThePluginTookNothing) {
  EXPECT_EQ(run([] {
              Tensor x = ones({2});
              auto lone = compile([](const Tensor& t) { return t + 1; }, {.backend = "ts"});
              auto pair = compile([](const Tensor& t) { return t.sin() + 1; }, {.backend = "ts"});
              lone(x), pair(x);
              shutdown();
              EXPECT_EQ(lone(x).to_vector<float>()[0], 2.0f);
              EXPECT_EQ(error_of([&] { pair(x); }),
                        "BackendCallFailed: backend ts: plugins are shut down: tenon::shutdown() "
                        "was called, or the process is ending");
            }),
            0);
}

// Registered before the plugin is loaded, it runs when that is down.
TEST_F(Lifetime, CompiledCallsGoOnOpByOpWhileTheProcessEnds) {
  EXPECT_EQ(run([] {
              static Tensor sum = zeros({2}), w = ones({2}).requires_grad_();
              static auto& f = *new auto(compile(
                  [](const Tensor& x) {
                    sum.add_(x);
                    return (x.sin() + sum).sum();
                  },
                  {.backend = "ts"}));
              std::atexit([] {
                EXPECT_EQ(sum.to_vector<float>()[0], 2.0f);
                f(w).backward();
                EXPECT_TRUE(w.grad().defined());
                auto late = compile([](const Tensor& x) { return x * 2; }, {.backend = "ts"});
                EXPECT_EQ(late(sum).to_vector<float>()[0], 6.0f);
                if (testing::Test::HasFailure()) ::_exit(1);
              });
              f(ones({2})), f(ones({2}));
            }),
            0);
}

TEST_F(Lifetime, EndsTheOpsOfPluginsWithThem) {
  put("test_custom_ops");
  for (std::string unload : {"never", "explicit"}) {
    EXPECT_EQ(run([&] {
                config::set("plugins.unload", unload);
                const Op<Tensor(const Tensor&)> twice_op{"test_ops::twice"};
                Tensor x = ones({3});
                EXPECT_EQ(twice_op(x).to_vector<float>()[0], 2.0f);
                shutdown();
                EXPECT_EQ(error_of([&] { twice_op(x); }),
                          "BackendCallFailed: the kernel of op test_ops.twice.default: plugins are "
                          "shut down: tenon::shutdown() was called, or the process is ending");
              }),
              0);
  }
}

// A new thread computes with gradients on.
TEST_F(Lifetime, GivesResultsOfItsOwnThreadsNoHistory) {
  put("life_below");
  EXPECT_EQ(run(
                [] {
                  auto f =
                      compile([](const Tensor& x, const Tensor& w) { return (x * w).tanh().sum(); },
                              {.backend = "life_below"});
                  Tensor x = ones({3}), w = full({3}, 0.5).requires_grad_();
                  f(x, w).backward();
                  EXPECT_FALSE(w.grad().requires_grad());
                  NoGradGuard none;
                  EXPECT_FALSE(f(x, w).requires_grad());
                },
                "own_thread"),
            0);
}

TEST_F(Lifetime, LetsAnArtifactOutliveWhatCompiledIt) {
  put("life_below");
  EXPECT_EQ(run([] {
              std::shared_ptr<Artifact> kept;
              {
                auto artifact = compiled("life_below");
                kept = artifact;
              }
              set_plugin_search({}, {});  // even the catalog that found the plugin
              EXPECT_EQ(twice(*kept).to_vector<float>()[1], 2.0f);
            }),
            0);
}

TEST_F(Lifetime, StaysReadyWhileATensorIsInItsMemory) {
  put("life_above");
  put("life_below");
  EXPECT_EQ(run(
                [this] {
                  Tensor kept = twice(*compiled("life_below"));
                  compiled("life_above");
                  report::LogCapture lines;
                  shutdown();
                  EXPECT_EQ(plugin("life_below").state, "ready");
                  EXPECT_EQ(plugin("life_above").state, "down");
                  EXPECT_EQ(lines.lines(),
                            Lines{"warning: [backend] plugin life_below is not shut down: 1 of its "
                                  "artifacts and tensors are in use"});
                  EXPECT_EQ(kept.to_vector<float>()[0], 2.0f);
                  EXPECT_EQ(log().back(), "life_above shuts down");
                  kept = Tensor();
                  EXPECT_EQ(log().back(), "life_below memory is given back");
                  shutdown();
                  EXPECT_EQ(plugin("life_below").state, "down");
                },
                "lend"),
            0);
}

TEST_F(Lifetime, StaysReadyForThePluginThatUsesIt) {
  put("life_above");
  put("life_below");
  EXPECT_EQ(run(
                [] {
                  Tensor kept = twice(*compiled("life_above"));
                  report::LogCapture lines;
                  shutdown();
                  EXPECT_EQ(plugin("life_below").state, "ready");
                  EXPECT_EQ(lines.count("plugin life_below is not shut down: plugin life_above "
                                        "uses it and is not down"),
                            1u);
                },
                "lend"),
            0);
  EXPECT_EQ(log(), (Lines{"life_below starts", "life_above starts",
                          "life_above artifact is destroyed", "life_above memory is given back",
                          "life_above shuts down", "life_below shuts down",  // with the process
                          "life_above static objects end", "life_below static objects end"}));
}

TEST_F(Lifetime, LeavesMemoryAloneOnceTheProcessHasEnded) {
  put("life_below");
  EXPECT_EQ(run([] { static Tensor kept = twice(*compiled("life_below")); }, "lend"), 0);
  EXPECT_EQ(log().back(), "life_below static objects end");
}

TEST_F(Lifetime, WaitsForCallsThatAreRunning) {
  put("life_below");
  EXPECT_EQ(run(
                [] {
                  auto artifact = compiled("life_below");
                  std::thread caller([&] { EXPECT_EQ(twice(*artifact).size(0), 3); });
                  std::this_thread::sleep_for(std::chrono::milliseconds(100));
                  shutdown();
                  caller.join();
                },
                "slow"),
            0);
  EXPECT_EQ(log(),
            (Lines{"life_below starts", "life_below call ends", "life_below artifact is destroyed",
                   "life_below shuts down", "life_below static objects end"}));
}

TEST_F(Lifetime, LeavesTheEndToTheParentOfAFork) {
  put("life_above");
  put("life_below");
  EXPECT_EQ(run([] {
              auto artifact = compiled("life_below");
              pid_t parent = ::getpid();
              pid_t child = ::fork();
              if (child == 0) {
                EXPECT_EQ(twice(*artifact).to_vector<float>()[0], 2.0f);
                std::string self = std::to_string(::getpid());
                EXPECT_EQ(error_of([] { compiled("life_above"); }),
                          "PluginError: process " + self + " was forked from " +
                              std::to_string(parent) +
                              " after that had loaded plugins, and cannot load more; fork before "
                              "the first compile, or exec");
                EXPECT_EQ(error_of([] { shutdown(); }), "shutdown: this process was forked from " +
                                                            std::to_string(parent) +
                                                            ", which has to shut the plugins down");
                ::setenv("LIFE_LOG", "/dev/null", 1);  // static objects end in the child as well
                std::exit(testing::Test::HasFailure() ? 1 : 0);
              }
              int status = 0;
              ::waitpid(child, &status, 0);
              EXPECT_EQ(status, 0);
            }),
            0);
  EXPECT_EQ(log(), (Lines{"life_below starts", "life_below artifact is destroyed",
                          "life_below shuts down", "life_below static objects end"}));
}

TEST_F(Lifetime, UnmapsLibrariesWhenToldTo) {
  std::string path = put("life_below");
  for (std::string mode : {"never", "explicit"}) {
    EXPECT_EQ(run([&] {
                config::set("plugins.unload", mode);
                compiled("life_below");
                EXPECT_TRUE(is_path_mapped(path));
                shutdown();
                EXPECT_EQ(is_path_mapped(path), mode == "never");
              }),
              0);
  }
}

TEST_F(Lifetime, TellsWhatWasLeftBehind) {
  std::string path = put("life_below");
  EXPECT_EQ(run(
                [&] {
                  config::set("plugins.check_leaks", true);
                  Tensor result = twice(*compiled("life_below"));
                  twice(*compiled("life_below"));
                  report::LogCapture lines;
                  shutdown();
                  std::string told =
                      "P22 " + path +
                      ": left 4 tensors, 2 statuses, 2 artifacts behind at shutdown; release what "
                      "host functions give, free statuses, destroy artifacts that interpret and "
                      "compile_with made";
                  EXPECT_EQ(lines.lines(), Lines{"warning: [backend] " + told});
                  PluginInfo p = plugin("life_below");
                  EXPECT_EQ(p.state, "down");
                  EXPECT_EQ(p.code + " " + p.path + ": " + p.reason + "; " + p.hint, told);
                },
                "leak"),
            0);
  EXPECT_EQ(run([] {
              config::set("plugins.check_leaks", true);
              for (int i = 0; i < 3; ++i) twice(*compiled("life_below"));
              shutdown();
              EXPECT_EQ(plugin("life_below").code, "");
            }),
            0);
}

// Seconds that a child needs to end.
template <class F>
double seconds_of(F&& f) {
  auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST_F(Lifetime, AProgramThatEndsInsideACallEndsAtOnce) {
  put("life_below");
  for (const char* where : {"exit_in_call", "exit_in_body"}) {
    SCOPED_TRACE(where);
    double seconds = seconds_of([&] {
      EXPECT_EQ(run(
                    [] {
                      set_num_threads(4);
                      auto artifact = compiled("life_below");
                      twice(*artifact);
                    },
                    where),
                3);
    });
    EXPECT_LT(seconds, 10);
  }
}

TEST_F(Lifetime, AShutdownThatDoesNotReturnIsLeftBehind) {
  put("life_below");
  put("life_above");
  double seconds = seconds_of([&] {
    EXPECT_EQ(run(
                  [] {
                    report::LogCapture log;
                    compiled("life_above");
                    shutdown();
                    EXPECT_EQ(log.count("its shutdown did not return within 5 s"), 1u);
                    EXPECT_EQ(plugin("life_above").state, "draining");
                    // It may use the other one still.
                    EXPECT_EQ(plugin("life_below").state, "ready");
                  },
                  "hang_in_shutdown"),
              0);
  });
  EXPECT_LT(seconds, 20);
}

// The catalog may be locked by another thread at the moment of a fork.
TEST_F(Lifetime, AForkWhileOthersLookForPluginsDoesNotHang) {
  put("life_below");
  EXPECT_EQ(run([] {
              std::atomic<bool> done{false};
              std::vector<std::thread> others;
              for (int i = 0; i < 3; ++i)
                others.emplace_back([&] {
                  while (!done) plugins();
                });
              for (int i = 0; i < 60; ++i) {
                pid_t child = ::fork();
                if (child == 0) {
                  ::alarm(10);
                  bool found = plugin("life_below").state == "found";
                  ::_exit(found ? 0 : 1);
                }
                int status = 0;
                ::waitpid(child, &status, 0);
                EXPECT_EQ(status, 0);
              }
              done = true;
              for (std::thread& t : others) t.join();
            }),
            0);
}

TEST_F(Lifetime, ACrashTellsOfPluginStageAndGraph) {
  put("life_below");
  for (const char* where : {"segv_in_compile", "segv_in_call"}) {
    SCOPED_TRACE(where);
    for (bool wanted : {true, false}) {
      int end = run(
          [&] {
            EXPECT_NE(std::freopen((root_ + "/stderr").c_str(), "w", stderr), nullptr);
            config::set("plugins.report_crashes", wanted);
            config::set("dynamo.debug_dir_root", root_ + "/left");
            auto artifact = compiled("life_below");
            twice(*artifact);
          },
          where);
      EXPECT_EQ(end, 1000 + SIGSEGV);
      std::ostringstream told;
      told << std::ifstream(root_ + "/stderr").rdbuf();
      std::string function = std::string(where) == "segv_in_call" ? "call" : "compile";
      std::string expected =
          "tenon: the process ends with SIGSEGV\n  in plugin life_below: " + function +
          " of backend life_below, stage inference, graph f, compilation 0/0\n";
      // A graph that was being compiled is left behind.
      std::string left = function == "compile" ? "  the graph is in " + root_ + "/left/run_" : "";
      if (wanted)
        EXPECT_TRUE(told.str().starts_with(expected + left)) << told.str();
      else
        EXPECT_EQ(told.str(), "");
    }
  }
}

TEST_F(Lifetime, ThePluginsChangesOfTheFloatingPointModeAreUndone) {
  put("life_below");
  for (const char* when : {"flush_in_constructor", "round_in_compile", "round_in_call"}) {
    SCOPED_TRACE(when);
    EXPECT_EQ(run(
                  [] {
                    report::LogCapture log;
                    FloatMode before = FloatMode::now();
                    auto artifact = compiled("life_below");
                    twice(*artifact);
                    EXPECT_EQ(FloatMode::now(), before);
                    volatile float small = 1e-38f, half = 0.5f;
                    EXPECT_NE(small * half, 0);
                    EXPECT_EQ(log.count("P23"), 1u);
                    EXPECT_EQ(log.count("changed the floating-point mode"), 1u);
                    std::string told(std::getenv("LIFE_DO"));
                    EXPECT_EQ(log.count(told.starts_with("flush") ? "mapping" : "upwards"), 1u);
                  },
                  when),
              0);
  }
}

}  // namespace
}  // namespace tenon
