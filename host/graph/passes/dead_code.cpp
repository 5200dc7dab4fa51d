// Dead code removal.
//
// Problem: traces and rewrites leave nodes whose results nobody reads. Removing one is right only
//   if it does nothing else: ops write inputs, draw random numbers, print, assert, and give values
//   to symbols that sizes elsewhere are made of.
// Model: a node is needed if
//   - one of its results is, or one of them binds a symbol that is;
//   - it has an effect outside (side effect, an opaque argument, a sub-graph with effects), which
//     an assertion of what is true by now has not;
//   - it writes memory that outlives the call (inputs, constants), that an output shares, or that a
//     needed node after it reads; the memory of a value is its alias class.
//   Everything that a needed node reads is needed: values, their memory and the symbols in
//   arguments and in the metadata of results.
// Method: one walk backwards with three sets: values, alias classes, symbols. A write counts as a
//   read of the memory before it, so a store that a later store overwrites stays: overwriting is
//   not proved.
// Cost: linear in nodes, arguments and results.
#include <algorithm>
#include <set>

#include "core/sym/sym_expr.h"
#include "graph/passes/aliasing.h"
#include "graph/passes/passes.h"
#include "ops/op_ids.h"

namespace tenon {

namespace {

/// Whether the node asserts what is known to hold. One that is known to fail has to.
bool asserts_the_known(const Node& node) {
  if (node.op != OpId::aten__assert_scalar_default || node.args[0].tag == Tag::ref) return false;
  Number condition = node.args[0].number();
  return !condition.is_symbolic() && condition.to_double() != 0;
}

class DeadCode {
 public:
  DeadCode(const Graph& graph, const DeadCodeOptions& options)
      : graph_(graph),
        options_(options),
        classes_(graph),
        value_(graph.values().size()),
        class_read_(graph.values().size()) {}

  std::vector<bool> find() {
    std::vector<bool> dead(graph_.nodes().size());
    for (ValueId v : graph_.outputs()) {
      if (v == no_value) continue;
      need(v);
      need_symbols(graph_.value(v));
    }
    for (size_t n = graph_.nodes().size(); n-- > 0;) {
      const Node& node = graph_.node(static_cast<NodeId>(n));
      dead[n] = !is_needed(node);
      if (!dead[n]) need_all(node);
    }
    return dead;
  }

 private:
  void need(ValueId v) {
    value_[v] = true;
    class_read_[classes_.of(v)] = true;
  }
  void need_symbols(const Expr* expr) {
    for (const Expr* symbol : free_symbols(expr)) symbols_.insert(symbol);
  }
  void need_symbols(SymInt v) {
    if (v.is_symbolic()) need_symbols(v.expr());
  }
  void need_symbols(Number n) {
    if (!n.is_symbolic()) return;
    need_symbols(n.is_integer() ? n.sym_int().expr() : std::bit_cast<const Expr*>(n.word()));
  }
  void need_symbols(const GraphValue& value) {
    need_symbols(value.scalar);
    for (SymInt v : value.meta.sizes) need_symbols(v);
    for (SymInt v : value.meta.strides) need_symbols(v);
    need_symbols(value.offset);
  }

  void need_all(const Node& node) {
    Graph::for_each_use(node, [&](ValueId v) { need(v); });
    for (uint32_t r = 0; r < node.n_results; ++r) need_symbols(graph_.value(node.first_result + r));
    for (const Value& arg : node.args) {
      for_each_symbolic(arg, [&](Number n) { need_symbols(n); });
      if (arg.tag == Tag::graph) need_symbols_of(*arg.as<Graph>());
    }
  }
  // Sub-graphs use the symbols of the graph around them.
  void need_symbols_of(const Graph& sub) {
    for (const GraphValue& value : sub.values()) need_symbols(value);
    for (const Node& node : sub.nodes())
      for (const Value& arg : node.args) for_each_symbolic(arg, [&](Number n) { need_symbols(n); });
    for (const auto& inner : sub.subgraphs) need_symbols_of(*inner);
  }

  bool writes_needed_memory(const Node& node) const {
    uint64_t written = written_args(node);
    bool needed = false;
    for (size_t i = 0; i < node.args.size() && i < 64; ++i)
      if (written >> i & 1)
        for_each_value(node.args[i], [&](ValueId v) {
          needed |= classes_.is_external(v) || classes_.escapes(v) || class_read_[classes_.of(v)];
        });
    return needed;
  }

  bool is_needed(const Node& node) const {
    const OpEntry& op = entry_of(node.op);
    if (op.tags & TN_TAG_SIDE_EFFECT) return !asserts_the_known(node);
    if (options_.keep_random && draws_numbers(node)) return true;
    for (uint32_t r = 0; r < node.n_results; ++r)
      if (value_[node.first_result + r]) return true;
    for (const Value& arg : node.args) {
      if (arg.tag == Tag::opaque) return true;
      if (arg.tag == Tag::graph && has_effects(*arg.as<Graph>(), options_.keep_random)) return true;
    }
    for (const SymbolBinding& binding : graph_.symbols)
      if (binding.value >= node.first_result &&
          binding.value < node.first_result + node.n_results && symbols_.count(binding.symbol))
        return true;
    return writes_needed_memory(node);
  }

  const Graph& graph_;
  const DeadCodeOptions& options_;
  AliasClasses classes_;
  std::vector<bool> value_;       // needed values
  std::vector<bool> class_read_;  // alias classes that a needed node reads further on
  std::set<const Expr*> symbols_;
};

// Sub-graphs that no node has any more.
void drop_unused_bodies(Graph& graph) {
  std::set<const Graph*> used;
  for (const Node& node : graph.nodes())
    for (const Value& arg : node.args)
      if (arg.tag == Tag::graph) used.insert(arg.as<Graph>());
  std::erase_if(graph.subgraphs, [&](const auto& body) { return !used.contains(body.get()); });
}

}  // namespace

bool remove_dead_code(Graph& graph, const DeadCodeOptions& options) {
  std::vector<bool> dead = DeadCode(graph, options).find();
  bool any = std::find(dead.begin(), dead.end(), true) != dead.end();
  if (any) graph.erase_nodes(dead);
  if (!graph.subgraphs.empty()) drop_unused_bodies(graph);
  return any;
}

}  // namespace tenon
