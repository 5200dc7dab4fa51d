// What the parent of a phase shares with the process of a phase.
#pragma once

#include "debug/plugin_kit/check.h"

namespace tenon::kit {

/// The plugin that was named explicitly, as the catalog knows it.
FoundPluginPtr find_explicit(const std::string& file);

/// The checks that the settings ask for. Throws UserError for a backend or check that is not there.
std::vector<Check> wanted_checks(const FoundPlugin& plugin, const KitSettings& settings);

/// A check that runs no code of the plugin, in this process.
KitResult run_in_place(const Check& check, const KitSettings& settings);

/// Lines between the processes, without line breaks inside.
std::string escaped(std::string_view text);
std::string unescaped(std::string_view text);

}  // namespace tenon::kit
