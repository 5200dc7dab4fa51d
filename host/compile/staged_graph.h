// What the host makes of a graph before a backend sees it, and what it puts around the code.
//
//   graph ──▶ functional graph ─────────────────────────────────▶ backend ──▶ artifact
//        └─▶ joint graph (aot) ──▶ forward | backward (partition) ──▶ backend, twice ──▶ artifact
//
// A staged graph is data: the cache on disk keeps it, and code goes around it again in another
// process.
#pragma once

#include "aot/lower.h"
#include "backend/backend.h"
#include "partition/split.h"

#include <functional>
#include <optional>

namespace tenon {

struct StagedGraph {
  enum class Kind : uint8_t {
    inference,
    views_on_tape,  ///< nothing needs a gradient but outputs that are views of inputs
    training,       ///< a joint graph that is cut in two
  };
  Kind kind = Kind::inference;
  Lowered lowered;
  partition::Decision cut;  ///< of training graphs
  bool verifies = false;    ///< what tracing said of each value is checked
};

/// How graphs are lowered for a backend, by its manifest and the flags.
LowerOptions lowering_for(const BackendInfo& backend);

/// Whether gradients will be wanted of what this thread records now.
bool wants_gradients(const Graph& graph);

/// `autocast`: of the caller, which flag functorch.backward_pass_autocast may hand on to gradients.
/// A graph whose gradients are wanted but which cannot be differentiated ahead is staged for
/// inference, of which a log line tells why. Nothing where it cannot be made functional, as where an
/// argument grows beyond its memory: then it runs op by op, and a log line tells why, too.
std::optional<StagedGraph> stage_graph(const Graph& graph, const BackendInfo& backend,
                                       const AutocastState& autocast = {});

/// Gives the code of a functional graph, or of a half: of a backward when the first gradient
/// arrives.
using MakeCode = std::function<std::shared_ptr<Artifact>(const CompileRequest&)>;

/// The artifact of the recorded graph. `request` holds everything but the graph.
std::shared_ptr<Artifact> assemble(StagedGraph staged, const std::shared_ptr<Graph>& recorded,
                                   const CompileRequest& request, const MakeCode& make_code);

}  // namespace tenon
