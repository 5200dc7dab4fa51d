// Plugins that go with a folder which is to be run again elsewhere.
#pragma once

#include <string>
#include <vector>

namespace tenon {

/// Copies into <folder>/plugins the plugin of a backend, those that this process has loaded, and
/// `files`; not those that are installed with Tenon, which is elsewhere, too. Gives the copies'
/// paths, from the folder on; to do it again changes nothing. Throws UserError where a copy cannot be
/// made.
std::vector<std::string> carry_plugins(const std::string& folder, const std::string& backend,
                                       const std::vector<std::string>& files = {});

/// The same as the words of a command that runs in the folder: " --plugin 'plugins/mine.so'".
std::string carried_plugin_words(const std::string& folder, const std::string& backend,
                                 const std::vector<std::string>& files = {});

}  // namespace tenon
