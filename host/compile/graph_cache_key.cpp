// What goes into keys, and which graphs have none.
//
// A graph counts by its canonical text: ops, arguments, types and layouts, which inputs need
// gradients or share memory, constants by their content, and what was taken for granted about
// symbols. Ops that a program or a plugin has added count by their schema and formula. Code of
// theirs that the stages call (derivatives, decompositions) cannot be read, so a graph that leads
// there has no key unless a flag says that it stays as it is while the program does.
#include "compile/graph_cache_key.h"

#include "aot/shared_inputs.h"
#include "compile/staged_graph.h"
#include "config/config.h"
#include "config/flags.h"
#include "core/device/matmul_precision.h"
#include "core/error.h"
#include "core/random.h"
#include "core/sym/shape_env.h"
#include "graph/hash.h"
#include "graph/memory_budget.h"
#include "graph/text/document.h"
#include "graph/text/print.h"
#include "ops/custom_op.h"
#include "ops/op_table.h"

#include <unistd.h>
#include <chrono>
#include <set>

namespace tenon {

namespace {

std::string text_without_examples(const Graph& graph) {
  GraphDoc doc = describe_graph(graph, {.canonical = true});
  for (SymbolDoc& symbol : doc.symbols) symbol.hint.reset();
  return print_document(doc);
}

std::string cost_hints_text(const Graph& graph) {
  std::string out;
  if (!graph.shape_env) return out;
  for (const SymbolInfo& symbol : graph.shape_env->symbols())
    if (symbol.cost_hint) out += message("{} {}\n", symbol.source_text, *symbol.cost_hint);
  return out;
}

std::string names_of_inputs(const Graph& graph) {
  std::string out;
  for (ValueId v : graph.inputs()) out += graph.value(v).name + "\n";
  return out;
}

std::string modes_of_thread(const CompileRequest& request) {
  return message("grad {} deterministic {} tf32 {} dynamic {} autocast {}", request.grad_enabled,
                 request.deterministic, allows_tf32(), request.dynamic, request.autocast);
}

/// The ops of a graph that others have added, and whether the graph can have a key.
class AddedOps {
 public:
  explicit AddedOps(bool trains) : trains_(trains) {}

  void look_at(const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      for (const Value& arg : node.args)
        if (arg.tag == Tag::opaque)
          bypass_ = message("node {} has an argument without a text", name_of(node.op));
      const OpEntry& op = entry_of(node.op);
      if (const CustomOp* added = custom_op_of(op); added && seen_.insert(node.op).second)
        add(op.name, *added);
    }
    for (const auto& sub : graph.subgraphs) look_at(*sub);
  }
  const std::string& text() const { return text_; }
  const std::string& bypass() const { return bypass_; }

 private:
  void add(const std::string& name, const CustomOp& op) {
    text_ += op.schema + "\n";
    if (op.formula) text_ += to_text(*op.formula) + "\n";
    bool is_called = op.decomp || (op.vjp && trains_);
    if (!is_called) return;
    if (config::flags().functorch.autograd_cache_allow_custom_autograd_functions) {
      text_ += message("code of {} in {}\n", op.owner, program_identity());
      return;
    }
    bypass_ = message(
        "op {} has a {} of its own, which may become another one; set "
        "functorch.autograd_cache_allow_custom_autograd_functions where it stays with the program",
        name, op.vjp && trains_ ? "derivative" : "decomposition");
  }

  bool trains_;
  std::set<OpId> seen_;
  std::string text_, bypass_;
};

// With symbolic sizes the example decides which inputs count as overlapping.
std::string overlaps_text(const Graph& graph) {
  std::string text;
  for (const SharedInput& shared : shared_inputs(graph)) {
    for (uint32_t member : shared.members) text += message("{} ", member);
    text += "\n";
  }
  return text;
}

}  // namespace

GraphKey graph_key(const Graph& graph, const CompileRequest& request,
                   const CacheIdentity& backend) {
  GraphKey out;
  std::string fingerprint =
      KeyBuilder().add("host", host_identity()).add("backend", backend.text).hex();
  out.folder = backend.owner + "/" + fingerprint.substr(0, 16);
  bool trains = wants_gradients(graph);
  AddedOps added(trains);
  added.look_at(graph);
  out.bypass = added.bypass();
  const std::string& pass = config::flags().functorch.joint_custom_pass;
  if (trains && !pass.empty())
    out.bypass =
        message("the joint graph goes through pass {}, which may become another one", pass);
  if (!out.bypass.empty()) return out;
  KeyBuilder key;
  key.add("host", host_identity()).add("backend", backend.text).add("mode", request.mode);
  key.add("flags", config::hash()).add("tag", config::flags().compiler.cache_key_tag);
  key.add("modes", modes_of_thread(request)).add("ops", added.text());
  if (std::optional<double> budget = trains ? memory_budget_of(graph) : std::nullopt)
    key.add("memory budget", message("{}", *budget));
  if (!config::flags().functorch.autograd_cache_normalize_inputs)
    key.add("inputs", names_of_inputs(graph));
  key.add("device", architecture_of(graph)).add("overlaps", overlaps_text(graph));
  if (std::string hints = cost_hints_text(graph); !hints.empty()) key.add("cost hints", hints);
  key.add("graph", text_without_examples(graph));
  out.digest = key.hex();
  return out;
}

std::string random_digest() {
  static std::atomic<int64_t> turn{0};
  auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return KeyBuilder().add("random", message("{} {} {}", ::getpid(), now, turn.fetch_add(1))).hex();
}

}  // namespace tenon
