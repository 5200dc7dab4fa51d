// One check of the conformance kit, and what it has to work with in its process.
#pragma once

#include "backend/life/load.h"
#include "core/error.h"
#include "debug/plugin_kit/kit.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::kit {

/// Thrown by a check that does not hold.
struct CheckFailed {
  std::string why, graph;
};
/// Thrown by a check that does not apply.
struct CheckSkipped {
  std::string why;
};
/// Thrown by a check that holds with a remark.
struct CheckWarned {
  std::string why;
};

template <class... Args>
[[noreturn]] void fail_check(std::string_view pattern, const Args&... args) {
  throw CheckFailed{message(pattern, args...), ""};
}
template <class... Args>
[[noreturn]] void skip_check(std::string_view pattern, const Args&... args) {
  throw CheckSkipped{message(pattern, args...)};
}
/// Fails the check unless `holds`.
template <class... Args>
void expect(bool holds, std::string_view pattern, const Args&... args) {
  if (!holds) fail_check(pattern, args...);
}

/// The process of a phase.
class Bench {
 public:
  explicit Bench(const KitSettings& settings);

  const KitSettings& settings() const { return settings_; }
  const FoundPlugin& found() const { return *found_; }
  /// Loads the plugin with the watched host table, unless another was set; once.
  const LoadedPlugin& load();
  /// Its shutdown, as at the end of a process; the plugin cannot be used any more.
  void shut_down();
  /// Tells where the check is, for the case that it does not come back.
  void note(const std::string& where);
  /// Something to say beside "ok".
  void remark(const std::string& text);
  /// What the check said so far; nothing is left.
  std::string take_remarks();
  /// Whether the plugin is not called any more in this process, after an exception.
  bool is_faulty() const;

 private:
  const KitSettings& settings_;
  FoundPluginPtr found_;
  const LoadedPlugin* loaded_ = nullptr;
  std::string remarks_;
};

struct Check {
  std::string name;     ///< "robust.threads"
  std::string backend;  ///< of the manifest; empty: it concerns the whole file
  int level;
  std::string_view section;  ///< of the plugin documentation
  std::string phase;         ///< checks of equal phase share a process
  std::function<void(Bench&)> run;
  std::string needs = {};  ///< the check that must have run before it; empty: none
};

/// All checks of a plugin, those of a phase in a row.
std::vector<Check> all_checks(const FoundPlugin& plugin, const KitSettings& settings);

// The parts of all_checks().
void add_load_checks(std::vector<Check>& checks, const FoundPlugin& plugin);
void add_correct_checks(std::vector<Check>& checks, const BackendManifest& backend);
void add_training_checks(std::vector<Check>& checks, const BackendManifest& backend);
void add_dynamic_checks(std::vector<Check>& checks, const BackendManifest& backend);
void add_robust_checks(std::vector<Check>& checks, const BackendManifest& backend);
void add_kernel_checks(std::vector<Check>& checks, const FoundPlugin& plugin);
void add_op_checks(std::vector<Check>& checks, const FoundPlugin& plugin);
void add_device_checks(std::vector<Check>& checks, const FoundPlugin& plugin);
void add_recorded_checks(std::vector<Check>& checks, const FoundPlugin& plugin,
                         const KitSettings& settings);

}  // namespace tenon::kit
