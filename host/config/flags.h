// The flags as plain structs, made from the lines of the .def files, and the cheap way to read
// them.
//
//   if (config::flags().dynamo.suppress_errors) ...
//
// A line of a .def file is FLAG(name, type, default, scope, "doc", extras...):
//   type   bool int float string choice list
//   scope  compile   decides what a compilation produces: part of config::hash()
//          runtime   acts at run time
//          debug     for messages, dumps and checks
//          process   one value for the process: cannot be patched
//   extras .choices = "a|b"   .min = 0, .max = 1   .env = "PYTORCH_VARIABLE"
//          .aliases = "old_name"
//          .seed = "false" (default under compiler.compat = "seed")   .read_only = true
//          .takes_bool = true (string flags that take true and false, too)
//          .deprecated = "what to use instead"
//          .status = pending, .why = "part that will read it"
//          .status = no_effect, .why = "reason"
//          .project = true (project files may set it: it names no path, file, backend or cache and
//          makes no file)
// in this order, each optional.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// The value of a choice flag: one of the texts in its .choices, compared as text.
class Choice {
 public:
  constexpr Choice(const char* text) : text_(text) {}  // NOLINT: the defaults of the .def files
  /// `text` must outlive the choice: it points into the flag's .choices.
  constexpr explicit Choice(std::string_view text) : text_(text) {}
  constexpr std::string_view text() const { return text_; }
  friend constexpr bool operator==(Choice a, Choice b) { return a.text_ == b.text_; }
  friend constexpr bool operator==(Choice a, const char* b) { return a.text_ == b; }

 private:
  std::string_view text_;
};

inline std::string to_text(Choice choice) { return std::string(choice.text()); }

namespace config {

using bool_flag = bool;
using int_flag = int64_t;
using float_flag = double;
using string_flag = std::string;
using choice_flag = Choice;
using list_flag = std::vector<std::string>;

#define FLAG(name_, type_, default_, ...) type_##_flag name_ = default_;
struct DynamoFlags {
#include "config/dynamo.def"
};
struct FunctorchFlags {
#include "config/functorch.def"
};
struct CompilerFlags {
#include "config/compiler.def"
};
struct ShapesFlags {
#include "config/shapes.def"
};
struct CaptureFlags {
#include "config/capture.def"
};
struct GuardsFlags {
#include "config/guards.def"
};
struct CompiledAutogradFlags {
#include "config/compiled_autograd.def"
};
struct PluginsFlags {
#include "config/plugins.def"
};
struct LoggingFlags {
#include "config/logging.def"
};
#undef FLAG

/// One consistent set of values. Never changes once made.
struct Flags {
  DynamoFlags dynamo;
  FunctorchFlags functorch;
  CompilerFlags compiler;
  ShapesFlags shapes;
  CaptureFlags capture;
  GuardsFlags guards;
  CompiledAutogradFlags compiled_autograd;
  PluginsFlags plugins;
  LoggingFlags logging;
  uint64_t serial = 0;  ///< different for each set; what is derived from flags can be cached by it
};

namespace detail {
extern constinit std::atomic<const Flags*> process_flags;  // null before the first use
extern constinit thread_local bool patched;                // this thread has patches
const Flags& slow_flags();
}  // namespace detail

/// Told of the values of the process after each change, outside of any lock. Filled in by the room
/// `core`, which follows compiler.threads. Must not throw.
extern void (*published_slot)(const Flags&);

/// From here on a fork waits for those who change flags. At the first use of flags, or here.
void guard_forks();

/// The values that this thread sees. Reads the files and the environment at first use, and throws
/// UserError ConfigError if one of them is wrong. Outside a patch the reference stays good for
/// ever, inside one until the patch ends. Cost: two loads.
inline const Flags& flags() {
  const Flags* current = detail::process_flags.load(std::memory_order_acquire);
  if (current == nullptr || detail::patched) [[unlikely]]
    return detail::slow_flags();
  return *current;
}

}  // namespace config
}  // namespace tenon
