// docs/flags.md: its tables are the lines of the .def files.
#include "config/config.h"
#include "written_part.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tenon::config {
namespace {

// A cell: bars end cells, so those of choices are escaped.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string code(std::string_view text) { return text.empty() ? "" : message("`{}`", cell(text)); }

std::string allowed_text(const FlagDef& def) {
  std::string out;
  for (const std::string& choice : split(def.choices, '|'))
    out += (out.empty() ? "" : " ") + code(choice);
  std::string type = type_text(def);
  size_t bounds = def.choices.empty() ? type.find(' ') : std::string::npos;
  return bounds == std::string::npos ? out : type.substr(bounds + 1);
}

std::string other_names(const FlagDef& def) {
  std::string out;
  for (const std::string& name : split(def.env, ' ')) out += " " + code(name);
  for (const std::string& name : split(def.aliases, ' ')) out += " alias " + code(name);
  return out.empty() ? out : out.substr(1);
}

std::string status_text(const FlagDef& def) {
  if (def.read_only) return "read-only";
  if (def.status == Status::active) return def.deprecated.empty() ? "active" : "active, deprecated";
  if (def.status == Status::no_effect) return message("no effect: {}", def.why);
  return message("pending: {}", def.why.empty() ? "a later version" : def.why);
}

std::string meaning(const FlagDef& def) {
  std::string out(def.doc);
  if (!def.seed.empty()) out += message(" Seed: `{}`.", def.seed);
  if (!def.deprecated.empty()) out += message(" Deprecated: {}.", def.deprecated);
  return out;
}

std::string tables() {
  std::string out;
  for (std::string_view module : module_names()) {
    out += message(
        "\n## {}\n\n| flag | type | default | allowed | other names | status | meaning |\n"
        "|---|---|---|---|---|---|---|\n",
        module);
    for (const FlagDef& def : flag_defs()) {
      if (def.module != module) continue;
      out += message("| `{}` | {} | {} | {} | {} | {} | {} |\n", def.name, name_of(def.type),
                     code(value_text(default_of(def))), allowed_text(def), other_names(def),
                     cell(status_text(def)), cell(meaning(def)));
    }
  }
  return out;
}

TEST(FlagsPage, ItsTablesAreTheLinesOfTheFlags) {
  expect_written_part("flags.md", "flags", tables(), "FlagsPage.*");
}

}  // namespace
}  // namespace tenon::config
