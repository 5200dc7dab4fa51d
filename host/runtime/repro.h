// Repros: a graph, the flags and the command that compile it again, as a folder of dumps.
//
// Flag dynamo.repro_after names the graph: `dynamo` the captured one, `aot` the one that the
// backend got. dynamo.repro_level says when: 1 and 2 where its compilation fails (or, of `aot`, a
// call of its code), 3 before it is compiled, so that it survives a crash of the plugin, 4 where its numbers are wrong. Levels 2 and 4
// run the minifier on it.
#pragma once

#include "core/function_ref.h"
#include "graph/artifact.h"
#include "graph/graph.h"

#include <span>
#include <string>
#include <string_view>

namespace tenon {

enum class ReproStage : uint8_t { dynamo, aot };

/// Whether a repro of this stage is wanted at this level.
bool wants_repro(ReproStage stage, int64_t level);

/// What compiles a graph: for the command in the folder.
struct ReproCompile {
  std::string compile_id, backend, mode, options_toml;
};

/// Writes repro.tng, flags.toml, error.txt, command.sh and minify.sh into the folder of dumps of the
/// compilation and returns it; empty where that is not possible. Never throws.
std::string write_graph_repro(const Graph& graph, const ReproCompile& compile,
                              std::string_view error) noexcept;

/// The same, with the inputs of a call, if there are some, as inputs.safetensors, which command.sh
/// then takes; at level 4 it judges the results (status 9 where they are wrong). Then, at levels 2
/// and 4, the minifier.
void leave_repro(const Graph& graph, const ReproCompile& compile, std::string_view error,
                 std::span<detail::TensorHead* const> inputs = {}) noexcept;

/// Compiles, leaving a repro behind where one is wanted: before, when that fails, or, of stage
/// `aot`, when a call of the code fails.
std::shared_ptr<Artifact> with_repro(ReproStage stage, const std::shared_ptr<Graph>& graph,
                                     const ReproCompile& repro,
                                     FunctionRef<std::shared_ptr<Artifact>()> compile);

/// Flag dynamo.replay_record_enabled: writes replay.tng, flags.toml and error.txt, which `tenon
/// replay` runs again. Never throws.
void write_execution_record(const Graph& graph, std::string_view compile_id,
                            std::string_view error) noexcept;

}  // namespace tenon
