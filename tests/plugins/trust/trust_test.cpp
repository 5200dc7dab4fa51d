// Which plugin files are loaded: shadowed, refused, not allowed, crashed before, replaced.
#include "in_child.h"

#include "backend/find/allow_list.h"

#include <tenon/compile.h>

#include <dlfcn.h>
#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include <regex>

namespace tenon {
namespace {

using namespace test;

class Loading : public InChild {
 protected:
  static std::string told(const PluginInfo& p) {
    return p.code + " " + p.path + ": " + p.reason + (p.hint.empty() ? "" : "; " + p.hint);
  }
  static std::string cannot_be_used(const std::string& why) {
    return "PluginError: backend 'life_below' cannot be used; " + why;
  }
};

TEST_F(Loading, TellsWhoShadowsAPlugin) {  // P13
  std::string first = put("life_below", "a.so"), second = put("life_newer", "b.so");
  EXPECT_EQ(run([&] {
              PluginInfo loser = plugins().at(1);
              EXPECT_EQ(loser.state, "shadowed");
              EXPECT_EQ(told(loser), "P13 " + first + ": plugin life_below comes from " + second +
                                         "; --plugin " + first + " takes this one");
              compiled("life_below");
              EXPECT_EQ(plugin("life_below").path, second);  // the higher version
              EXPECT_EQ(load_plugin(first).state, "ready");
              EXPECT_EQ(plugin("life_below").path, first);
            }),
            0);
}

TEST_F(Loading, TakesALinkForTheFileThatItLeadsTo) {
  std::string path = put("life_below");
  fs::create_symlink(path, root_ + "/link.so");
  fs::create_hard_link(path, root_ + "/hard.so");
  EXPECT_EQ(run([&] {
              EXPECT_EQ(load_plugin(path).state, "ready");
              EXPECT_EQ(load_plugin(root_ + "/link.so").path, path);
              EXPECT_EQ(load_plugin(root_ + "/hard.so").path, path);
            }),
            0);
  EXPECT_EQ(std::ranges::count(log(), "life_below starts"), 1);
}

TEST_F(Loading, NeedsAPath) {
  EXPECT_EQ(error_of([] { load_plugin(""); }),
            "load_plugin: expected the path of a plugin, found an empty one");
}

TEST_F(Loading, RefusesWhatOthersMayWrite) {  // P14
  std::string path = put("life_below");
  ::chmod(path.c_str(), 0757);
  std::string why = "P14 " + path + ": " + path + " (mode 0757, owner " +
                    std::to_string(::geteuid()) + ") may be written by anybody; chmod o-w " + path;
  EXPECT_EQ(run([&] {
              EXPECT_EQ(told(plugin("life_below")), why);
              std::string error = error_of([] { compiled("life_below"); });
              EXPECT_EQ(error.substr(0, error.find("; the nearest")), cannot_be_used(why));
              EXPECT_EQ(error_of([&] { load_plugin(path); }), "PluginError: " + why);
              ::chmod(path.c_str(), 0755);
              EXPECT_EQ(load_plugin(path).state, "ready");
            }),
            0);
  ::chmod(path.c_str(), 0757);
  EXPECT_EQ(run([] {
              config::set("plugins.trust", std::string("off"));
              compiled("life_below");
            }),
            0);
}

TEST_F(Loading, RefusesAFileThatWasOpenedToOthersSinceItWasFound) {
  std::string path = put("life_below");
  EXPECT_EQ(run([&] {
              EXPECT_EQ(plugin("life_below").state, "found");
              ::chmod(path.c_str(), 0757);
              EXPECT_EQ(error_of([] { compiled("life_below"); }).find("PluginError: P14 " + path),
                        0u);
              EXPECT_EQ(plugin("life_below").state, "refused");
              ::chmod(path.c_str(), 0755);
              compiled("life_below");
            }),
            0);
}

TEST_F(Loading, TakesWhatTheAllowListNames) {  // P15
  std::string path = put("life_below"), digest = digest_of(path);
  auto with = [&](const std::string& item, auto f) {
    return run([&] {
      config::set("plugins.allow", std::vector<std::string>{item});
      config::set("plugins.allow_only", true);
      f();
    });
  };
  EXPECT_EQ(with("tenon_life_below.so=" + digest,
                 [&] {
                   compiled("life_below");
                   EXPECT_EQ(plugin("life_below").digest(), digest);
                 }),
            0);
  std::string other = "sha256:" + std::string(64, '0');
  EXPECT_EQ(with("tenon_life_below.so=" + other,
                 [&] {
                   EXPECT_EQ(error_of([&] { load_plugin(path); }),
                             "PluginError: P15 " + path + ": plugins.allow expects " + other +
                                 ", the file has " + digest +
                                 "; if it was replaced on purpose, write its digest into "
                                 "plugins.allow");
                 }),
            0);
  EXPECT_EQ(with("tenon_other.so=" + digest,
                 [&] {
                   EXPECT_EQ(error_of([&] { load_plugin(path); }),
                             "PluginError: P15 " + path +
                                 ": plugins.allow does not name it, and plugins.allow_only is set; "
                                 "add the line `tenon plugin info " +
                                 path + "` prints to plugins.allow");
                 }),
            0);
}

TEST_F(Loading, NoticesThatTheLoaderTookAnotherFile) {  // P15
  std::string path = put("life_below");
  EXPECT_EQ(run([&] {
              void* old = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
              EXPECT_NE(old, nullptr);
              put("life_newer", "tenon_life_below.so");  // the path stands for the old one now
              std::string why =
                  "P15 " + path +
                  ": the loader mapped another file than the one that was examined; it was "
                  "replaced meanwhile, or an older version is in this process: restart";
              EXPECT_EQ(error_of([&] { load_plugin(path); }), "PluginError: " + why);
              EXPECT_EQ(plugin("life_below").state, "refused");
              EXPECT_EQ(told(plugin("life_below")), why);
            }),
            0);
  EXPECT_EQ(log(), Lines{"life_below static objects end"});  // its entry was not called
}

TEST_F(Loading, AsksToTryAgainWhenTheFileChangedSinceItWasFound) {
  std::string path = put("life_below");
  EXPECT_EQ(run([&] {
              EXPECT_EQ(plugin("life_below").version, "0.1.0");
              put("life_newer", "tenon_life_below.so");
              EXPECT_EQ(error_of([] { compiled("life_below"); }),
                        "PluginError: P15 " + path + ": changed since it was found; try again");
              compiled("life_below");
              EXPECT_EQ(plugin("life_below").version, "0.2.0");
            }),
            0);
}

TEST_F(Loading, DoesNotLoadAgainWhatCrashed) {  // P16
  std::string path = put("life_below");
  struct Case {
    std::string told, how;
    int end;
  };
  for (const Case& c : {Case{"crash_in_constructor", "with SIGSEGV", 1000 + SIGSEGV},
                        {"crash_in_entry", "with SIGSEGV", 1000 + SIGSEGV},
                        {"abort_in_entry", "with SIGABRT", 1000 + SIGABRT},
                        {"exit_in_entry", "in an unknown way", 3}}) {
    SCOPED_TRACE(c.told);
    EXPECT_EQ(run([] { compiled("life_below"); }, c.told), c.end);
    std::string crashed = std::to_string(child_);
    EXPECT_EQ(run([&] {
                PluginInfo p = plugin("life_below");
                EXPECT_EQ(p.state, "quarantined");
                std::string text = std::regex_replace(
                    told(p), std::regex("\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d UTC"), "TODAY");
                EXPECT_EQ(text, "P16 " + path + ": loading it ended process " + crashed + " " +
                                    c.how + " on TODAY; `tenon plugin check " + path +
                                    "` shows where; `tenon plugin release life_below` lets it be "
                                    "loaded again");
                std::string error = error_of([] { compiled("life_below"); });
                EXPECT_EQ(error.substr(0, error.find("; the nearest")), cannot_be_used(told(p)));
                EXPECT_EQ(error_of([] { release_plugin("life_belov"); }),
                          "release_plugin: 'life_belov' is not quarantined; the nearest that are: "
                          "life_below");
                release_plugin("life_below");
                EXPECT_EQ(plugin("life_below").state, "found");
                compiled("life_below");
                EXPECT_EQ(error_of([] { release_plugin("life_below"); }),
                          "release_plugin: 'life_below' is not quarantined; no plugin is");
              }),
              0);
  }
}

// Flag plugins.probe.
TEST_F(Loading, InAChildFirstCostsNothingWhenItCrashes) {
  std::string path = put("life_below");
  for (bool quarantine : {true, false}) {
    auto compile_once = [&] {
      config::set("plugins.probe", std::string("always"));
      config::set("plugins.quarantine", quarantine);
      std::string error = error_of([] { compiled("life_below"); });
      EXPECT_NE(error.find("P16 " + path + ": loading it "), error.npos) << error;
      EXPECT_NE(error.find(quarantine ? "SIGSEGV" : "signal 11"), error.npos) << error;
    };
    EXPECT_EQ(run(compile_once, "crash_in_entry"), 0);
    EXPECT_EQ(run(
                  [] {
                    config::set("plugins.quarantine", false);
                    config::set("plugins.probe", std::string("always"));
                    std::string error = error_of([] { compiled("life_below"); });
                    EXPECT_NE(error.find("ended that with exit status 3"), error.npos) << error;
                  },
                  "exit_in_entry"),
              0);
    EXPECT_EQ(run([] {
                if (plugin("life_below").state == "quarantined") release_plugin("life_below");
                config::set("plugins.probe", std::string("always"));
                compiled("life_below");
              }),
              0);
  }
}

// Whoever kills a process while it starts says nothing about the plugin that it loads just then.
TEST_F(Loading, LoadsAgainAfterAKillAndStopsAfterThree) {
  std::string path = put("life_below");
  auto killed = [&] { EXPECT_EQ(run([] { compiled("life_below"); }, "kill_in_entry"), 1009); };
  killed();
  killed();
  EXPECT_EQ(run([] {
              EXPECT_EQ(plugin("life_below").state, "found");
              compiled("life_below");  // which shows that the two were not its doing
            }),
            0);
  killed();
  killed();
  EXPECT_EQ(run([] { EXPECT_EQ(plugin("life_below").state, "found"); }), 0);
  killed();
  EXPECT_EQ(run([] {
              EXPECT_EQ(plugin("life_below").state, "quarantined");
              EXPECT_NE(told(plugin("life_below")).find("the last of 3 in an hour"),
                        std::string::npos);
              release_plugin("life_below");
              compiled("life_below");
            }),
            0);
}

TEST_F(Loading, EndsAQuarantineWhenTheFileIsReplaced) {
  put("life_below");
  EXPECT_EQ(run([] { compiled("life_below"); }, "crash_in_entry"), 1000 + SIGSEGV);
  EXPECT_EQ(run([] {
              config::set("plugins.quarantine", false);
              EXPECT_EQ(plugin("life_below").state, "found");
            }),
            0);
  EXPECT_EQ(run([] { EXPECT_EQ(plugin("life_below").state, "quarantined"); }), 0);
  put("life_newer", "tenon_life_below.so");
  EXPECT_EQ(run([] { compiled("life_below"); }), 0);
}

TEST_F(Loading, QuarantinesNothingThatFailedInOrder) {
  std::string path = put("life_below");
  auto fails = [&] {
    EXPECT_EQ(error_of([&] { load_plugin(path); }),
              "PluginError: P11 " + path + ": its entry failed: told to fail");
  };
  EXPECT_EQ(run(fails, "fail_in_entry"), 0);
  EXPECT_EQ(run([] { compiled("life_below"); }), 0);
}

TEST_F(Loading, LoadsWithoutACacheFolder) {
  put("life_below");
  std::ofstream(root_ + "/cache") << "no folder";
  EXPECT_EQ(run([] { compiled("life_below"); }), 0);
}

TEST_F(Loading, StaysWithTheOldVersionOfAFileThatWasReplaced) {  // P18
  std::string path = put("life_below");
  EXPECT_EQ(run([&] {
              auto artifact = compiled("life_below");
              put("life_newer", "tenon_life_below.so");
              rescan_plugins();
              PluginInfo p = plugin("life_below");
              EXPECT_EQ(p.state, "ready");
              EXPECT_EQ(p.version, "0.1.0");
              EXPECT_EQ(told(p), "P18 " + path +
                                     ": version 0.1.0 is loaded, the file is now 0.2.0; restart to "
                                     "use it");
              EXPECT_EQ(twice(*artifact).to_vector<float>()[0], 2.0f);
              EXPECT_EQ(twice(*compiled("life_below")).to_vector<float>()[0], 2.0f);
              fs::remove(path);
              EXPECT_EQ(told(plugin("life_below")),
                        "P18 " + path +
                            ": version 0.1.0 is loaded, the file is now gone; what is loaded can "
                            "be used until the process ends");
              EXPECT_EQ(twice(*compiled("life_below")).to_vector<float>()[0], 2.0f);
            }),
            0);
}

/// Behind it lie names for debuggers, which a copy may lack.
size_t end_of_what_is_loaded(const std::string& elf) {
  Elf64_Ehdr header;
  std::memcpy(&header, elf.data(), sizeof header);
  size_t end = 0;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, elf.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type == PT_LOAD) end = std::max(end, segment.p_offset + segment.p_filesz);
  }
  return end;
}

TEST_F(Loading, FindsAFileWhenItsCopyIsWhole) {
  std::string whole = put("life_below"), half = root_ + "/p/half.so";
  fs::rename(whole, root_ + "/whole");
  EXPECT_EQ(run([&] {
              std::ifstream in(root_ + "/whole", std::ios::binary);
              std::string bytes{std::istreambuf_iterator<char>(in), {}};
              size_t cut = end_of_what_is_loaded(bytes) - 1;
              std::ofstream(half, std::ios::binary) << bytes.substr(0, cut);
              EXPECT_EQ(plugins().at(0).state, "broken");
              EXPECT_EQ(plugins().at(0).code, "P01");
              EXPECT_EQ(plugin_errors().at(0).path, half);
              std::ofstream(half, std::ios::binary | std::ios::app) << bytes.substr(cut);
              EXPECT_EQ(plugins().at(0).state, "found");
              EXPECT_TRUE(plugin_errors().empty());
              compiled("life_below");
            }),
            0);
}

}  // namespace
}  // namespace tenon
