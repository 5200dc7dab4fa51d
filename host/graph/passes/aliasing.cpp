// Alias classes by union-find, purity of ops, and the replacement of values in bulk.
#include "graph/passes/aliasing.h"

#include "graph/control_flow.h"
#include "ops/custom_op.h"
#include "ops/op_ids.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace tenon {

namespace {

bool shares_a_name(const AliasInfo& a, const AliasInfo& b) {
  auto contains = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const std::string& name : b.before)
    if (name == "*" || contains(a.before, name) || contains(a.after, name) ||
        contains(a.after, "*"))
      return true;
  return false;
}

}  // namespace

bool has_opaque_body(const Node& node) {
  return !is_control_flow(entry_of(node.op)) &&
         std::any_of(node.args.begin(), node.args.end(),
                     [](const Value& a) { return a.tag == Tag::graph; });
}

uint32_t AliasClasses::root(ValueId v) {
  while (class_[v] != v) v = class_[v] = class_[class_[v]];
  return v;
}

void AliasClasses::join(ValueId a, ValueId b) {
  uint32_t x = root(a), y = root(b);
  class_[std::max(x, y)] = std::min(x, y);
}

void AliasClasses::join_node(const Node& node) {
  const OpEntry& op = entry_of(node.op);
  if (is_control_flow(op)) return;
  bool all = has_opaque_body(node) || (op.tags & (TN_TAG_MAYBE_ALIAS | TN_TAG_HIGHER_ORDER));
  bool is_view = op.tags & TN_TAG_VIEW;
  for (uint32_t r = 0; r < node.n_results; ++r) {
    const AliasInfo& result = op.schema.returns[op.schema.returns_list() ? 0 : r].alias;
    for (size_t i = 0; i < node.args.size() && i < op.schema.args.size(); ++i)
      if (all || (is_view && i == 0) || shares_a_name(op.schema.args[i].alias, result))
        for_each_value(node.args[i], [&](ValueId v) { join(v, node.first_result + r); });
  }
}

void AliasClasses::note_facts(const Graph& graph) {
  facts_.resize(class_.size());
  for (ValueId v = 0; v < class_.size(); ++v) {
    const GraphValue& value = graph.value(v);
    facts_[class_[v]].external |= value.source != ValueSource::node;
    facts_[class_[v]].written |= value.flags.mutated;
  }
  for (ValueId v : graph.outputs())
    if (v != no_value) facts_[class_[v]].escapes = true;
  for (const Node& node : graph.nodes()) {
    uint64_t written = written_args(node);
    bool all = has_opaque_body(node);
    for (size_t i = 0; i < node.args.size(); ++i)
      if (all || (i < 64 && (written >> i & 1)))
        for_each_value(node.args[i], [&](ValueId v) { facts_[class_[v]].written = true; });
  }
}

AliasClasses::AliasClasses(const Graph& graph) : class_(graph.values().size()) {
  std::iota(class_.begin(), class_.end(), 0);
  std::unordered_map<uint32_t, ValueId> groups;
  for (ValueId v = 0; v < class_.size(); ++v)
    if (uint32_t group = graph.value(v).alias_group)
      join(groups.emplace(group, v).first->second, v);
  for (const Node& node : graph.nodes()) join_node(node);
  for (ValueId v = 0; v < class_.size(); ++v) class_[v] = root(v);
  note_facts(graph);
}

bool tells_aliases(const Graph& graph) {
  return std::ranges::any_of(graph.values(), [](const GraphValue& v) {
    return v.source == ValueSource::node && v.alias_group != 0;
  });
}

bool draws_numbers(const Node& node) {
  const OpEntry& op = entry_of(node.op);
  if ((op.tags & TN_TAG_RANDOM) || has_drawing_parts(op)) return true;
  return std::ranges::any_of(node.args, [](const Value& a) {
    return a.tag == Tag::graph && draws_numbers(*a.as<Graph>());
  });
}

bool draws_numbers(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return draws_numbers(node); });
}

bool is_pure(const Node& node) {
  const OpEntry& op = entry_of(node.op);
  constexpr uint64_t impure = TN_TAG_INPLACE | TN_TAG_DATA_DEPENDENT | TN_TAG_SIDE_EFFECT |
                              TN_TAG_HIGHER_ORDER | TN_TAG_NONDETERMINISTIC;
  return !(op.tags & impure) && written_args(node) == 0 && op.n_returns > 0 && !draws_numbers(node);
}

static bool is_check(const OpEntry& op) {
  return op.id == OpId::aten__assert_async_default || op.id == OpId::aten__assert_async_msg ||
         op.id == OpId::aten__assert_scalar_default;
}

static bool acts(const Node& node, bool checks) {
  const OpEntry& op = entry_of(node.op);
  return ((op.tags & TN_TAG_SIDE_EFFECT) && (checks || !is_check(op))) ||
         std::ranges::find(node.args, Tag::opaque, &Value::tag) != node.args.end();
}

bool has_side_effects(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return acts(node, /*checks=*/false) || std::ranges::any_of(node.args, [](const Value& a) {
             return a.tag == Tag::graph && has_side_effects(*a.as<Graph>());
           });
  });
}

bool has_effects(const Graph& graph, bool random, bool checks) {
  AliasClasses classes(graph);
  for (const Node& node : graph.nodes()) {
    if (acts(node, checks) || (random && draws_numbers(node))) return true;
    uint64_t written = written_args(node);
    for (size_t i = 0; i < node.args.size(); ++i) {
      const Value& arg = node.args[i];
      if (arg.tag == Tag::graph && has_effects(*arg.as<Graph>(), random, checks)) return true;
      bool writes_outside = false;
      if (i < 64 && (written >> i & 1))
        for_each_value(arg, [&](ValueId v) { writes_outside |= classes.is_external(v); });
      if (writes_outside) return true;
    }
  }
  return false;
}

bool same_meta(const GraphValue& a, const GraphValue& b) {
  if (a.kind != ValueKind::tensor || b.kind != ValueKind::tensor || !a.meta.defined ||
      !b.meta.defined)
    return false;
  auto same = [](const Dims& x, const Dims& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](SymInt p, SymInt q) { return p.word() == q.word(); });
  };
  return a.meta.dtype == b.meta.dtype && a.meta.device == b.meta.device &&
         same(a.meta.sizes, b.meta.sizes) && same(a.meta.strides, b.meta.strides) &&
         a.offset.word() == b.offset.word();
}

namespace {

// Gives `kept` and all aliases of `gone` one group.
void join_groups(Graph& graph, ValueId gone, ValueId kept) {
  uint32_t from = graph.value(gone).alias_group, to = graph.value(kept).alias_group;
  if (from == 0 || from == to) return;
  if (to == 0) {
    graph.value(kept).alias_group = from;
    return;
  }
  for (ValueId v = 0; v < graph.values().size(); ++v)
    if (graph.value(v).alias_group == from) graph.value(v).alias_group = to;
}

}  // namespace

void replace_values(Graph& graph, const std::vector<ValueId>& replacement) {
  auto final_value = [&](ValueId v) {
    while (v < replacement.size() && replacement[v] != no_value) v = replacement[v];
    return v;
  };
  for (ValueId v = 0; v < replacement.size(); ++v) {
    if (replacement[v] == no_value) continue;
    ValueId kept = final_value(v);
    join_groups(graph, v, kept);
    graph.value(kept).flags.user_output |= graph.value(v).flags.user_output;
    graph.value(kept).flags.saved |= graph.value(v).flags.saved;
  }
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    bool changed = false;
    Graph::for_each_use(graph.node(n), [&](ValueId v) { changed |= final_value(v) != v; });
    if (!changed) continue;
    std::vector<Value> args(graph.node(n).args.begin(), graph.node(n).args.end());
    ArgumentLists lists;
    map_arguments(args, lists, final_value, keep_numbers);
    graph.set_args(n, args);
  }
  std::vector<ValueId> outputs(graph.outputs().begin(), graph.outputs().end());
  for (ValueId& v : outputs) v = final_value(v);
  graph.set_outputs(std::move(outputs));
  for (SymbolBinding& binding : graph.symbols) binding.value = final_value(binding.value);
}

}  // namespace tenon
