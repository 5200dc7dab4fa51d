// The machinery of flags beyond single values: origins, options of calls, deprecation, aliases,
// combinations, other spellings.
#include "unit/config/config_fixture.h"

#include <tenon/compile.h>
#include <tenon/ops.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace tenon::config {
namespace {

using ::testing::HasSubstr;

std::string origin(std::string_view key) { return info(key).source.origin; }

TEST_F(Config, EveryLayerSaysWhereItsValueCameFrom) {
  std::string path = file("any.toml", "[dynamo]\n  recompile_limit = 3\n");
  EXPECT_EQ(origin("dynamo.recompile_limit"), "default");
  use_file(path);
  EXPECT_EQ(origin("dynamo.recompile_limit"), path + ":2:3");
  variable("TENON_DYNAMO_RECOMPILE_LIMIT", "4");
  reload();
  EXPECT_EQ(origin("dynamo.recompile_limit"), "TENON_DYNAMO_RECOMPILE_LIMIT");
  set("dynamo.recompile_limit", 5);
  EXPECT_EQ(origin("dynamo.recompile_limit"), "config::set");
  set_from_command_line("dynamo.recompile_limit=6");
  EXPECT_EQ(origin("dynamo.recompile_limit"), "--set dynamo.recompile_limit=6");
  auto scope = patch({{"dynamo.recompile_limit", 7}});
  EXPECT_EQ(origin("dynamo.recompile_limit"), "patch");
  OptionScope options(check_options("dynamo.recompile_limit = 8"));
  EXPECT_EQ(origin("dynamo.recompile_limit"), "options");
  variable("TENON_FORCE_DYNAMO_RECOMPILE_LIMIT", "9");
  reload();
  EXPECT_EQ(origin("dynamo.recompile_limit"), "TENON_FORCE_DYNAMO_RECOMPILE_LIMIT");
}

TEST_F(Config, FlagsAmongTheOptionsOfCompileCountForThatCallable) {
  auto limited =
      compile([](const Tensor& x, int n) { return x * n; },
              {.backend = "eager", .options = {{"dynamo.recompile_limit", "1"}}, .pure = true});
  auto free =
      compile([](const Tensor& x, int n) { return x * n; }, {.backend = "eager", .pure = true});
  for (int n = 1; n < 4; ++n) {
    limited(ones({1}), n);
    free(ones({1}), n);
  }
  EXPECT_EQ(limited.stats().compiles, 1);
  EXPECT_EQ(limited.stats().eager_calls, 2);
  EXPECT_EQ(free.stats().compiles, 3);
  EXPECT_EQ(get_as<int64_t>("dynamo.recompile_limit"), 8) << "and only there";
}

TEST_F(Config, FlagsAmongTheOptionsOfCompileCountInEveryThread) {
  auto off = compile([](const Tensor& x) { return x + 1; },
                     {.backend = "eager", .options = {{"dynamo.disable", "true"}}});
  std::thread([&] { off(ones({2})); }).join();
  EXPECT_EQ(off.stats().compiles, 0);
  EXPECT_EQ(off.stats().eager_calls, 1);
}

TEST_F(Config, OptionsOfCompileCountOverPatchesForWhatEachCallAsks) {
  auto compiles = [](const char* option) {
    auto f = compile([](const Tensor& x) { return x + 1; },
                     {.backend = "eager", .options = {{"dynamo.disable", option}}});
    f(ones({2}));
    return f.stats().compiles;
  };
  for (bool flag : {false, true}) {
    auto scope = patch({{"dynamo.disable", flag}});
    EXPECT_EQ(compiles("false"), 1) << flag;
    EXPECT_EQ(compiles("true"), 0) << flag;
  }
}

TEST_F(Config, UnknownFlagsAreFoundEverywhereWithTheNearestName) {
  auto options = [](const char* key, const char* value) {
    return error_of([&] {
      compile([](const Tensor& x) { return x; }, {.backend = "eager", .options = {{key, value}}});
    });
  };
  EXPECT_THAT(options("dynamo.recompile_limt", "1"), HasSubstr("did you mean recompile_limit"));
  EXPECT_THAT(options("dynamo.recompile_limit", "\"x\""), HasSubstr("expects int"));
  EXPECT_THAT(error_of([] {
                auto scope = patch({{"dynamo.recompile_limt", 1}});
              }),
              HasSubstr("did you mean recompile_limit"));
  EXPECT_THAT(error_of([] { set_from_command_line("dynamo.recompile_limt=1"); }),
              HasSubstr("did you mean recompile_limit"));
  EXPECT_THAT(error_of([] { get("dynamo.recompile_limt"); }),
              HasSubstr("did you mean recompile_limit"));
  variable("TENON_FORCE_DYNAMO_RECOMPILE_LIMT", "1");
  EXPECT_THAT(error_of([] { reload(); }),
              HasSubstr("did you mean TENON_FORCE_DYNAMO_RECOMPILE_LIMIT"));
}

TEST_F(Config, ADeprecatedFlagSaysOnceWhatToUse) {
  set("dynamo.report_guard_failures", false);
  set("dynamo.report_guard_failures", true);
  ASSERT_EQ(warnings().size(), 1u);
  EXPECT_THAT(warnings()[0], HasSubstr("dynamo.report_guard_failures = false (set by config::set) "
                                       "is deprecated: "));
}

TEST_F(Config, AnAliasThatIsAFlagOrAnotherAliasIsRejected) {
  for (std::string_view alias : {"level", "shared", "dynamo.verbose"}) {
    FlagDef rows[] = {{.module = "aliaskit",
                       .name = "level",
                       .type = FlagType::int_,
                       .scope = Scope::compile,
                       .doc = "A level.",
                       .aliases = "shared",
                       .option_default = int64_t{1}},
                      {.module = "aliaskit",
                       .name = "other",
                       .type = FlagType::int_,
                       .scope = Scope::compile,
                       .doc = "Another.",
                       .aliases = alias,
                       .option_default = int64_t{1}}};
    EXPECT_THROW(declare_options("aliaskit", rows), InternalError) << alias;
    EXPECT_THROW(get("aliaskit.level"), UserError) << "nothing of it is declared";
  }
}

TEST_F(Config, AliasesGiveTheirTargetInEveryDirection) {
  file("project/dynamo.toml", "[dynamo]\naccumulated_cache_size_limit = 31\n");
  reload();
  EXPECT_EQ(get_as<int64_t>("dynamo.accumulated_recompile_limit"), 31);
  auto scope = patch({{"dynamo.accumulated_recompile_limit", 32}});
  EXPECT_EQ(get_as<int64_t>("dynamo.accumulated_cache_size_limit"), 32);
  EXPECT_EQ(info("dynamo.accumulated_cache_size_limit").key, "dynamo.accumulated_recompile_limit");
  for (const FlagInfo& flag : list()) EXPECT_NE(flag.key, "dynamo.accumulated_cache_size_limit");
}

TEST_F(Config, AFlagThatNeedsAnotherOneIsWarnedAbout) {
  file("project/functorch.toml",
       "[functorch]\ngenerate_fake_kernels_from_real_mismatches = true\n");
  reload();
  bool told = false;
  for (const std::string& line : warnings())
    told = told || line.find("does nothing without functorch.fake_tensor_propagate_real_tensors") !=
                       std::string::npos;
  EXPECT_TRUE(told);
}

TEST_F(Config, ChoicesWithTrueAndFalseTakeEverySpellingOfABool) {
  for (const char* text : {"0", "off", "False", "no"}) {
    variable("TENON_DYNAMO_OPTIMIZE_DDP", text);
    reload();
    EXPECT_TRUE(flags().dynamo.optimize_ddp == "false") << text;
  }
  set("functorch.enable_remote_autograd_cache", true);
  EXPECT_EQ(get_as<std::string>("functorch.enable_remote_autograd_cache"), "true");
  set("dynamo.cprofile", true);
  EXPECT_EQ(flags().dynamo.cprofile, "true");
  EXPECT_THAT(error_of([] { set("dynamo.optimize_ddp", "sometimes"); }),
              HasSubstr("python_reducer_without_compiled_forward"));
  EXPECT_THAT(error_of([] { set("dynamo.base_dir", true); }), HasSubstr("expects string"));
}

TEST_F(Config, PortableFlagsLeaveOutThePrivateOnes) {
  set("dynamo.verbose", true);
  set("functorch._sync_decision_cross_ranks", true);
  EXPECT_THAT(save(), HasSubstr("_sync_decision_cross_ranks = true"));
  EXPECT_EQ(save_portable(), "[dynamo]\nverbose = true\n");
}

TEST_F(Config, ValuesAreCopiedInAndOut) {
  auto list = get_as<std::vector<std::string>>("dynamo._save_config_ignore");
  list.push_back("verbose");
  EXPECT_EQ(get_as<std::vector<std::string>>("dynamo._save_config_ignore").size(), 4u);
}

TEST_F(Config, ThreadsOfAThreadMayTakeOverItsPatchesAtAnyDepth) {
  auto scope = patch({{"dynamo.recompile_limit", 2}});
  int64_t inner = 0, plain = 0;
  std::thread([&, patches = thread_patches()] {
    InheritPatches inherit(patches);
    auto more = patch({{"dynamo.verbose", true}});
    std::thread([&, all = thread_patches()] {
      plain = flags().dynamo.recompile_limit;
      InheritPatches inherit_all(all);
      inner = flags().dynamo.recompile_limit + (flags().dynamo.verbose ? 100 : 0);
    }).join();
  }).join();
  EXPECT_EQ(inner, 102);
  EXPECT_EQ(plain, 8);
  EXPECT_FALSE(flags().dynamo.verbose) << "what the other thread added stays there";
}

}  // namespace
}  // namespace tenon::config
