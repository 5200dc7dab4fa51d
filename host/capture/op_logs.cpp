// An operation, and where it is called.
#include "capture/op_logs.h"

#include "config/flags.h"
#include "core/error.h"
#include "graph/text/print.h"
#include "ops/op_table.h"
#include "report/log.h"
#include "report/stack.h"

namespace tenon {

// A frame names file and offset, which addr2line turns into a line.
static std::string place_of(const Graph& graph, NodeId node) {
  std::string op(name_of(graph.node(node).op));
  std::string frames = report::program_stack(config::flags().capture.stack_depth);
  while (frames.ends_with('\n')) frames.pop_back();
  return frames.empty() ? op : message("{} is called by\n{}", op, frames);
}

void log_recorded(const Graph& graph, NodeId node) {
  if (report::artifact_enabled("trace_call"))
    report::log_artifact("trace_call", node_text(graph, node));
  if (report::artifact_enabled("trace_source"))
    report::log_artifact("trace_source", place_of(graph, node));
}

}  // namespace tenon
