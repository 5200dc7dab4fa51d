// A flag as a row: what the .def files say about it, for code that treats all flags alike.
#pragma once

#include "config/flags.h"

#include <tenon/config.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::config {

enum class FlagType : uint8_t { bool_, int_, float_, string_, choice_, list_ };
enum class Scope : uint8_t { compile, runtime, debug, process };
enum class Status : uint8_t {
  active,
  pending,    ///< accepted; the part that it governs (`why`) is not there yet
  no_effect,  ///< accepted; has no meaning in C++ (`why`)
};

std::string_view name_of(FlagType type);
std::string_view name_of(Status status);

struct FlagDef {
  std::string_view module;
  std::string_view name;
  FlagType type;
  Scope scope;
  std::string_view doc;
  void* (*field)(Flags&) = nullptr;  ///< null for the options of backends
  std::string_view choices;          ///< separated by `|`
  double min = -1e300, max = 1e300;
  std::string_view env;      ///< PyTorch's variable, read if ours is not set
  std::string_view aliases;  ///< separated by spaces; with a dot: of another module
  std::string_view seed;     ///< the default under compiler.compat = "seed"
  bool read_only = false;
  bool takes_bool = false;      ///< a string flag that also takes true and false
  std::string_view deprecated;  ///< what to use instead; said once where it is set
  Status status = Status::active;
  std::string_view why;  ///< pending: the part that will read it; no_effect: the reason
  bool project = false;  ///< files of a project folder may set it; see is_project_flag()
  Value option_default;  ///< of the options of backends; flags keep theirs in the structs

  std::string key() const { return std::string(module) + "." + std::string(name); }
};

/// The rows of all .def files, module by module.
std::span<const FlagDef> flag_defs();
/// The modules in the order of the rows.
std::span<const std::string_view> module_names();

/// Whether files of a project folder may set it: as the line of the flag says; of the options of
/// backends those that cannot be paths, since they are no texts.
bool is_project_flag(const FlagDef& def);

Value default_of(const FlagDef& def);
Value read_field(const FlagDef& def, const Flags& flags);
void write_field(const FlagDef& def, Flags& flags, const Value& value);

/// The keys of a flag, its own first, then those of its aliases.
std::vector<std::string> keys_of(const FlagDef& def);
/// The key that an alias stands for, and any other key itself. Of flags, not of backends' options.
std::string target_of(std::string_view key);
/// The environment variables of a flag, best first: TENON_<MODULE>_<FLAG>, PyTorch's, those of
/// aliases.
std::vector<std::string> variables_of(const FlagDef& def);
/// TENON_FORCE_<MODULE>_<FLAG>, then those of aliases.
std::vector<std::string> force_variables_of(const FlagDef& def);
/// `prefix` + the flag's key in upper case with underscores.
std::string variable_name(std::string_view prefix, std::string_view module, std::string_view flag);

/// The value that a command line or a variable spells (lists are separated by commas); the text
/// itself where it spells no value of the flag's type.
Value value_of_text(const FlagDef& def, std::string_view text);
/// Converts `value` to the flag's type and returns what is wrong with it, or nothing.
std::string fit_value(const FlagDef& def, Value& value);
/// "int", or "choice: a | b".
std::string type_text(const FlagDef& def);

std::vector<std::string> split(std::string_view text, char separator);

}  // namespace tenon::config
