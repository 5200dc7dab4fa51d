// How plugins end: order, who keeps them, ends of processes that nobody announced, forks, leaks.
#include "in_child.h"

#include "backend/find/admission.h"

#include <tenon/library.h>

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
              EXPECT_EQ(error_of([] { compiled("life_below"); }),
                        "BackendCompilerFailed: backend life_below: " + closed);
              EXPECT_EQ(error_of([] { compiled("print"); }), "PluginError: " + closed);
              EXPECT_EQ(artifact->describe(0), "");
              Tensor x = ones({2, 2});
              EXPECT_EQ((x + x).to_vector<float>()[0], 2.0f);  // ops do without plugins
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

}  // namespace
}  // namespace tenon
