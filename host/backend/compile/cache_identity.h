// What of a backend decides whether code that was kept on disk may serve.
#pragma once

#include "backend/backend.h"

#include <string>

namespace tenon {

struct CacheIdentity {
  bool serializable = false;  ///< its manifest says that what it saves can be loaded again
  /// The files of its plugin and of those that it leaves graphs to, and all options that make
  /// another code. Another text means other code.
  std::string text;
  std::string owner;  ///< "inductor-0.1.0": plugin and version, as a part of a path
};

/// For a backend by name and the device of a graph, and the options of a request; loads nothing. Throws UserError for a name
/// or option that does not exist.
CacheIdentity cache_identity(const std::string& backend, const CompileRequest& request,
                             const Graph& graph);

/// The file that this code of the host is in (the library, or a program that contains it), and the
/// features of the processor.
const std::string& host_identity();

/// The file of the running program.
const std::string& program_identity();

}  // namespace tenon
