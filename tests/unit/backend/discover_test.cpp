// Plugin search: order, shadowing, rescans, trust. Directories are made for each test.
#include "backend/find/discover.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "tiny_elf.h"

namespace tenon {
namespace {

using test::manifest_of;
using test::TinyElf;
namespace fs = std::filesystem;

class Discovery : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tenon_discover_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string dir(const std::string& name) {
    fs::create_directories(root_ + "/" + name);
    return root_ + "/" + name;
  }
  /// Writes a plugin file; returns its path.
  std::string put(const std::string& directory, const std::string& file,
                  const std::string& manifest) {
    std::string path = dir(directory) + "/" + file;
    TinyElf{.manifests = {manifest}}.write(path);
    return path;
  }
  static std::string winner(PluginCatalog& c, std::string_view name, std::string_view device = "") {
    auto found = c.find_backend(name, device);
    return found ? found->plugin->path : "";
  }
  std::string root_;
};

TEST_F(Discovery, TriesTheFiveSourcesInOrder) {
  SearchSettings s{.files = {put("file", "a.so", manifest_of("p1", "b"))},
                   .option_path = {dir("option")},
                   .environment = dir("env1") + "::" + dir("env2"),
                   .config_path = {dir("config")},
                   .install_dir = dir("install")};
  std::vector<std::string> paths;
  for (std::string d : {"option", "env1", "env2", "config", "install"})
    paths.push_back(put(d, "a.so", manifest_of(d, "b")));
  paths.insert(paths.begin(), s.files[0]);
  PluginCatalog catalog(s);
  auto all = catalog.list();
  ASSERT_EQ(all.size(), 6u);
  for (size_t i = 0; i < paths.size(); ++i) {
    EXPECT_EQ(all[i]->path, paths[i]);
    EXPECT_EQ(all[i]->state, i == 0 ? PluginState::found : PluginState::shadowed);
  }
  for (const std::string& path : paths) {  // the next one takes over when the first goes
    EXPECT_EQ(winner(catalog, "b"), path);
    fs::remove(path);
    catalog.rescan();
  }
  EXPECT_EQ(winner(catalog, "b"), "");
}

TEST_F(Discovery, LeavesOutConfigAndInstallAfterAnExclamationMark) {
  SearchSettings s{
      .option_path = {"/o"}, .environment = "!/a:/b", .config_path = {"/c"}, .install_dir = "/i"};
  std::vector<SearchPlace> expected = {{PluginSource::option, "/o"},
                                       {PluginSource::environment, "/a"},
                                       {PluginSource::environment, "/b"}};
  EXPECT_EQ(search_places(s), expected);
  s.environment = "!";
  EXPECT_EQ(search_places(s).size(), 1u);
}

TEST_F(Discovery, KnowsOnlyTheInstallDirectoryInSecureProcesses) {
  SearchSettings s{.files = {"/f.so"},
                   .option_path = {"/o"},
                   .environment = "!/a",
                   .config_path = {"/c"},
                   .install_dir = "/i",
                   .secure = true};
  std::vector<SearchPlace> expected = {{PluginSource::install, "/i"}};
  EXPECT_EQ(search_places(s), expected);
}

TEST_F(Discovery, TakesOnlyVisibleSharedObjectsOfTheDirectoryItself) {
  put("d", "good.so", manifest_of("good", "b"));
  put("d", ".hidden.so", manifest_of("hidden", "h"));
  put("d", "notes.txt", manifest_of("text", "t"));
  put("d/deeper", "deep.so", manifest_of("deep", "x"));
  fs::create_directory(root_ + "/d/folder.so");
  fs::create_symlink("folder.so", root_ + "/d/link.so");
  fs::create_symlink("gone.so", root_ + "/d/nowhere.so");
  fs::create_symlink("round.so", root_ + "/d/round.so");
  ASSERT_EQ(::mkfifo((root_ + "/d/pipe.so").c_str(), 0600), 0);
  TinyElf{}.write(root_ + "/d/libother.so");  // no note: silent
  PluginCatalog catalog({.option_path = {root_ + "/d"}});
  auto all = catalog.list();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]->manifest.name, "good");
}

TEST_F(Discovery, PrefersTheHigherVersionThenTheSmallerName) {
  put("d", "a.so", manifest_of("old", "b", "0.9.0"));
  std::string newer = put("d", "z.so", manifest_of("newer", "b", "0.10.0"));
  std::string same = put("d", "y.so", manifest_of("same", "b", "0.10.0"));
  PluginCatalog catalog({.option_path = {root_ + "/d"}});
  EXPECT_EQ(winner(catalog, "b"), same);
  fs::remove(same);
  catalog.rescan();
  EXPECT_EQ(winner(catalog, "b"), newer);
}

TEST_F(Discovery, KeysBackendsByNameAndDevice) {
  std::string cpu = put("d", "a.so", manifest_of("p_cpu", "inductor", "0.1.0", "\"cpu\""));
  std::string cuda = put("d", "b.so", manifest_of("p_cuda", "inductor", "0.1.0", "\"cuda\""));
  std::string any = put("e", "c.so", manifest_of("p_any", "inductor", "0.1.0", "\"*\""));
  PluginCatalog catalog({.option_path = {root_ + "/d", root_ + "/e"}});
  EXPECT_EQ(winner(catalog, "inductor", "cpu"), cpu);
  EXPECT_EQ(winner(catalog, "inductor", "cuda"), cuda);
  EXPECT_EQ(winner(catalog, "inductor", "tpu"), any);
  for (const auto& p : catalog.list()) EXPECT_EQ(p->state, PluginState::found) << p->path;
}

constexpr char option_level[] = R"(
[[backend.option]]
name = "level"
type = "int"
default = 3
)";

TEST_F(Discovery, OneNameMeansTheSameOptionsOnEveryDevice) {
  auto offering = [](std::string plugin, std::string device, std::string options) {
    return manifest_of(std::move(plugin), "inductor", "0.1.0", std::move(device)) + options;
  };
  std::string other = "[[backend.option]]\nname = \"fast\"\ntype = \"bool\"\ndefault = true\n";
  std::string cpu = put("d", "a.so", offering("p_cpu", "\"cpu\"", option_level));
  std::string cuda = put("d", "b.so", offering("p_cuda", "\"cuda\"", option_level + other));
  std::string wrong =
      std::string(option_level).replace(std::string(option_level).find('3'), 1, "4");
  std::string tpu = put("d", "c.so", offering("p_tpu", "\"tpu\"", wrong));
  put("d", "d.so", offering("p_late", "\"cpu\"", wrong));  // shadowed: nobody means its options
  PluginCatalog catalog({.option_path = {root_ + "/d"}});
  EXPECT_EQ(winner(catalog, "inductor", "cpu"), cpu);
  EXPECT_EQ(winner(catalog, "inductor", "cuda"), cuda);
  EXPECT_EQ(winner(catalog, "inductor", "tpu"), "");
  auto broken = catalog.find_path(tpu);
  ASSERT_NE(broken, nullptr);
  EXPECT_EQ(broken->state, PluginState::broken);
  EXPECT_EQ(to_text(broken->diagnosis).find("P04"), 0u) << to_text(broken->diagnosis);
  EXPECT_EQ(broken->diagnosis.reason,
            "option level of backend inductor: expected type int with default 3, as " + cpu +
                " declares it for another device, found type int with default 4");
  EXPECT_EQ(winner(catalog, "p_late/inductor"), root_ + "/d/d.so");
}

TEST_F(Discovery, ReachesShadowedBackendsByTheirPlugin) {
  put("a", "x.so", manifest_of("first", "b"));
  std::string second = put("b", "x.so", manifest_of("second", "b"));
  PluginCatalog catalog({.option_path = {root_ + "/a", root_ + "/b"}});
  EXPECT_EQ(winner(catalog, "second/b"), second);
  EXPECT_EQ(winner(catalog, "third/b"), "");
  auto loser = catalog.find_plugin("second");
  ASSERT_TRUE(loser);
  EXPECT_EQ(to_text(loser->diagnosis), "P13 " + second + ": backend b comes from " + root_ +
                                           "/a/x.so; \"second/b\" names this one");
}

TEST_F(Discovery, ShadowsASecondPluginOfTheSameNameAsAWhole) {
  std::string kernels = "[[kernels]]\ndevice = \"cpu\"\nops = [\"aten.mm.default\"]\n";
  std::string first = put("a", "x.so", manifest_of("p", "b") + kernels);
  put("b", "x.so", manifest_of("p", "c") + kernels);
  PluginCatalog catalog({.option_path = {root_ + "/a", root_ + "/b"}});
  EXPECT_EQ(catalog.list()[1]->state, PluginState::shadowed);
  EXPECT_EQ(winner(catalog, "c"), "");
  ASSERT_EQ(catalog.kernels_for("cpu").size(), 1u);
  EXPECT_EQ(catalog.kernels_for("cpu")[0].plugin->path, first);
}

TEST_F(Discovery, TakesTheFileThatWasNamedOfTwoWithOnePluginName) {
  std::string first = put("a", "x.so", manifest_of("p", "b"));
  std::string second = put("b", "x.so", manifest_of("p", "b"));
  SearchSettings settings{.option_path = {root_ + "/a", root_ + "/b"}};
  PluginCatalog found(settings);
  EXPECT_EQ(to_text(found.list().at(1)->diagnosis), "P13 " + second + ": plugin p comes from " +
                                                        first + "; --plugin " + second +
                                                        " takes this one");
  settings.files = {second};
  PluginCatalog named(settings);
  EXPECT_EQ(winner(named, "b"), second);
  EXPECT_EQ(winner(named, "p/b"), second);
}

TEST_F(Discovery, NeverTakesEagerFromElsewhereThanTheInstallation) {
  put("mine", "x.so", manifest_of("eager", "eager", "9.0.0"));
  PluginCatalog catalog({.option_path = {root_ + "/mine"}, .install_dir = dir("install")});
  EXPECT_EQ(winner(catalog, "eager"), "");
  catalog.add_file(put("install", "x.so", manifest_of("eager2", "eager")));
  EXPECT_EQ(winner(catalog, "eager"), root_ + "/install/x.so");
}

TEST_F(Discovery, LeavesThePluginNameEagerToTheInstallation) {
  std::string mine = put("mine", "x.so", manifest_of("eager", "other", "9.0.0"));
  std::string installed = put("install", "x.so", manifest_of("eager", "eager"));
  PluginCatalog catalog({.files = {mine}, .install_dir = root_ + "/install"});
  EXPECT_EQ(winner(catalog, "eager"), installed);
  EXPECT_EQ(winner(catalog, "other"), "");
  EXPECT_EQ(to_text(catalog.find_path(mine)->diagnosis),
            "P13 " + mine + ": plugin eager comes from Tenon itself; give the plugin another name");
}

TEST_F(Discovery, CountsOneFileUnderTwoNamesOnce) {
  std::string path = put("d", "b.so", manifest_of("p", "b"));
  fs::create_symlink("b.so", root_ + "/d/c.so");
  fs::create_hard_link(path, root_ + "/d/d.so");
  PluginCatalog catalog({.option_path = {root_ + "/d", root_ + "/d"}});
  EXPECT_EQ(catalog.list().size(), 1u);
}

TEST_F(Discovery, FindsADroppedFileAndAHalfCopiedOneWhenItIsWhole) {
  PluginCatalog catalog({.option_path = {dir("d")}});
  EXPECT_TRUE(catalog.list().empty());
  std::string bytes = TinyElf{.manifests = {manifest_of("p", "b")}}.bytes();
  std::string path = root_ + "/d/p.so";
  std::ofstream(path, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  ASSERT_EQ(catalog.list().size(), 1u);
  EXPECT_EQ(catalog.list()[0]->state, PluginState::broken);
  EXPECT_EQ(catalog.list()[0]->diagnosis.fault, PluginFault::unreadable);
  EXPECT_EQ(catalog.why_missing("b").size(), 1u);
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(winner(catalog, "b"), path);
  EXPECT_FALSE(catalog.rescan());
}

TEST_F(Discovery, TellsWhyAnExplicitFileIsNoPlugin) {
  TinyElf{}.write(dir("d") + "/lib.so");
  PluginCatalog catalog({.files = {root_ + "/d/lib.so", root_ + "/d/missing.so"}});
  auto all = catalog.list();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]->diagnosis.fault, PluginFault::no_note);
  EXPECT_EQ(all[1]->diagnosis.fault, PluginFault::unreadable);
}

TEST_F(Discovery, DiagnosesForeignAbiAndMissingEntry) {
  std::string text = manifest_of("p", "b");
  put("d", "a.so", std::string(text).replace(text.find("abi = \"1"), 8, "abi = \"2"));
  TinyElf{.manifests = {manifest_of("q", "c")}, .symbol = "other"}.write(root_ + "/d/b.so");
  PluginCatalog catalog({.option_path = {root_ + "/d"}});
  auto all = catalog.list();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]->diagnosis.fault, PluginFault::abi_major);
  EXPECT_EQ(all[1]->diagnosis.fault, PluginFault::no_entry);
  EXPECT_EQ(winner(catalog, "b"), "");
  ASSERT_EQ(catalog.why_missing("b").size(), 1u);
  EXPECT_EQ(catalog.why_missing("b")[0].fault, PluginFault::abi_major);
}

TEST_F(Discovery, KeepsALoadedPluginWhenItsFileChangesOrGoes) {
  std::string path = put("d", "p.so", manifest_of("p", "b"));
  PluginCatalog catalog({.option_path = {root_ + "/d"}});
  catalog.rescan();
  catalog.set_state(path, PluginState::ready);
  EXPECT_EQ(catalog.list()[0]->state, PluginState::ready);
  put("d", "p.so", manifest_of("p", "other_name", "0.2.0"));
  auto plugin = catalog.list().at(0);
  EXPECT_EQ(plugin->diagnosis.fault, PluginFault::replaced);
  EXPECT_NE(plugin->diagnosis.reason.find("version 0.1.0 is loaded, the file is now 0.2.0"),
            std::string::npos);
  EXPECT_EQ(winner(catalog, "b"), path);
  EXPECT_EQ(winner(catalog, "other_name"), "");
  fs::remove(path);
  EXPECT_EQ(winner(catalog, "b"), path);
  catalog.rescan();
  EXPECT_EQ(to_text(catalog.list().at(0)->diagnosis),
            "P18 " + path +
                ": version 0.1.0 is loaded, the file is now gone; what is loaded can be used until "
                "the process ends");
}

TEST_F(Discovery, EndsAQuarantineWhenTheFileChanges) {
  std::string path = put("d", "p.so", manifest_of("p", "b"));
  PluginCatalog catalog({.option_path = {root_ + "/d"}});
  catalog.rescan();
  catalog.set_state(path, PluginState::quarantined,
                    {PluginFault::quarantined, path, "crashed", ""});
  EXPECT_EQ(catalog.list()[0]->state, PluginState::quarantined);
  put("d", "p.so", manifest_of("p", "b", "0.2.0") + "\n");
  EXPECT_EQ(catalog.list()[0]->state, PluginState::found);
}

TEST_F(Discovery, OrdersKernelsByPriority) {
  auto kernels = [](int priority) {
    return "[[kernels]]\ndevice = \"cpu\"\nops = [\"aten.mm.default\"]\npriority = " +
           std::to_string(priority) + "\n";
  };
  put("d", "a.so", manifest_of("low", "x") + kernels(1));
  put("d", "b.so", manifest_of("high", "y") + kernels(2));
  PluginCatalog catalog({.option_path = {root_ + "/d"}});
  catalog.rescan();
  auto found = catalog.kernels_for("cpu");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].plugin->manifest.name, "high");
  EXPECT_TRUE(catalog.kernels_for("cuda").empty());
}

TEST_F(Discovery, SkipsWhatIsNotTrustedAndTakesTheNext) {
  std::string open = put("a", "p.so", manifest_of("p", "b"));
  std::string good = put("b", "p.so", manifest_of("p", "b"));
  ::chmod(open.c_str(), 0666);
  SearchSettings settings{.option_path = {root_ + "/a", root_ + "/b"}};
  PluginCatalog catalog(settings);
  auto plugin = catalog.list().at(0);
  EXPECT_EQ(plugin->state, PluginState::refused);
  EXPECT_EQ(to_text(plugin->diagnosis), "P14 " + open + ": " + open + " (mode 0666, owner " +
                                            std::to_string(::geteuid()) +
                                            ") may be written by anybody; chmod o-w " + open);
  EXPECT_EQ(winner(catalog, "b"), good);
  ::chmod(open.c_str(), 0644);  // the next look sees it
  EXPECT_EQ(catalog.list().at(0)->state, PluginState::found);
  EXPECT_EQ(winner(catalog, "b"), open);
  ::chmod(open.c_str(), 0666);
  settings.trust = TrustMode::off;
  PluginCatalog trusting(settings);
  EXPECT_EQ(winner(trusting, "b"), open);
  settings.secure = true;  // then only installed files count, and they must be sound
  settings.install_dir = root_ + "/a";
  PluginCatalog secure(settings);
  ASSERT_EQ(secure.list().size(), 1u);
  EXPECT_EQ(secure.list()[0]->state, PluginState::refused);
}

TEST_F(Discovery, WarnsOfWhatAGroupMayWriteAndRefusesItWhenStrict) {
  std::string path = put("d", "p.so", manifest_of("p", "b"));
  ::chmod(path.c_str(), 0664);
  SearchSettings settings{.option_path = {root_ + "/d"}};
  PluginCatalog catalog(settings);
  auto plugin = catalog.list().at(0);
  EXPECT_EQ(plugin->state, PluginState::found);
  ASSERT_EQ(plugin->warnings.size(), 1u);
  EXPECT_EQ(plugin->warnings[0].hint, "chmod g-w " + path);
  settings.trust = TrustMode::strict;
  PluginCatalog strict(settings);
  EXPECT_EQ(strict.list().at(0)->state, PluginState::refused);
}

TEST_F(Discovery, AsksTheAllowListBeforeNamesAreGiven) {
  std::string wrong = put("a", "p.so", manifest_of("p", "b"));
  std::string right = put("b", "p.so", manifest_of("p", "b") + "\n");
  std::string unlisted = put("c", "q.so", manifest_of("q", "c"));
  SearchSettings settings{.option_path = {root_ + "/a", root_ + "/b", root_ + "/c"},
                          .allow = AllowList({"p.so=" + digest_of(right)}, false)};
  PluginCatalog catalog(settings);
  EXPECT_EQ(catalog.list().at(0)->state, PluginState::refused);
  EXPECT_EQ(to_text(catalog.list().at(0)->diagnosis),
            "P15 " + wrong + ": plugins.allow expects " + digest_of(right) + ", the file has " +
                digest_of(wrong) +
                "; if it was replaced on purpose, write its digest into plugins.allow");
  EXPECT_EQ(winner(catalog, "b"), right);
  EXPECT_EQ(winner(catalog, "c"), unlisted);
  settings.allow = AllowList({"p.so=" + digest_of(right)}, true);
  PluginCatalog only(settings);
  EXPECT_EQ(winner(only, "b"), right);
  EXPECT_EQ(winner(only, "c"), "");
  ASSERT_EQ(only.why_missing("c").size(), 1u);
  EXPECT_EQ(only.why_missing("c")[0].fault, PluginFault::wrong_digest);
}

TEST_F(Discovery, DoesNotTakeAHalfCopiedFileForTheWholeOne) {
  std::string path = dir("d") + "/p.so";
  std::string whole = TinyElf{.manifests = {manifest_of("p", "b")}}.bytes();
  std::string foreign = TinyElf{.manifests = {manifest_of("p", "b")}, .machine = EM_386}.bytes();
  std::string torn = TinyElf{.manifests = {"manifest = 1\n[plugin\n"}}.bytes();
  PluginCatalog catalog({.option_path = {root_ + "/d"}});
  for (const auto& [bytes, fault] : {std::pair(whole.substr(0, 90), PluginFault::unreadable),
                                     std::pair(foreign, PluginFault::wrong_machine),
                                     std::pair(torn, PluginFault::bad_manifest)}) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    EXPECT_EQ(catalog.list().at(0)->diagnosis.fault, fault);
    EXPECT_EQ(winner(catalog, "b"), "");
    std::ofstream(path, std::ios::binary | std::ios::trunc) << whole << std::string(1, '\0');
    EXPECT_EQ(winner(catalog, "b"), path);
    EXPECT_FALSE(catalog.list().at(0)->diagnosis);
  }
}

// The aim is 2 ms for 50 files; the test only catches a change of order. It counts the processor's
// time: a busy machine costs none.
TEST_F(Discovery, ListsFiftyPluginsQuickly) {
  for (int i = 0; i < 50; ++i) {
    std::string n = std::to_string(i);
    put("d", "tenon_p" + n + ".so", manifest_of("p" + n, "b" + n));
  }
  PluginCatalog catalog({.option_path = {root_ + "/d"}});
  std::clock_t begin = std::clock();
  EXPECT_EQ(catalog.list().size(), 50u);
  EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC / 10);
}

}  // namespace
}  // namespace tenon
