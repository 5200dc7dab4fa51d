// The minifier, at work on a repro of this program.
#pragma once

#include "runtime/repro.h"

#include <string>

namespace tenon {

/// Whether the minifier is to look at gradients of this graph: they are wanted, and flag
/// dynamo.repro_forward_only does not skip them.
bool minifies_gradients(const Graph& graph);

/// The command that minifies the repro in `folder`, run from there.
std::string minifier_command(const ReproCompile& compile, bool grad, const std::string& folder);

/// Runs `tenon minify` on the folder of a repro in a child process, whose messages go to stderr, and
/// waits for its end: the smallest graph is in <folder>/minified then. Says so in a log line, or what
/// stood in the way. Never throws.
void run_minifier(const std::string& folder, const ReproCompile& compile, bool grad) noexcept;

}  // namespace tenon
