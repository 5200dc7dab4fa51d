// What was captured, as log artifacts.
#include "compile/captured_logs.h"

#include "config/flags.h"
#include "core/error.h"
#include "graph/passes/aliasing.h"
#include "graph/text/print.h"
#include "graph/text/tables.h"
#include "report/log.h"

namespace tenon {

namespace {

void write(std::string_view artifact, std::string_view title, std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  report::log_artifact(artifact, message("{}\n{}", title, text));
}

std::string name_of_origin(const ValueOrigin& origin) {
  switch (origin.kind) {
    case ValueOrigin::Kind::leaf:
      return message("tensor argument {}", origin.index);
    case ValueOrigin::Kind::implicit:
      return message("captured tensor {}", origin.index);
    default:
      return "a tensor made before a graph break";
  }
}

std::string written_by(const Graph& graph, std::span<const ValueOrigin> origins) {
  AliasClasses classes(graph);
  std::string out;
  for (size_t i = 0; i < graph.inputs().size() && i < origins.size(); ++i)
    if (classes.is_written(graph.inputs()[i]))
      out += message("writes {}\n", name_of_origin(origins[i]));
  return out;
}

std::string side_effects_of(const Recording& recording) {
  std::string out;
  if (recording.graph) out += written_by(*recording.graph, recording.inputs);
  for (const Segment& segment : recording.segments)
    out += written_by(*segment.graph, segment.inputs);
  for (const LogCall& call : recording.log_calls)
    out += message("calls the log function {} after the graph\n", call.name);
  for (const GradEffects::Left& left : recording.gradients.left)
    out += message("leaves a gradient in {}\n", name_of_origin(left.leaf));
  return out;
}

}  // namespace

void log_captured(const Graph& graph) {
  std::string title = message("{} operations", graph.nodes().size());
  if (report::artifact_enabled("graph")) write("graph", title, operation_table(graph));
  if (report::artifact_enabled("graph_code")) write("graph_code", title, to_text(graph));
  if (report::artifact_enabled("graph_sizes")) write("graph_sizes", title, size_table(graph));
}

// The graph of a whole step is no joint graph: its gradients are written out where backward() is called.
static void warn_of_skipped_pass(const Recording& recording) {
  const std::string& pass = config::flags().functorch.joint_custom_pass;
  if (recording.has_backward && !pass.empty())
    report::warn_once(
        "joint pass " + pass, "aot",
        message("functorch.joint_custom_pass: pass '{}' does not run over bodies that "
                "call backward(); call backward() outside of the compiled callable",
                pass));
}

void log_recording(const std::string& name, const Recording& recording) {
  warn_of_skipped_pass(recording);
  for (std::string_view artifact : {"guards", "verbose_guards"})
    if (report::artifact_enabled(artifact))
      write(artifact, "version " + name, recording.guards.to_text());
  if (!report::artifact_enabled("side_effects")) return;
  std::string effects = side_effects_of(recording);
  write("side_effects", "version " + name, effects.empty() ? "none" : effects);
}

}  // namespace tenon
