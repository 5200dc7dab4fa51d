// Flags in the environment: TENON_<MODULE>_<FLAG>, then PyTorch's name, then those of aliases;
// TENON_FORCE_<MODULE>_<FLAG> over everything. Programs that run with more rights than their user ignore all of them.
#include "config/reading.h"

#include "core/error.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>

extern char** environ;

namespace tenon::config {

namespace {

// An empty variable counts as not set.
std::optional<std::string> variable(const std::string& name) {
  const char* text = secure_getenv(name.c_str());
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

void add(std::vector<Reading>& out, Layer layer, const FlagDef& def, const std::string& name,
         std::string text) {
  out.push_back({.layer = layer,
                 .key = def.key(),
                 .value = std::move(text),
                 .spelled = true,
                 .origin = {.text = name}});
}

std::string upper_prefix(std::string_view prefix, std::string_view module) {
  return variable_name(prefix, module, "");
}

void require_known(std::string_view name, const std::vector<std::string>& known,
                   std::string_view what) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  fail(ErrorCode::config,
       "the environment variable {} names no {}; did you mean {}? unset it otherwise", name, what,
       nearest_names(name, known, 1));
}

void check_name(std::string_view name) {
  for (std::string_view prefix : {"TENON_", "TENON_FORCE_"}) {
    for (std::string_view module : module_names()) {
      if (!name.starts_with(upper_prefix(prefix, module))) continue;
      std::vector<std::string> known;
      for (const FlagDef& def : flag_defs())
        for (std::string& variable :
             prefix == "TENON_" ? variables_of(def) : force_variables_of(def))
          if (variable.starts_with(upper_prefix(prefix, module)))
            known.push_back(std::move(variable));
      return require_known(name, known, "flag");
    }
  }
}

// The variables that are set, with names that begin with TENON_.
std::vector<std::string> our_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view text = *entry;
    std::string name(text.substr(0, text.find('=')));
    if (name.starts_with("TENON_") && variable(name)) names.push_back(std::move(name));
  }
  return names;
}

// Variables of the host that are not flags, so that a backend may have any name.
bool is_own_variable(std::string_view name) {
  constexpr std::string_view names[] = {"TENON_CACHE_DIR", "TENON_CONFIG_DIR",  "TENON_CPU_LEVEL",
                                        "TENON_PARENT",    "TENON_PLUGIN_PATH", "TENON_TRACE"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

namespace {

// The first of the variables that is set counts; that another one says otherwise is told.
void read_first(const FlagDef& def, Layer layer, const std::vector<std::string>& names,
                std::vector<Reading>& out, std::vector<std::string>& warnings) {
  std::optional<std::string> first;
  std::string first_name;
  for (const std::string& name : names) {
    std::optional<std::string> text = variable(name);
    if (!text) continue;
    if (!first) {
      first = text;
      first_name = name;
      add(out, layer, def, name, *text);
    } else if (*first != *text) {
      warnings.push_back(message("{} and {} are both set and differ; {}={} counts", first_name,
                                 name, first_name, *first));
    }
  }
}

}  // namespace

std::vector<Reading> read_environment(std::span<const FlagDef> defs,
                                      std::vector<std::string>& warnings) {
  std::vector<Reading> out;
  for (const FlagDef& def : defs) {
    read_first(def, Layer::environment, variables_of(def), out, warnings);
    read_first(def, Layer::force, force_variables_of(def), out, warnings);
  }
  return out;
}

void check_variable_names() {
  for (const std::string& name : our_variables()) check_name(name);
}

bool has_variables_of_backends() {
  auto names_module = [](std::string_view name) {
    return std::any_of(module_names().begin(), module_names().end(), [&](std::string_view module) {
      return name.starts_with(upper_prefix("TENON_", module)) ||
             name.starts_with(upper_prefix("TENON_FORCE_", module));
    });
  };
  std::vector<std::string> names = our_variables();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return !is_own_variable(name) && !names_module(name);
  });
}

void check_variable_names(std::string_view backend, const std::vector<std::string>& known) {
  for (const std::string& name : our_variables()) {
    bool named = name.starts_with(upper_prefix("TENON_", backend)) ||
                 name.starts_with(upper_prefix("TENON_FORCE_", backend));
    if (named && !is_own_variable(name)) require_known(name, known, "option of a backend");
  }
}

}  // namespace tenon::config
