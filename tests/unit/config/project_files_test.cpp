// What files of a project folder may set, and whose files are read.
#include "config/flag_def.h"
#include "config_fixture.h"

#include <sys/stat.h>

#include <algorithm>

namespace tenon::config {
namespace {

namespace fs = std::filesystem;

constexpr uid_t nobody = 65534;

size_t warnings_with(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(warnings().begin(), warnings().end(),
                    [&](const std::string& w) { return w.find(text) != std::string::npos; }));
}

// A text can be a path; each one that project files may set is listed here after somebody looked.
TEST(ProjectFlags, NoTextAmongThemIsAPath) {
  const std::vector<std::string> looked_at = {
      "dynamo.allowed_functions_module_string_ignorelist",
      "dynamo.reorderable_logging_functions",
      "dynamo.ignore_logging_functions",
      "dynamo._autograd_backward_strict_mode_banned_ops",
      "dynamo._autograd_backward_strict_mode_conditional_banned_ops",
      "dynamo.nontraceable_tensor_subclasses",
      "dynamo.skipfiles_inline_module_allowlist",
      "dynamo.traceable_tensor_subclasses",
      "functorch.fake_tensor_prefer_device_type",
      "functorch.backward_pass_autocast",
      "functorch.torch_compile_graph_format",  // an extension: graphs are not drawn with a slash
      "compiler.dynamic_sources",
      "compiler.unbacked_sources",
      "compiler.dynamic_values",
      "dynamo.compiled_autograd_kwargs_override",
      "shapes.extended_debug_guard_added",
      "shapes.extended_debug_create_symbol",
      "logging.logs"};
  for (const FlagDef& def : flag_defs()) {
    if (!def.project) continue;
    bool is_text = def.type == FlagType::string_ || def.type == FlagType::list_;
    bool listed = std::find(looked_at.begin(), looked_at.end(), def.key()) != looked_at.end();
    EXPECT_EQ(is_text, listed) << def.key();
    EXPECT_NE(def.module, "plugins");
    EXPECT_EQ(def.name.find("autograd_cache"), std::string_view::npos) << def.key();
  }
}

TEST_F(Config, WhatNamesFilesIsNotTakenFromProjectFiles) {
  file("project/logging.toml",
       "[logging]\nout = \"/tmp/evil\"\ntrace = \"/tmp/evil\"\nlevel = \"error\"\n");
  file("project/dynamo.toml",
       "[dynamo]\nlog_file_name = \"/tmp/evil\"\ndebug_dir_root = \"/tmp/evil\"\n"
       "cprofile = \"/tmp/evil\"\nrecompile_limit = 5\n");
  file("project/functorch.toml", "[functorch]\nmemory_budget_pareto_dir = \"/tmp/evil\"\n");
  file("project/compiler.toml", "[compiler]\ndefault_backend = \"print\"\ncache_bytes = 1\n");
  reload();
  reload();
  EXPECT_EQ(flags().logging.out, "");
  EXPECT_EQ(flags().logging.trace, "");
  EXPECT_EQ(flags().logging.level, "error");
  EXPECT_EQ(flags().dynamo.log_file_name, "");
  EXPECT_EQ(flags().dynamo.debug_dir_root, "tenon_debug");
  EXPECT_EQ(flags().dynamo.cprofile, "");
  EXPECT_EQ(flags().dynamo.recompile_limit, 5);
  EXPECT_EQ(flags().functorch.memory_budget_pareto_dir, "");
  EXPECT_EQ(flags().compiler.default_backend, "inductor");
  EXPECT_EQ(flags().compiler.cache_bytes, 2147483648);
  EXPECT_EQ(warnings().size(), 8u);
  EXPECT_EQ(warnings_with("logging.out in the project file " + root_.string() +
                          "/project/logging.toml:2:1 is ignored"),
            1u);
  EXPECT_EQ(warnings_with("or as TENON_LOGGING_OUT"), 1u);
  EXPECT_EQ(warnings_with("of the user's folder (" + (root_ / "user/tenon").string() + ")"), 8u);
}

TEST_F(Config, AnAliasIsNoWayAroundIt) {
  file("project/compiler.toml", "[compiler]\nverbose = true\n");
  file("user/tenon/logging.toml", "[logging]\nout = \"/tmp/mine\"\n");
  reload();
  EXPECT_TRUE(flags().dynamo.verbose);
  EXPECT_EQ(flags().logging.out, "/tmp/mine");
  forget();
}

TEST_F(Config, AProjectFileThatAnybodyMayWriteIsIgnored) {
  std::string path = file("project/dynamo.toml", "[dynamo]\nrecompile_limit = = 5\n");
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  reload();
  EXPECT_EQ(flags().dynamo.recompile_limit, 8);
  EXPECT_EQ(warnings_with("the project file " + path + " is ignored: " + path), 1u);
  EXPECT_EQ(warnings_with("chmod o-w " + path), 1u);
}

TEST_F(Config, AProjectFolderOfSomebodyElseIsIgnoredAndSaidOnce) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  file("project/dynamo.toml", "[dynamo]\nrecompile_limit = 5\n");
  file("project/capture.toml", "[capture]\nstack_depth = 5\n");
  std::string folder = (root_ / "project").string();
  ASSERT_EQ(::chown(folder.c_str(), nobody, nobody), 0);
  reload();
  reload();
  EXPECT_EQ(flags().dynamo.recompile_limit, 8);
  EXPECT_EQ(warnings_with("belongs to neither root nor user 0"), 1u);
}

TEST_F(Config, AFileOfSomebodyElseInTheProjectFolderIsIgnored) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  file("project/dynamo.toml", "[dynamo]\nrecompile_limit = 5\n");
  std::string other = file("other/capture.toml", "[capture]\nmode = \"replay\"\n");
  fs::create_symlink(other, root_ / "project/capture.toml");
  ASSERT_EQ(::lchown((root_ / "project/capture.toml").c_str(), nobody, nobody), 0);
  reload();
  EXPECT_EQ(flags().dynamo.recompile_limit, 5);
  EXPECT_EQ(flags().capture.mode, "auto");
  EXPECT_EQ(warnings_with("is ignored"), 1u);
}

TEST_F(Config, WhatProjectFilesMayNotSetIsNotWrittenIntoThem) {
  EXPECT_NE(error_of([] {
              setting_file("logging.out", true);
            }).find("logging.out is not obeyed in project files"),
            std::string::npos);
  EXPECT_EQ(setting_file("logging.out", false), (root_ / "user/tenon/logging.toml").string());
}

}  // namespace
}  // namespace tenon::config
