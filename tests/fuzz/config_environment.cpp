// Flags in variables and in --set: each line is NAME=VALUE, where a name with a dot is a flag's
// key.
#include "config/config.h"
#include "config/store.h"
#include "harness/fuzz.h"

#include <cstdlib>

using namespace tenon;
using namespace tenon::config;

namespace {

constexpr std::initializer_list<ErrorCode> refused = {ErrorCode::config};

// A value that --set spells is written so that --config reads the same value.
void check_setting(std::string_view key, std::string_view text) {
  fuzz::accepts(refused, [&] {
    Value value = Store::instance().look()->parse(key, text);
    std::string name(key.substr(key.find('.') + 1));
    std::string toml =
        message("[{}]\n{} = {}\n", key.substr(0, key.find('.')), name, value_text(value));
    std::vector<Reading> again = read_text(toml, "again", Layer::file);
    fuzz::check(again.size() == 1, "a setting is lost when written");
    Store::instance().look()->check(again);
    fuzz::check(again[0].value == value, "a setting changes when written: " + toml);
  });
}

void check_variables() {
  std::vector<std::string> warnings;
  fuzz::accepts(refused, [&] {
    check_variable_names();
    Store::instance().look()->check(read_environment(flag_defs(), warnings));
  });
  fuzz::accepts(refused, [&] { check_variable_names("inductor", {"TENON_INDUCTOR_THREADS"}); });
  for (const std::string& warning : warnings) fuzz::check_shown(warning);
}

bool is_ours(std::string_view name) {
  return name.starts_with("TENON_") || name.starts_with("TORCH");
}

}  // namespace

TENON_FUZZ_TARGET(config_environment) {
  Store::instance().look();  // before the variables are there
  std::vector<std::string> names;
  for (fuzz::Lines lines(input); !lines.done() && names.size() < 16;) {
    std::string line(lines.next());
    line = line.substr(0, line.find('\0'));
    size_t equals = line.find('=');
    if (equals == 0 || equals == line.npos) continue;
    std::string name = line.substr(0, equals);
    if (is_ours(name)) {
      ::setenv(name.c_str(), line.c_str() + equals + 1, 1);
      names.push_back(std::move(name));
    } else {
      check_setting(name, line.substr(equals + 1));
    }
  }
  check_variables();
  for (const std::string& name : names) ::unsetenv(name.c_str());
}
