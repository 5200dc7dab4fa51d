// One flag set in texts that people wrote: nothing else changes.
#include "config/setting_text.h"

#include "../message_of.h"

#include <gtest/gtest.h>

namespace tenon::config {
namespace {

std::string with_7(const std::string& text) {
  return with_setting(text, "f.toml", "dynamo", "recompile_limit", "7");
}

TEST(SettingText, ValuesAreReplacedWhereTheyStand) {
  EXPECT_EQ(with_7("[dynamo]\nrecompile_limit = 3 # why\n"),
            "[dynamo]\nrecompile_limit = 7 # why\n");
  EXPECT_EQ(with_7("  [ \"dynamo\" ] # c\n  \"recompile_limit\"=3"),
            "  [ \"dynamo\" ] # c\n  \"recompile_limit\"=7");
  EXPECT_EQ(with_7("dynamo.recompile_limit = 3\r\n"), "dynamo.recompile_limit = 7\r\n");
  EXPECT_EQ(with_7("dynamo = { recompile_limit = 3, verbose = true }\n"),
            "dynamo = { recompile_limit = 7, verbose = true }\n");
  EXPECT_EQ(with_7("[dynamo]\nrecompile_limit = [\n  1, # ]\n  2,\n]\nverbose = true\n"),
            "[dynamo]\nrecompile_limit = 7\nverbose = true\n");
  EXPECT_EQ(with_7("[dynamo]\nrecompile_limit = \"a # b\" # c\n"),
            "[dynamo]\nrecompile_limit = 7 # c\n");
}

TEST(SettingText, AnotherNameOfTheFlagKeepsItsPlace) {
  EXPECT_EQ(with_7("[dynamo]\ncache_size_limit = 3\n"), "[dynamo]\ncache_size_limit = 7\n");
  EXPECT_EQ(message_of([] { with_7("[dynamo]\ncache_size_limit = 3\nrecompile_limit = 4\n"); }),
            "ConfigError: f.toml: dynamo.recompile_limit cannot be set: the file sets it under two "
            "names, cache_size_limit and recompile_limit; change it by hand");
}

TEST(SettingText, NewLinesJoinTheTable) {
  EXPECT_EQ(with_7(""), "[dynamo]\nrecompile_limit = 7\n");
  EXPECT_EQ(with_7("\xef\xbb\xbf[dynamo] # c\r\nverbose = true\r\n\r\n[meta]\r\nschema = 1\r\n"),
            "\xef\xbb\xbf[dynamo] # c\r\nverbose = true\r\nrecompile_limit = 7\r\n\r\n[meta]\r\n"
            "schema = 1\r\n");
  EXPECT_EQ(with_7("[dynamo]\n# recompile_limit = 8\n\n# verbose = false\n"),
            "[dynamo]\n# recompile_limit = 8\nrecompile_limit = 7\n\n# verbose = false\n");
  EXPECT_EQ(with_7("dynamo.verbose = true\n[meta]\nschema = 1"),
            "dynamo.verbose = true\ndynamo.recompile_limit = 7\n[meta]\nschema = 1");
  EXPECT_EQ(with_7("dynamo = {}\n"), "dynamo = { recompile_limit = 7 }\n");
}

TEST(SettingText, TextsInsideOfStringsAreNoKeys) {
  EXPECT_EQ(with_7("[dynamo]\nbase_dir = \"\"\"\nrecompile_limit = 3\n[x]\n\"\"\"\n"),
            "[dynamo]\nbase_dir = \"\"\"\nrecompile_limit = 3\n[x]\n\"\"\"\nrecompile_limit = 7\n");
}

TEST(SettingText, FormsThatAreNotChangedAreRefused) {
  for (const char* text : {"dynamo = 3\n", "[[dynamo]]\n", "[dynamo.recompile_limit]\nx = 1\n"})
    EXPECT_EQ(message_of([&] { with_7(text); }),
              "ConfigError: f.toml: dynamo.recompile_limit cannot be set: the file has a form that "
              "is not changed here; change it by hand")
        << text;
}

}  // namespace
}  // namespace tenon::config
