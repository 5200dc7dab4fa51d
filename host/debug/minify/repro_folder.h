// The folder that a minified graph is left in: everything that it takes to see the failure again.
//
//   graph.tng            the graph
//   inputs.safetensors   inputs whose values matter; the others are made up with seed 0
//   flags.toml           the changed flags
//   error.txt            the failure, versions, backend, plugin
//   plugins/             those that are not installed with Tenon
//   command.sh           runs it again: status 9 where results are wrong
#pragma once

#include "debug/minify/candidate.h"
#include "debug/minify/failure.h"

namespace tenon {

/// How the failing run is started.
struct ReproRun {
  std::string backend, mode;
  bool grad = false;
  std::vector<std::string> plugins;  ///< files of the command line
};

/// Makes the folder; throws UserError where it cannot be written.
void write_repro_folder(const std::string& folder, const Candidate& candidate,
                        const Failure& failure, const ReproRun& run);

}  // namespace tenon
