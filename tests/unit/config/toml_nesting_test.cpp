// Bounds on the nesting of TOML texts.
#include "config/toml_nesting.h"
#include "config/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::config {
namespace {

std::string repeated(std::string_view part, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += part;
  return out;
}

std::string error_of(const std::string& text) {
  try {
    parse_toml(text, "a.toml");
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

// Each of these once took as many stack frames as it has parts.
TEST(TomlNesting, ADeepTextIsAnErrorAndNoCrash) {
  for (const std::string& text :
       {"a" + repeated(".a", 200000) + " = 1", "[a" + repeated(".a", 200000) + "]",
        "[[a" + repeated(".a", 200000) + "]]", "a = " + repeated("{a.a.a = ", 100000),
        "a = " + repeated("[", 200000), "a = " + repeated("[{a.a = ", 100000),
        "\"\"" + repeated(".\"\"", 200000) + " = 1"})
    EXPECT_THAT(error_of(text), testing::StartsWith("ConfigError: a.toml:1:1: this is nested"));
}

TEST(TomlNesting, NamesTheLine) {
  EXPECT_THAT(error_of("# one\nb = 1\na" + repeated(".a", 65) + " = 1\n"),
              testing::StartsWith("ConfigError: a.toml:3:"));
}

TEST(TomlNesting, WhatStandsInStringsAndCommentsDoesNotCount) {
  const std::string dots(100, '.'), brackets(100, '[');
  EXPECT_EQ(error_of("# " + dots + brackets), "");
  EXPECT_EQ(error_of("a = \"" + dots + "\\\"" + brackets + "\""), "");
  EXPECT_EQ(error_of("a = '" + dots + brackets + "\\'"), "");
  EXPECT_EQ(error_of("a = \"\"\"\"\"" + dots + "\n\"" + brackets + "\\\"\"\"\"\"\""), "");
  EXPECT_EQ(error_of("a = '''" + dots + "\n''" + brackets + "'''''"), "");
  EXPECT_EQ(error_of("\"" + dots + "\" = \"\""), "");
}

TEST(TomlNesting, ALongTextOfShallowTablesIsTaken) {
  EXPECT_EQ(error_of(repeated("[[a.b]]\nc.d = {e = [1.5, 2.5]}\n", 1000)), "");
  EXPECT_EQ(error_of("a = [" + repeated("{b.c = [[1]]}, ", 1000) + "]"), "");
}

}  // namespace
}  // namespace tenon::config
