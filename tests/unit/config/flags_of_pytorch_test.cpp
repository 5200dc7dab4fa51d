// Every flag that files carried over from PyTorch may hold is there, as PyTorch has it; and every
// flag that acts is shown by a test.
#include "folders.h"
#include "unit/config/config_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace tenon::config {
namespace {

namespace fs = std::filesystem;

struct Line {
  std::string key, type, value, seed, scope;
  std::vector<std::string> environment;
};

std::vector<Line> lines_of_pytorch() {
  std::ifstream in(source_path("tests/data/config/flags_of_pytorch.txt"));
  std::vector<Line> lines;
  for (std::string text; std::getline(in, text);) {
    if (text.empty() || text[0] == '#') continue;
    std::vector<std::string> cells;
    for (size_t at = 0; at != std::string::npos;) {
      size_t end = text.find('|', at);
      std::vector<std::string> one = split(text.substr(at, end - at), '\n');
      cells.push_back(one.empty() ? "" : one[0]);
      at = end == std::string::npos ? end : end + 1;
    }
    EXPECT_EQ(cells.size(), 6u) << text;
    size_t slash = cells[3].find(" / ");
    std::string seed = slash == std::string::npos ? cells[3] : cells[3].substr(slash + 3);
    lines.push_back({cells[0] + "." + cells[1], cells[2], cells[3].substr(0, slash), seed, cells[4],
                     split(cells[5], ' ')});
  }
  return lines;
}

const FlagDef& def_of(const std::string& key) {
  for (const FlagDef& def : flag_defs())
    if (def.key() == key) return def;
  throw std::runtime_error(key);
}

TEST_F(Config, EveryFlagOfPyTorchIsThereWithItsTypeAndDefault) {
  std::vector<Line> lines = lines_of_pytorch();
  EXPECT_EQ(lines.size(), 166u);
  std::map<Scope, std::string> letters = {
      {Scope::compile, ""}, {Scope::debug, "d"}, {Scope::runtime, "r"}, {Scope::process, "p"}};
  for (const Line& line : lines) {
    FlagInfo flag = info(line.key);
    EXPECT_EQ(flag.type, line.type) << line.key;
    EXPECT_EQ(value_text(flag.default_value), line.value) << line.key;
    const FlagDef& def = def_of(flag.key);
    EXPECT_EQ(letters[def.scope], line.scope) << line.key << ": what hash() leaves out";
    std::vector<std::string> known = split(def.env, ' ');
    for (const std::string& name : line.environment)
      EXPECT_NE(std::find(known.begin(), known.end(), name), known.end()) << name;
    EXPECT_GE(known.size(), line.environment.size()) << line.key;
  }
}

TEST_F(Config, TheSeedsDefaultsAreThoseOfTheSeed) {
  auto scope = patch({{"compiler.compat", "seed"}});
  for (const Line& line : lines_of_pytorch())
    EXPECT_EQ(value_text(info(line.key).value), line.seed) << line.key;
}

// Modules dynamo and functorch hold PyTorch's names only; ours stand elsewhere.
TEST_F(Config, NothingElseStandsInTheModulesOfPyTorch) {
  // The last one is a dictionary there.
  std::set<std::string> known = {"dynamo.strict_backward",
                                 "dynamo._autograd_backward_strict_mode_conditional_banned_ops",
                                 "dynamo.compiled_autograd_kwargs_override"};
  for (const Line& line : lines_of_pytorch()) known.insert(info(line.key).key);
  for (const FlagDef& def : flag_defs()) {
    bool theirs = def.module == "dynamo" || def.module == "functorch";
    EXPECT_TRUE(!theirs || known.contains(def.key())) << def.key();
  }
}

TEST_F(Config, FlagsWithoutEffectAreCountedSoThatNoneJoinsByMistake) {
  int n = 0;
  for (const FlagDef& def : flag_defs()) n += def.status == Status::no_effect;
  EXPECT_EQ(n, 35);
}

// A value that is not the default.
Value another_value(const FlagDef& def) {
  Value value = default_of(def);
  if (auto* flag = std::get_if<bool>(&value)) return !*flag;
  if (auto* number = std::get_if<int64_t>(&value)) return *number + 1;
  if (auto* number = std::get_if<double>(&value)) return *number / 2;
  if (def.type == FlagType::list_) return std::vector<std::string>{"x"};
  for (const std::string& choice : split(def.choices, '|'))
    if (Value(choice) != value) return choice;
  return std::string("x");
}

TEST_F(Config, SettingAFlagWithoutEffectIsNeverSilent) {
  for (const FlagDef& def : flag_defs()) {
    if (def.status == Status::active) continue;
    warnings().clear();
    Value other = another_value(def);
    set(def.key(), other);
    set(def.key(), other);
    auto tells = [&](const std::string& line) {
      return line.starts_with(def.key() + " = ") && line.find(def.why) != std::string::npos;
    };
    EXPECT_EQ(std::count_if(warnings().begin(), warnings().end(), tells), 1) << def.key();
    unset(def.key());
  }
}

// The sources of tests that show effects: all but those of the machinery of flags.
std::string texts_of_tests() {
  std::string out;
  for (auto& entry : fs::recursive_directory_iterator(source_path("tests"))) {
    std::string name = entry.path().filename().string();
    bool machinery =
        entry.path().parent_path().filename() == "config" && !name.starts_with("observable_");
    if (!entry.is_regular_file() || machinery) continue;
    if (name.ends_with(".cpp") || name.ends_with(".test") || name.ends_with(".cmake")) {
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      out += text.str();
    }
  }
  return out;
}

TEST_F(Config, EveryFlagThatActsIsShownByATest) {
  std::string tests = texts_of_tests();
  auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (const FlagDef& def : flag_defs()) {
    if (def.status != Status::active || def.module == "plugins") continue;
    std::string key = def.key();
    bool shown = false;
    for (size_t at = tests.find(key); at != std::string::npos; at = tests.find(key, at + 1))
      shown = shown || !is_part(tests[at + key.size()]);
    EXPECT_TRUE(shown) << key << " acts, but no test outside of tests/unit/config/ sets it; flags "
                       << "without a test are pending";
  }
}

}  // namespace
}  // namespace tenon::config
