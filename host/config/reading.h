// Values for flags as they stand in files, in the environment and on command lines, before anybody
// has looked at whether such flags exist.
#pragma once

#include "config/flag_def.h"
#include "config/toml.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::config {

/// Who may set a flag, lowest first.
enum class Layer : uint8_t {
  default_,
  program,  ///< what a program presumes for itself, such as `tenon --json` about its stdout
  install,
  user,
  project,
  file,  ///< --config
  environment,
  set,
  command_line,  ///< --set
  patch,
  options,  ///< of one compile() call
  force,
};
std::string_view name_of(Layer layer);

struct Origin {
  std::string text;  ///< "configs/dynamo.toml:7:1", "TENON_DYNAMO_VERBOSE", "config::set"
  std::string file;  ///< empty if it is not a file
  uint32_t line = 0;
  uint32_t column = 0;
};

class FlagWarnings;

/// Throws FileError for a place in a file, UserError ConfigError for any other origin.
[[noreturn]] void fail_at(const Origin& origin, std::string_view what);

struct Reading {
  Layer layer;
  std::string key;
  Value value;
  bool spelled = false;           ///< `value` is text that spells a value of the flag's type
  bool tolerate_unknown = false;  ///< an unknown key is a warning
  Origin origin;
};

/// The settings in a TOML text: one table a module or backend. Throws FileError.
std::vector<Reading> read_text(std::string_view toml, std::string_view source, Layer layer);
std::vector<Reading> read_file(const std::string& path, Layer layer);

/// The same of a file in a folder of `layer`, as read_folders() does it; throws FileError for one that
/// this would leave out.
std::vector<Reading> read_placed_file(const std::string& path, Layer layer);

/// NAME.toml in one of the folders.
struct ConfigFile {
  Layer layer;
  std::string module, path;
  std::string distrusted;  ///< why it is not read; empty: it is
};
/// Those that there are for `modules`, lowest layer first.
std::vector<ConfigFile> config_files(const std::vector<std::string>& modules);
/// Whether a file NAME.toml has the table [NAME] or [meta]. Throws FileError for one that is no TOML.
bool has_table_of(const std::string& path, const std::string& module);

/// The settings in the install, user and project folders, for `modules`: of a file NAME.toml the
/// table [NAME]. Files that have neither that table nor [meta] belong to somebody else; it is told
/// where their names, or those of their tables, miss ours by a letter or two. Files of a project
/// folder that others than root and this user could have written are left out.
std::vector<Reading> read_folders(const std::vector<std::string>& modules, FlagWarnings& warnings);
/// The folders in which read_folders() looks, lowest layer first; they may not exist. A program
/// with more rights than its user has neither a user nor a project folder.
std::vector<std::pair<Layer, std::string>> config_folders();

/// The settings in the environment for `defs`.
std::vector<Reading> read_environment(std::span<const FlagDef> defs,
                                      std::vector<std::string>& warnings);
/// Throws UserError ConfigError for a variable TENON_<MODULE>_<...> that names no flag.
void check_variable_names();
/// Whether a variable is set that may name an option of a backend.
bool has_variables_of_backends();
/// The same as check_variable_names() for TENON_<BACKEND>_<...>, where `known` are the names of all options of backends.
void check_variable_names(std::string_view backend, const std::vector<std::string>& known);

}  // namespace tenon::config
