// What the rest of the host needs of the flags beyond flags() and <tenon/config.h>: command line,
// options of backends and of compile() calls, patches that follow work to other threads, files.
#pragma once

#include "config/flag_def.h"
#include "config/flags.h"
#include "config/toml.h"

#include <tenon/config.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::config {

/// Reads `path` as the layer --config. Throws FileError.
void use_file(const std::string& path);
/// `module.flag=value` as the layer --set. The backend of an option need not be known yet.
void set_from_command_line(std::string_view setting);

/// Takes back every set(), --set and --config and reloads: for tests.
void forget();

/// True for an error inside a TOML file (exit status 3), false for others (2).
bool is_file_error(const Error& error);

/// Presumes a value for an option of a backend that may not even be installed: every layer but the
/// default counts over it.
void presume(std::string_view key, Value value, std::string_view origin);

/// Makes the options of a backend known as `<backend>.<option>` and reads what files, environment
/// and command line say about them. Rows known already stay. Throws, and then declares nothing, for
/// a wrong value or an unknown option.
void declare_options(std::string_view backend, std::span<const FlagDef> options);
/// Declares the options of all backends that there are; who names a module that is not known calls
/// it. The room `backend` fills the slot. Throws for a variable TENON_<BACKEND>_<...> that names no
/// option.
extern void (*declare_all_options_slot)();
void declare_all_options();
/// The same if a variable may name an option and that was not checked since the flags were read.
void require_option_names();
/// Throws if a file or --set names a module that is not a backend either.
void require_all_known();

/// Where warnings go, one line each; null: stderr. Must not throw. It may read flags. Returns the
/// sink before.
using WarningSink = void (*)(std::string_view text);
WarningSink set_warning_sink(WarningSink sink);

struct PatchEntry;
class PatchState;

/// The checked options of one compile() call; they travel with its callable.
using CompileOptions = std::shared_ptr<const PatchEntry>;
CompileOptions check_options(std::span<const Setting> settings);
/// The same for a TOML text with a table a module; `source` is what errors name.
CompileOptions check_options(std::string_view toml,
                             std::string_view source = "the options of compile()");
/// The options count in this thread while this lives; null: none. Patches may begin or end meanwhile.
class [[nodiscard]] OptionScope {
 public:
  explicit OptionScope(const CompileOptions& options);
  ~OptionScope();
  OptionScope(const OptionScope&) = delete;
  OptionScope& operator=(const OptionScope&) = delete;

 private:
  CompileOptions entry_;
  std::shared_ptr<const PatchState> before_, mine_;
};

/// The patches and options of this thread, for a thread that works on its behalf.
using ThreadPatches = std::shared_ptr<const PatchState>;
ThreadPatches thread_patches();
/// All that counts in this thread now, for when the process may have set other values. Under a patch
/// within, those count again.
ThreadPatches flags_as_they_are();
/// Those patches count in this thread while this lives.
class [[nodiscard]] InheritPatches {
 public:
  explicit InheritPatches(ThreadPatches patches);
  ~InheritPatches();
  InheritPatches(const InheritPatches&) = delete;
  InheritPatches& operator=(const InheritPatches&) = delete;

 private:
  ThreadPatches before_;
};

/// The text of configs/<module>.toml, also of a backend whose options are known: every flag
/// commented out, with doc, type and default.
std::string config_file_text(std::string_view module);
/// Writes that text for each module of flags and each backend with options into `folder`.
void write_config_files(const std::string& folder);
/// Writes a value into a TOML file, keeping all else that stands in it. The file and its folder are
/// made if need be. The key and value are checked.
void write_setting(const std::string& path, std::string_view key, std::string_view text);
/// The file that `tenon config set` writes: of the user, or of the project.
std::string setting_file(std::string_view key, bool project);
/// Throws FileError unless the file holds only known keys with fitting values, and all of it counts
/// where the file lies: in a folder of flags, or anywhere for --config. Changes nothing. Returns what
/// there is to say of keys that it lets the file have although nobody knows them.
std::vector<std::string> check_file(const std::string& path);

struct ConfigFile;
/// The files of flags that there are, of all modules and backends, lowest layer first; with those
/// that are not read, and why.
std::vector<ConfigFile> files_in_force();

}  // namespace tenon::config
