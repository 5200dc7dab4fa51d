// What the parent of a phase shares with the process of a phase.
#pragma once

#include "debug/plugin_kit/check.h"

#include <map>

namespace tenon::kit {

/// The plugin that was named explicitly, as the catalog knows it.
FoundPluginPtr find_explicit(const std::string& file);

/// The checks that the settings ask for. Throws UserError for a backend or check that is not there.
std::vector<Check> wanted_checks(const FoundPlugin& plugin, const KitSettings& settings);

/// A check that runs no code of the plugin, in this process.
KitResult run_in_place(const Check& check, const KitSettings& settings);

/// Checks of one backend that end alike, one after the other. What comes after them would end so,
/// too: it is not run, so that a backend that hangs costs seconds, and one defect is told once.
class Repeats {
 public:
  /// Counts a result; `end` says how the process ended in the check, empty: it came back.
  void take(const KitResult& result, const std::string& end);
  /// Why no more checks of `backend` are run; empty while they are.
  std::string why_not_run(const std::string& backend) const;

 private:
  struct Row {
    std::string text;
    int count = 0;
    bool ended = false;
  };
  std::map<std::string, Row> rows_;  // by backend
};

/// How often code of the plugin has made a copy of this process.
int forks_so_far();

/// Lines between the processes, without line breaks inside.
std::string escaped(std::string_view text);
std::string unescaped(std::string_view text);

}  // namespace tenon::kit
