// The conformance kit: whether a plugin file keeps the rules of the plugin interface.
//
// Problem. A plugin is code of others in our process; a broken one shows as a wrong number or a
// crash far from its cause. Model. Every "must" of the interface that can be tested is a named
// check. Checks that share a process are a phase; the kit runs each phase in a child process, so
// that a crash, an abort, a call of exit() or a hang is one failed check, and goes on after it with
// a new child. Method. What needs no code of the plugin is checked here; for the rest the plugin
// gets a host table that counts, refuses and damages on demand (watched_host.h), and graphs of the
// collection tests/plugins/graphs are compiled, run and compared with the host's interpreter.
// Cost: two seconds for a small plugin, most of it in repeated compiles; quick: half a second.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tenon {

struct KitSettings {
  std::string file;
  std::string backend;  ///< only this one; empty: all
  std::string device;   ///< only this device type; empty: all
  std::string only;     ///< the name of one check; empty: all
  int level = 3;        ///< 0 load, 1 correct, 2 dynamic, 3 robust
  uint64_t seed = 0;
  double time_limit = 30;                ///< seconds that one check may take
  bool quick = false;                    ///< few repetitions
  std::vector<std::string> models, ops;  ///< folders of archives and of op recordings
  std::string work_folder;               ///< of children: where phases leave files for others
  std::string nonce;                     ///< of children: what their lines begin with
};

enum class KitStatus { passed, failed, skipped, warned };
/// "ok", "FAILED", "skipped", "warning".
std::string name_of(KitStatus status);

struct KitResult {
  std::string name, backend;
  int level = 0;
  std::string section;  ///< of the plugin documentation that states the rule
  KitStatus status = KitStatus::skipped;
  std::string detail;  ///< why, where it is not simply passed
  std::string graph;   ///< the golden graph it happened with; empty: none
  std::string log;     ///< what the plugin wrote, where it crashed
  double ms = 0;
};

enum class KitVerdict { conformant, not_conformant, not_a_plugin, cannot_be_loaded };

struct KitReport {
  KitVerdict verdict = KitVerdict::conformant;
  std::string plugin, version;  ///< empty where the manifest could not be read
  std::string reason;           ///< why it is not a plugin or cannot be loaded
  std::vector<KitResult> results;
};

/// How the kit starts a child for a phase: arguments of this program.
using KitCommand =
    std::function<std::vector<std::string>(const std::string& phase, size_t first_check)>;

/// Checks a file; runs its code in children only. `on_result` gets each result as it comes. Throws
/// UserError for a check or backend that is not there.
KitReport check_plugin(const KitSettings& settings, const KitCommand& command,
                       const std::function<void(const KitResult&)>& on_result);

/// What a child does: the checks of a phase from number `first_check` on, told line by line on
/// child_lines_file.
void run_kit_phase(const KitSettings& settings, const std::string& phase, size_t first_check);

}  // namespace tenon
