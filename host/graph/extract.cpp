// Extraction: the border of a piece, the copy of its nodes, and the symbols that they need.
#include "graph/extract.h"

#include "core/error.h"
#include "core/sym/shape_env.h"
#include "graph/passes/aliasing.h"

#include <algorithm>
#include <set>

namespace tenon {

/// One piece being made.
class Extractor::Piece {
 public:
  Piece(Extractor& all, std::span<const NodeId> nodes) : all_(all), nodes_(nodes) {
    out_.graph = std::make_shared<Graph>();
    out_.graph->shape_env = all.graph_.shape_env;
    out_.graph->name = all.graph_.name;
  }

  // Outputs are those values of the piece that somebody outside reads.
  Extracted run() {
    finds_outputs_ = true;
    make();
    out_.graph->set_outputs(std::move(results_));
    return std::move(out_);
  }

  Extracted run(std::span<const ValueId> inputs, std::span<const ValueId> outputs) {
    for (ValueId v : inputs) add_input(v);
    given_outputs_ = outputs;
    make();
    for (ValueId v : outputs) {
      results_.push_back(v == no_value ? no_value : all_.mapped_[v]);
      if (v != no_value) out_.graph->value(results_.back()).flags.user_output = true;
    }
    out_.outer_outputs.assign(outputs.begin(), outputs.end());
    out_.graph->set_outputs(std::move(results_));
    return std::move(out_);
  }

 private:
  void make() {
    for (NodeId n : nodes_) all_.piece_of_[n] = all_.n_pieces_;
    // All inputs come first, as in every graph.
    for (NodeId n : nodes_) {
      const Node& node = all_.graph_.node(n);
      Graph::for_each_use(node, [&](ValueId v) { add_outside(v); });
      all_.symbols_.each_of(node, [&](uint32_t s) { symbols_.insert(s); });
    }
    for (ValueId v : given_outputs_)
      if (v != no_value) add_outside(v);
    for (ValueId v : out_.outer_inputs)
      all_.symbols_.each_of(all_.graph_.value(v), [&](uint32_t s) { symbols_.insert(s); });
    add_equal_symbols();
    for (uint32_t s : symbols_) add_symbol(s);
    for (ValueId v : constants_) add_constant(v);
    for (NodeId n : nodes_) add_node(n);
    for (const auto& [position, binder] : late_symbols_) {
      const SymbolBinding& b = all_.graph_.symbols[position];
      bind(position, {b.symbol, all_.mapped_[binder], b.dim, b.stride});
    }
  }

  // What is asked about a symbol when the piece is lowered is answered over the one that is known to
  // be equal. One that a node finds out is left to those who mention it: the node may come later.
  void add_equal_symbols() {
    const ShapeEnv* env = all_.graph_.shape_env.get();
    auto add = [&](uint32_t equal) {
      const SymbolBinding& b = all_.graph_.symbols[equal];
      if (all_.graph_.value(b.value).source != ValueSource::node) symbols_.insert(equal);
    };
    for (uint32_t s : std::set(symbols_))
      all_.symbols_.each_of(number_over(env->simplify(all_.graph_.symbols[s].symbol)), add);
  }

  bool is_inside(const GraphValue& value) const {
    return value.source == ValueSource::node &&
           all_.piece_of_[value.source_index] == all_.n_pieces_;
  }
  bool is_known(ValueId v) const { return all_.known_since_[v] == all_.n_pieces_; }
  void map(ValueId outer, ValueId inner) {
    all_.known_since_[outer] = all_.n_pieces_;
    all_.mapped_[outer] = inner;
    // Of a graph that does not tell, groups say what may be: for results, nodes know better.
    bool is_told = all_.tells_aliases_ || !is_inside(all_.graph_.value(outer));
    if (inner != no_value && is_told) out_.graph->value(inner).alias_group = all_.groups_[outer];
  }

  void add_outside(ValueId v) {
    const GraphValue& value = all_.graph_.value(v);
    if (is_known(v) || is_inside(value)) return;
    if (value.source == ValueSource::constant) {
      map(v, no_value);  // gets its id once all inputs have theirs
      constants_.push_back(v);
      return;
    }
    add_input(v);
  }

  void add_input(ValueId v) {
    GraphValue input = all_.graph_.value(v);
    input.result_index = 0;
    map(v, out_.graph->add_input(std::move(input)));
    out_.outer_inputs.push_back(v);
  }

  void add_constant(ValueId v) {
    const GraphValue& value = all_.graph_.value(v);
    ValueId inner = out_.graph->add_constant(all_.graph_.constant(v), value.name);
    uint32_t index = out_.graph->value(inner).source_index;
    out_.graph->value(inner) = value;
    out_.graph->value(inner).source_index = index;
    map(v, inner);
  }

  void bind(uint32_t position, SymbolBinding binding) {
    out_.graph->symbols.push_back(binding);
    out_.outer_symbols.push_back(position);
  }

  // A symbol gets its value from a node of the piece, else from an input that shows it bare, else
  // from an input of its own.
  void add_symbol(uint32_t position) {
    const SymbolBinding& outer = all_.graph_.symbols[position];
    if (is_inside(all_.graph_.value(outer.value))) {
      late_symbols_.emplace_back(position, outer.value);
      return;
    }
    SymbolBinding shown{outer.symbol, no_value, 0};
    for (ValueId v : out_.outer_inputs)
      if (v != no_value && shows(all_.graph_.value(v), shown)) {
        shown.value = all_.mapped_[v];
        return bind(position, shown);
      }
    GraphValue number;
    number.scalar = number_over(outer.symbol);
    number.kind = number.scalar.is_integer()    ? ValueKind::sym_int
                  : number.scalar.is_floating() ? ValueKind::sym_float
                                                : ValueKind::sym_bool;
    shown.value = out_.graph->add_input(std::move(number));
    shown.dim = -1;
    out_.outer_inputs.push_back(no_value);
    bind(position, shown);
  }

  static bool shows(const GraphValue& value, SymbolBinding& b) {
    if (value.kind != ValueKind::tensor) {
      b.dim = -1;
      return value.scalar.is_symbolic() && expression_of(value.scalar) == b.symbol;
    }
    for (bool stride : {false, true}) {
      const Dims& dims = stride ? value.meta.strides : value.meta.sizes;
      for (size_t d = 0; d < dims.size(); ++d) {
        if (!dims[d].is_symbolic() || dims[d].expr() != b.symbol) continue;
        b.dim = static_cast<int32_t>(d);
        b.stride = stride;
        return true;
      }
    }
    return false;
  }

  void add_node(NodeId n) {
    const Node& node = all_.graph_.node(n);
    std::vector<Value> args(node.args.begin(), node.args.end());
    for (const Value& a : args)
      if (a.tag == Tag::graph) keep_subgraph(a.as<Graph>());
    ArgumentLists lists;
    map_arguments(
        args, lists, [this](ValueId v) { return all_.mapped_[v]; }, keep_numbers);
    auto values =
        all_.graph_.values().subspan(node.n_results ? node.first_result : 0, node.n_results);
    Node& copy =
        out_.graph->node(out_.graph->add_node(node.op, args, {values.begin(), values.end()}));
    std::span<const Value> own_args = copy.args;
    ValueId first = copy.first_result;
    copy = node;
    copy.args = own_args;
    copy.first_result = first;
    for (uint32_t r = 0; r < node.n_results; ++r) add_result(node.first_result + r, first + r);
  }

  void add_result(ValueId outer, ValueId inner) {
    map(outer, inner);
    bool leaves = finds_outputs_ && all_.leaves(outer);
    out_.graph->value(inner).flags.user_output = leaves;
    if (!leaves) return;
    out_.outer_outputs.push_back(outer);
    results_.push_back(inner);
  }

  void keep_subgraph(const Graph* body) {
    for (const std::shared_ptr<Graph>& sub : all_.graph_.subgraphs)
      if (sub.get() == body) out_.graph->subgraphs.push_back(sub);
  }

  Extractor& all_;
  std::span<const NodeId> nodes_;
  std::span<const ValueId> given_outputs_;
  bool finds_outputs_ = false;
  Extracted out_;
  std::set<uint32_t> symbols_;  // positions
  std::vector<ValueId> constants_, results_;
  std::vector<std::pair<uint32_t, ValueId>> late_symbols_;  // with the outer value that shows them
};

Extractor::Extractor(const Graph& graph)
    : graph_(graph),
      users_(graph.users()),
      is_output_(graph.values().size()),
      piece_of_(graph.nodes().size()),
      known_since_(graph.values().size()),
      mapped_(graph.values().size()),
      groups_(graph.values().size()),
      tells_aliases_(tells_aliases(graph)),
      symbols_(graph) {
  for (ValueId v : graph.outputs())
    if (v != no_value) is_output_[v] = true;
  find_groups();
  // Whoever needs a symbol, if only to say what it reads, reads the value that shows it.
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    auto read = [&](uint32_t s) {
      ValueId v = graph.symbols[s].value;
      if (users_[v].empty() || users_[v].back() != n) users_[v].push_back(n);
    };
    symbols_.each_of(graph.node(n), read);
    Graph::for_each_use(graph.node(n), [&](ValueId v) { symbols_.each_of(graph.value(v), read); });
  }
}

// What shares memory through nodes of other pieces must be seen to do so in each. A recorded graph
// knows of each copy that it is none of what it may be a view of.
void Extractor::find_groups() {
  if (tells_aliases_) {
    for (ValueId v = 0; v < groups_.size(); ++v) groups_[v] = graph_.value(v).alias_group;
    return;
  }
  AliasClasses classes(graph_);
  std::vector<uint32_t> sizes(groups_.size());
  for (ValueId v = 0; v < sizes.size(); ++v) ++sizes[classes.of(v)];
  for (ValueId v = 0; v < sizes.size(); ++v)
    if (sizes[classes.of(v)] > 1) groups_[v] = classes.of(v) + 1;
}

bool Extractor::leaves(ValueId v) const {
  return is_output_[v] || std::any_of(users_[v].begin(), users_[v].end(),
                                      [&](NodeId user) { return piece_of_[user] != n_pieces_; });
}

Extracted Extractor::cut(std::span<const NodeId> nodes) {
  ++n_pieces_;
  return Piece(*this, nodes).run();
}

Extracted Extractor::cut(std::span<const NodeId> nodes, std::span<const ValueId> inputs,
                         std::span<const ValueId> outputs) {
  ++n_pieces_;
  return Piece(*this, nodes).run(inputs, outputs);
}

Extracted extract_nodes(const Graph& graph, std::span<const NodeId> nodes) {
  std::vector<bool> inside(graph.nodes().size(), false);
  for (NodeId n : nodes) {
    require(n < inside.size(), "extract: node id {} is out of range: the graph has {} nodes", n,
            inside.size());
    inside[n] = true;
  }
  NodeId blocked = 0;
  require(!Dependencies(graph).leaves_and_returns(inside, blocked),
          "extract: the nodes are not convex: node {} must wait for one that is not among them and "
          "in turn waits for some of them; add it, or extract fewer",
          blocked);
  std::vector<NodeId> ascending;
  for (NodeId n = 0; n < inside.size(); ++n)
    if (inside[n]) ascending.push_back(n);
  return Extractor(graph).cut(ascending);
}

}  // namespace tenon
