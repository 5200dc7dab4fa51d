// SPDX-License-Identifier: Apache-2.0
// Every flag of Tenon: reading, setting, patching, saving.
//
//   tenon::config::set("dynamo.recompile_limit", 16);                  // the whole process
//   auto patch = tenon::config::patch({{"dynamo.recompile_limit", 2}});  // this thread, this scope
//   int64_t limit = tenon::config::get_as<int64_t>("dynamo.recompile_limit");
//
// A key is `<module>.<flag>`, or `<backend>.<option>` for an option of a backend.
// A value comes from the highest layer that sets it: default, install, user, project, --config,
// environment, set(), --set, patch(), options of compile(), TENON_FORCE_<MODULE>_<FLAG>.
//
// An unknown key, a wrong type and a value that is not allowed throw UserError ConfigError.
//
// Threads: all functions may be called from any thread. set() is seen by every thread; a patch by
// its thread and by the threads that the runtime starts on its behalf.
#pragma once

#include <tenon/detail/variant.h>
#include <tenon/error.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::config {

/// A flag's value. Flags of type choice hold their text as a string.
using Value = tenon::detail::Variant<bool, int64_t, double, std::string, std::vector<std::string>>;

/// As in a TOML file: `true`, `8`, `0.5`, `"text"`, `["a", "b"]`.
TENON_API std::string value_text(const Value& value);

struct Setting {
  std::string_view key;
  Value value;
};

/// The value that this thread sees.
TENON_API Value get(std::string_view key);

/// get() as one of the types of Value; another type than the flag's throws UserError.
template <class T>
T get_as(std::string_view key) {
  Value value = get(key);
  if (T* found = std::get_if<T>(&value)) return std::move(*found);
  fail(ErrorCode::config, "{} is {}, which is not of the type asked for; see config::list()", key,
       value_text(value));
}

/// Sets a flag for the whole process.
TENON_API void set(std::string_view key, Value value);
/// Takes back what set() gave; the layers below count again.
TENON_API void unset(std::string_view key);

/// The settings of patch(), in force until it is destroyed, on the thread that made it.
class TENON_API Patch {
 public:
  explicit Patch(std::vector<Setting> settings);
  Patch(Patch&& other) noexcept = default;
  Patch& operator=(Patch&&) = delete;
  ~Patch();

 private:
  std::shared_ptr<const void> entry_;
};

/// Sets flags for this thread until the result is destroyed. Nests. All keys and values are checked
/// before the first one counts.
[[nodiscard]] inline Patch patch(std::initializer_list<Setting> settings) {
  return Patch(settings);
}

/// Where a value came from: a layer's name ("default", "project", ...), the file and line, variable
/// or function, and the value that this layer gave.
struct Source {
  std::string layer;
  std::string origin;
  Value value;
};

struct FlagInfo {
  std::string key;
  std::string type;  ///< bool, int, float, string, choice or list
  std::string doc;
  std::string status;       ///< active, pending or no_effect
  std::string why;          ///< pending: the part that will read it; no_effect: the reason
  std::string environment;  ///< names of the variables, best first, separated by spaces
  std::vector<std::string> choices;
  Value default_value;
  Value value;
  Source source;
};

/// Every flag and every option of the backends known so far, sorted by key within its module.
TENON_API std::vector<FlagInfo> list();
/// One flag. An alias gives its target.
TENON_API FlagInfo info(std::string_view key);
/// What each layer says about a flag, lowest first; the last one counts.
TENON_API std::vector<Source> explain(std::string_view key);

/// The flags that differ from their defaults, as TOML for load() or a file, without those of
/// `dynamo._save_config_ignore`.
TENON_API std::string save();
/// save() without the private flags, whose names begin with `_`.
TENON_API std::string save_portable();
/// save() as C++: one line of config::set a flag.
TENON_API std::string save_as_cpp();
/// Sets what `toml` holds for the whole process. An unknown key is only warned about.
TENON_API void load(std::string_view toml);

/// 128 bits in hexadecimal over the values that decide what a compilation produces.
TENON_API std::string hash();

/// Reads the files and the environment again. set() and --set stay.
TENON_API void reload();

}  // namespace tenon::config
