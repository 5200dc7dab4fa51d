// Flags: layers, patches, files, environment, messages. Every test begins with its own folders and
// a clean environment.
#include "config/config.h"

#include "folders.h"
#include "unit/config/config_fixture.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <thread>

namespace tenon::config {
namespace {

bool info_exists(std::string_view module, const std::string& name) {
  for (const FlagDef& def : flag_defs()) {
    if (def.module == module && def.name == name && !def.read_only) return true;
  }
  return false;
}

int64_t limit() { return flags().dynamo.recompile_limit; }

TEST_F(Config, DefaultsAreThoseOfPyTorch) {
  EXPECT_EQ(limit(), 8);
  EXPECT_EQ(flags().dynamo.accumulated_recompile_limit, 256);
  EXPECT_FALSE(flags().dynamo.specialize_float);
  EXPECT_TRUE(flags().shapes.use_duck_shape);
  EXPECT_EQ(flags().functorch.activation_memory_budget, 1.0);
  EXPECT_TRUE(flags().capture.mode == "auto");
}

TEST_F(Config, EachLayerCountsOverTheOneBelow) {
  auto load_with = [&](const std::string& name, int value) {
    file(name, "[dynamo]\nrecompile_limit = " + std::to_string(value) + "\n");
    reload();
    return limit();
  };
  EXPECT_EQ(load_with("user/tenon/dynamo.toml", 11), 11);
  EXPECT_EQ(load_with("project/dynamo.toml", 12), 12);
  use_file(file("any.toml", "[dynamo]\nrecompile_limit = 13\n"));
  EXPECT_EQ(limit(), 13);
  variable("TENON_DYNAMO_RECOMPILE_LIMIT", "14");
  reload();
  EXPECT_EQ(limit(), 14);
  set("dynamo.recompile_limit", 15);
  EXPECT_EQ(limit(), 15);
  set_from_command_line("dynamo.recompile_limit=16");
  EXPECT_EQ(limit(), 16);
  auto scope = patch({{"dynamo.recompile_limit", 17}});
  EXPECT_EQ(limit(), 17);
  Setting option{"dynamo.recompile_limit", 18};
  OptionScope options(check_options({&option, 1}));
  EXPECT_EQ(limit(), 18);
  auto inner = patch({{"dynamo.recompile_limit", 19}});
  EXPECT_EQ(limit(), 18) << "options of compile() count over any patch";
  variable("TENON_FORCE_DYNAMO_RECOMPILE_LIMIT", "20");
  reload();
  EXPECT_EQ(limit(), 20);

  std::vector<std::string> layers;
  for (const Source& source : explain("dynamo.recompile_limit")) layers.push_back(source.layer);
  EXPECT_EQ(layers,
            (std::vector<std::string>{"default", "user", "project", "--config", "environment",
                                      "set", "--set", "patch", "patch", "options", "force"}));
}

TEST_F(Config, AValueKnowsWhereItCameFrom) {
  std::string path = file("project/dynamo.toml", "[meta]\nschema = 1\n[dynamo]\nverbose = true\n");
  reload();
  FlagInfo flag = info("dynamo.verbose");
  EXPECT_EQ(flag.source.layer, "project");
  EXPECT_EQ(flag.source.origin, path + ":4:1");
  EXPECT_EQ(value_text(flag.default_value), "false");
}

TEST_F(Config, PatchesNestAndEndWithTheirScope) {
  auto outer = patch({{"dynamo.recompile_limit", 2}, {"dynamo.verbose", true}});
  {
    auto inner = patch({{"dynamo.recompile_limit", 3}});
    EXPECT_EQ(limit(), 3);
    EXPECT_TRUE(flags().dynamo.verbose);
  }
  EXPECT_EQ(limit(), 2);
  EXPECT_THROW(
      {
        auto inner = patch({{"dynamo.recompile_limit", 4}});
        throw std::runtime_error("stop");
      },
      std::runtime_error);
  EXPECT_EQ(limit(), 2);
}

TEST_F(Config, APatchWithOneWrongKeyChangesNothing) {
  EXPECT_NE(error_of([] {
              auto wrong = patch({{"dynamo.recompile_limit", 3}, {"dynamo.verbos", true}});
            }).find("did you mean verbose"),
            std::string::npos);
  EXPECT_EQ(limit(), 8);
}

TEST_F(Config, SetIsSeenInsideAPatchOfAnotherFlag) {
  auto scope = patch({{"dynamo.verbose", true}});
  const Flags& before = flags();
  set("dynamo.recompile_limit", 5);
  EXPECT_EQ(limit(), 5);
  EXPECT_TRUE(flags().dynamo.verbose);
  EXPECT_EQ(before.dynamo.recompile_limit, 8) << "references stay good";
}

TEST_F(Config, SetIsForAllThreadsAndAPatchForItsOwn) {
  set("dynamo.recompile_limit", 33);
  auto scope = patch({{"dynamo.recompile_limit", 2}});
  int64_t other = 0, inherited = 0;
  std::thread([&, patches = thread_patches()] {
    other = limit();
    InheritPatches inherit(patches);
    inherited = limit();
  }).join();
  EXPECT_EQ(other, 33);
  EXPECT_EQ(inherited, 2);
}

TEST_F(Config, PatchesMayEndInAnyOrder) {
  auto first = std::make_unique<Patch>(patch({{"dynamo.recompile_limit", 2}}));
  auto second = std::make_unique<Patch>(patch({{"dynamo.recompile_limit", 3}}));
  first.reset();
  EXPECT_EQ(limit(), 3);
  second.reset();
  EXPECT_EQ(limit(), 8);
}

TEST_F(Config, PatchesMayEndWithinOptions) {
  const std::vector<Setting> settings{{"dynamo.recompile_limit", 3}};
  const CompileOptions options = check_options(settings);
  auto before = std::make_unique<Patch>(patch({{"dynamo.verbose", true}}));
  std::unique_ptr<Patch> within;
  {
    OptionScope scope(options);
    EXPECT_EQ(limit(), 3);
    before.reset();
    EXPECT_EQ(limit(), 3);
    EXPECT_FALSE(flags().dynamo.verbose);
    within = std::make_unique<Patch>(patch({{"dynamo.recompile_limit", 5}}));
  }
  EXPECT_FALSE(flags().dynamo.verbose);
  within.reset();
  EXPECT_EQ(limit(), 8);
}

TEST(ConfigDeathTest, AProgramMayEndWithinAPatch) {
  auto end = [] {
    auto scope = patch({{"dynamo.verbose", true}});
    std::atexit([] { std::_Exit(flags().dynamo.verbose ? 1 : 0); });
    std::exit(2);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "");
}

TEST_F(Config, AnAliasIsItsTarget) {
  set("dynamo.cache_size_limit", 3);
  EXPECT_EQ(limit(), 3);
  EXPECT_EQ(get_as<int64_t>("compiler.recompile_limit"), 3);
  EXPECT_EQ(save(), "[dynamo]\nrecompile_limit = 3\n");
}

TEST_F(Config, AnUnknownKeyIsAnErrorWithTheNearestNames) {
  std::string text = error_of([] { set("dynamo.recompile_limt", 3); });
  EXPECT_EQ(text.find("ConfigError: dynamo.recompile_limt does not exist; did you mean "
                      "recompile_limit"),
            0u)
      << text;
  EXPECT_NE(error_of([] { set("dynmo.verbose", true); }).find("did you mean dynamo"),
            std::string::npos);
  EXPECT_NE(error_of([] { set("verbose", true); }).find("did you mean"), std::string::npos);
}

TEST_F(Config, AnUnknownKeyInAFileNamesFileLineAndColumn) {
  std::string path = file("project/dynamo.toml", "[dynamo]\n\n  cache_sise_limit = 3\n");
  std::string text = error_of([] { reload(); });
  EXPECT_EQ(text.find("ConfigError: " + path +
                      ":3:3: dynamo.cache_sise_limit does not exist; did "
                      "you mean cache_size_limit"),
            0u)
      << text;
  try {
    reload();
  } catch (const Error& error) {
    EXPECT_TRUE(is_file_error(error));
  }
}

TEST_F(Config, UnknownKeysInAFileAreWarningsIfItSaysSo) {
  file("project/dynamo.toml", "[meta]\nunknown_keys = \"warn\"\n[dynamo]\nnew_flag = 3\n");
  reload();
  ASSERT_EQ(warnings().size(), 1u);
  EXPECT_EQ(warnings()[0].find("dynamo.new_flag does not exist"), 0u);
}

TEST_F(Config, ABrokenFileLeavesTheOldValues) {
  set("dynamo.recompile_limit", 9);
  file("project/dynamo.toml", "[dynamo]\nverbose = true\nrecompile_limit = = 3\n");
  EXPECT_NE(error_of([] { reload(); }).find("dynamo.toml:3:19: this is not TOML"),
            std::string::npos);
  EXPECT_EQ(limit(), 9);
  EXPECT_FALSE(flags().dynamo.verbose);
}

TEST_F(Config, AWrongTypeNamesBothTypes) {
  std::string text = error_of([] { set("dynamo.recompile_limit", "abc"); });
  EXPECT_NE(text.find("dynamo.recompile_limit expects int of at least 0, found \"abc\""),
            std::string::npos)
      << text;
  EXPECT_NE(error_of([] { set("dynamo.recompile_limit", 1.5); }).find("found 1.5"),
            std::string::npos);
  EXPECT_NE(error_of([] { set("capture.on_stale", "x"); }).find("choice: warn | error"),
            std::string::npos);
  EXPECT_NE(error_of([] { set("functorch.activation_memory_budget", 1.5); }).find("from 0 to 1"),
            std::string::npos);
}

TEST_F(Config, NumbersAreTakenWhereAFloatIsMeant) {
  set("functorch.activation_memory_budget", 0);
  EXPECT_EQ(flags().functorch.activation_memory_budget, 0.0);
}

TEST_F(Config, BoolsInTheEnvironmentAreReadStrictly) {
  for (const char* text : {"0", "off", "No", "FALSE"}) {
    variable("TENON_SHAPES_USE_DUCK_SHAPE", text);
    reload();
    EXPECT_FALSE(flags().shapes.use_duck_shape) << text;
  }
  variable("TENON_SHAPES_USE_DUCK_SHAPE", "maybe");
  std::string text = error_of([] { reload(); });
  EXPECT_NE(text.find("shapes.use_duck_shape expects bool, found \"maybe\""), std::string::npos);
  EXPECT_NE(text.find("TENON_SHAPES_USE_DUCK_SHAPE"), std::string::npos);
}

TEST_F(Config, PyTorchsVariableComesSecond) {
  variable("TORCHDYNAMO_SUPPRESS_ERRORS", "1");
  reload();
  EXPECT_TRUE(flags().dynamo.suppress_errors);
  variable("TENON_DYNAMO_SUPPRESS_ERRORS", "0");
  reload();
  EXPECT_FALSE(flags().dynamo.suppress_errors);
  ASSERT_EQ(warnings().size(), 1u);
  EXPECT_NE(warnings()[0].find("TENON_DYNAMO_SUPPRESS_ERRORS=0 counts"), std::string::npos);
}

TEST_F(Config, AMisspeltVariableIsAnError) {
  variable("TENON_DYNAMO_RECOMPILE_LIMT", "3");
  std::string text = error_of([] { reload(); });
  EXPECT_NE(text.find("did you mean TENON_DYNAMO_RECOMPILE_LIMIT"), std::string::npos) << text;
}

TEST_F(Config, PluginFlagsOfAProjectAreIgnoredWithAWarning) {
  file("project/plugins.toml", "[plugins]\npath = [\"/tmp/evil\"]\n");
  reload();
  EXPECT_TRUE(flags().plugins.path.empty());
  ASSERT_EQ(warnings().size(), 1u);
  EXPECT_EQ(warnings()[0].find("plugins.path in the project file"), 0u);
  file("user/tenon/plugins.toml", "[plugins]\npath = [\"/opt/a\", \"/opt/b\"]\n");
  reload();
  EXPECT_EQ(flags().plugins.path, (std::vector<std::string>{"/opt/a", "/opt/b"}));
}

TEST_F(Config, ATableOfStringsIsAListOfPairs) {
  use_file(file("any.toml", "[plugins.allow]\n\"a.so\" = \"sha256:1\"\n"));
  EXPECT_EQ(flags().plugins.allow, std::vector<std::string>{"a.so=sha256:1"});
  EXPECT_NE(error_of([&] {
              check_file(file("b.toml", "[plugins]\npath = [1]\n"));
            }).find("expects a list of strings"),
            std::string::npos);
}

TEST_F(Config, FilesOfOthersInTheFolderAreLeftAlone) {
  file("project/logging.toml", "[handlers]\nlevel = 3\n");
  file("project/train.toml", "this is no toml at all");
  EXPECT_NO_THROW(reload());
  file("project/dynamo.toml", "recompile_limit = 3\n");
  EXPECT_NE(error_of([] { reload(); }).find("stands outside a table"), std::string::npos);
}

TEST_F(Config, AnotherSchemaIsRefused) {
  file("project/dynamo.toml", "[meta]\nschema = 2\n[dynamo]\n");
  EXPECT_NE(error_of([] { reload(); }).find("dynamo.toml:2:1: meta.schema is not 1"),
            std::string::npos);
}

TEST_F(Config, TheSeedsDefaultsCountUnderCompat) {
  EXPECT_FALSE(flags().dynamo.specialize_float);
  auto scope = patch({{"compiler.compat", "seed"}});
  EXPECT_TRUE(flags().dynamo.specialize_float);
  EXPECT_EQ(flags().functorch._max_aliased_inputs_with_dynamic_shapes_enabled, 5);
  auto inner = patch({{"dynamo.specialize_float", false}});
  EXPECT_FALSE(flags().dynamo.specialize_float);
}

TEST_F(Config, FlagsWithoutEffectWarnOnce) {
  set("dynamo.optimize_ddp_lazy_compile", true);
  set("dynamo.optimize_ddp_lazy_compile", true);
  ASSERT_EQ(warnings().size(), 1u);
  EXPECT_NE(warnings()[0].find("has no effect: dead in PyTorch"), std::string::npos);
  set("dynamo.skip_fsdp_guards", true);
  EXPECT_EQ(warnings().size(), 1u) << "the default is no reason to warn";
}

TEST_F(Config, ReadOnlyAndProcessFlagsAreProtected) {
  EXPECT_NE(error_of([] {
              set("dynamo._ddp_optimization_mode", std::vector<std::string>{"x"});
            }).find("read-only"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              auto scope = patch({{"plugins.trust", "off"}});
            }).find("config::set"),
            std::string::npos);
}

TEST_F(Config, TheHashFollowsWhatDecidesAboutCode) {
  std::string before = hash();
  EXPECT_EQ(before.size(), 32u);
  set("dynamo.recompile_limit", 9);
  EXPECT_EQ(hash(), before);
  set("dynamo.specialize_int", true);
  EXPECT_NE(hash(), before);
  set("dynamo.specialize_int", false);
  EXPECT_EQ(hash(), before);
}

TEST_F(Config, SavedFlagsLoadToTheSameHash) {
  set("dynamo.specialize_int", true);
  set("dynamo.base_dir", "a \"b\"\\\n\x01");
  set("functorch.activation_memory_budget", 0.5);
  set("compiler.dynamic_sources", std::vector<std::string>{"x", "y"});
  set("dynamo.repro_level", 4);
  std::string text = save(), before = hash();
  EXPECT_EQ(text.find("repro_level"), std::string::npos);
  for (const FlagInfo& flag : list()) unset(flag.key);
  EXPECT_NE(hash(), before);
  load(text);
  EXPECT_EQ(hash(), before);
  EXPECT_EQ(save(), text);
  EXPECT_NE(save_as_cpp().find("tenon::config::set(\"dynamo.specialize_int\", true);"),
            std::string::npos);
}

TEST_F(Config, LoadWarnsOnceAboutUnknownKeys) {
  load("[dynamo]\nfrom_the_future = 1\nrecompile_limit = 4\n");
  load("[dynamo]\nfrom_the_future = 1\n");
  EXPECT_EQ(limit(), 4);
  EXPECT_EQ(warnings().size(), 1u);
}

TEST_F(Config, EqualValuesShareASnapshot) {
  const Flags* before = &flags();
  for (int i = 0; i < 3; ++i) {
    set("dynamo.recompile_limit", 9);
    set("dynamo.recompile_limit", 8);
  }
  EXPECT_EQ(&flags(), before);
}

TEST_F(Config, OptionsOfBackendsWaitForTheirManifest) {
  std::string path = file("any.toml", "[mykit]\nlevel = 3\n");
  use_file(path);
  file("project/mykit.toml", "[mykit]\nlevel = 2\nfast = true\n");
  EXPECT_NE(error_of([] { require_all_known(); }).find(path + ":2:1: mykit.level does not exist"),
            std::string::npos);
  variable("TENON_MYKIT_NAME", "abc");
  FlagDef rows[] = {{.module = "mykit",
                     .name = "level",
                     .type = FlagType::int_,
                     .scope = Scope::compile,
                     .doc = "A level.",
                     .max = 9,
                     .option_default = int64_t{1}},
                    {.module = "mykit",
                     .name = "fast",
                     .type = FlagType::bool_,
                     .scope = Scope::compile,
                     .doc = "Fast.",
                     .option_default = false},
                    {.module = "mykit",
                     .name = "name",
                     .type = FlagType::string_,
                     .scope = Scope::compile,
                     .doc = "A name.",
                     .option_default = std::string()}};
  declare_options("mykit", rows);
  EXPECT_NO_THROW(require_all_known());
  EXPECT_EQ(get_as<int64_t>("mykit.level"), 3);
  EXPECT_TRUE(get_as<bool>("mykit.fast"));
  EXPECT_EQ(get_as<std::string>("mykit.name"), "abc");
  auto scope = patch({{"mykit.level", 7}});
  EXPECT_EQ(get_as<int64_t>("mykit.level"), 7);
  EXPECT_NE(error_of([] { set("mykit.levl", 1); }).find("did you mean level"), std::string::npos);
  EXPECT_NE(error_of([] { set("mykit.level", 10); }).find("of at most 9"), std::string::npos);
}

TEST_F(Config, TheFilesInConfigsAreThoseOfTheFlagLines) {
  for (std::string_view module : module_names()) {
    std::string path = source_path("configs/" + std::string(module) + ".toml");
    EXPECT_EQ(text_of(path), config_file_text(module))
        << path << " is old; run `tenon config write`";
  }
}

TEST_F(Config, EveryDefaultFitsItsOwnFlag) {
  for (const FlagDef& def : flag_defs()) {
    Value value = default_of(def);
    EXPECT_EQ(fit_value(def, value), "") << def.key();
    EXPECT_FALSE(def.doc.empty()) << def.key();
    bool told = def.status == Status::active || !def.why.empty() || def.module == "plugins";
    EXPECT_TRUE(told) << def.key();
  }
}

TEST_F(Config, WrittenFilesCanBeReadWithEveryLineActive) {
  for (std::string_view module : module_names()) {
    std::istringstream in(config_file_text(module));
    std::string text;
    for (std::string line; std::getline(in, line);) {
      bool flag = line.starts_with("# ") && line.find(" = ") != std::string::npos &&
                  info_exists(module, line.substr(2, line.find(" = ") - 2));
      text += (flag ? line.substr(2) : line) + "\n";
    }
    EXPECT_NO_THROW(check_file(file("all.toml", text))) << module;
  }
}

TEST_F(Config, WritingASettingKeepsTheRestOfTheFile) {
  std::string path = file("user/tenon/dynamo.toml", config_file_text("dynamo"));
  write_setting(path, "dynamo.cache_size_limit", "5");
  write_setting(path, "dynamo.recompile_limit", "6");
  write_setting(path, "dynamo.base_dir", "/src");
  reload();
  EXPECT_EQ(limit(), 6);
  EXPECT_EQ(flags().dynamo.base_dir, "/src");
  std::string text = text_of(path);
  EXPECT_NE(text.find("# recompile_limit = 8\nrecompile_limit = 6\n"), std::string::npos);
  std::string fresh = (root_ / "new/folder/shapes.toml").string();
  write_setting(fresh, "shapes.use_duck_shape", "off");
  EXPECT_EQ(text_of(fresh), "[shapes]\nuse_duck_shape = false\n");
  EXPECT_NE(
      error_of([&] { write_setting(fresh, "shapes.use_duck_shape", "x"); }).find("expects bool"),
      std::string::npos);
}

TEST_F(Config, WritingASettingFollowsNoLinkAndKeepsRights) {
  std::string path = file("user/tenon/dynamo.toml", ""), other = file("other.txt", "kept");
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::create_symlink(other, path + ".new");
  write_setting(path, "dynamo.recompile_limit", "6");
  EXPECT_EQ(text_of(other), "kept");
  EXPECT_EQ(text_of(path), "[dynamo]\nrecompile_limit = 6\n");
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path + ".new")));
}

TEST_F(Config, ManyThreadsMayReadWhileOneSets) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&stop] {
      auto scope = patch({{"dynamo.verbose", true}});
      while (!stop) ASSERT_TRUE(flags().dynamo.verbose && limit() >= 8);
    });
  }
  for (int i = 0; i < 50; ++i) set("dynamo.recompile_limit", 8 + i % 5);
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace tenon::config
