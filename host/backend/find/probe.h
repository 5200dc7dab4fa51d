// Loading a plugin in a child process first, so that a crash there costs the program nothing.
#pragma once

#include "backend/find/diagnose.h"

#include <string>

namespace tenon {

/// How the child ended that loaded a plugin.
struct ProbeEnd {
  bool crashed = false;
  std::string how;  ///< "with signal 11", "without an answer for 10 s"
};

/// Runs `tenon plugin load FILE` and waits for it; with `quarantine` a crash leaves a breadcrumb.
/// What the child thinks of the file does not matter: the caller will find out the same. Throws
/// BackendError plugin when the program tenon is not beside the library or cannot be started.
ProbeEnd probe_plugin(const std::string& path, bool quarantine);

}  // namespace tenon
