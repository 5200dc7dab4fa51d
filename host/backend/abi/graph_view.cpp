// The graph view: conversion of nodes and values into the structs of the ABI, and their getters.
#include "backend/abi/graph_view.h"

#include "backend/abi/abi_args.h"
#include "backend/abi/status.h"
#include "core/sym/cost_hint.h"
#include "core/sym/sym_expr.h"
#include "graph/hash.h"
#include "graph/symbol_use.h"
#include "graph/text/dot.h"
#include "graph/text/print.h"
#include "ops/op_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

using namespace tenon;

std::vector<std::string> tenon::names_of_nodes(const Graph& graph) {
  std::vector<std::string> names;
  std::map<std::string, int> counts;
  for (const Node& node : graph.nodes()) {
    const Schema& schema = entry_of(node.op).schema;
    names.push_back(node.name.empty() ? schema.name + "_" + std::to_string(counts[schema.name]++)
                                      : node.name);
  }
  return names;
}

uint32_t tenon::kind_flags(const Expr* expr) {
  return expr->kind == ExprKind::real ? uint32_t{TN_DIM_REAL} : 0;
}

uint32_t tn_graph::expr_id(const Expr* expr) const {
  std::lock_guard lock(exprs_lock);
  auto [at, added] = expr_ids.emplace(expr, static_cast<uint32_t>(exprs.size()));
  if (added) exprs.push_back(expr);
  return at->second;
}

const Expr* tn_graph::expr(uint32_t id) const {
  std::lock_guard lock(exprs_lock);
  require(id < exprs.size(), "expression id {} is out of range: the graph has {}", id,
          exprs.size());
  return exprs[id];
}

tn_dim tn_graph::dim(SymInt value) const {
  if (!value.is_symbolic()) return {value.word(), TN_EXPR_STATIC, 0};
  return dim(value.expr());
}

tn_dim tn_graph::dim(const Expr* expr) const {
  std::optional<SymValue> hint =
      graph->shape_env ? cost_hint(*graph->shape_env, expr) : std::nullopt;
  uint32_t known = hint ? uint32_t{TN_DIM_HAS_HINT} : uint32_t{TN_DIM_UNBACKED};
  return {hint ? hint->word : 0, expr_id(expr), known | kind_flags(expr)};
}

tn_arg tn_graph::convert(const Value& v) {
  tn_arg a = empty_arg(v.count);
  switch (v.tag) {
    case Tag::ref:
      a.kind = TN_ARG_VALUE;
      a.u.value = static_cast<uint32_t>(v.payload);
      break;
    case Tag::refs:
      a.kind = TN_ARG_VALUES;
      a.u.values = v.as<ValueId>();
      break;
    case Tag::integer:
    case Tag::floating:
    case Tag::boolean: {
      Number n = v.number();
      if (!n.is_symbolic()) return plain_arg(v, string_lists);
      a.kind = n.is_integer()    ? uint32_t{TN_ARG_SYMINT}
               : n.is_floating() ? uint32_t{TN_ARG_SYMFLOAT}
                                 : uint32_t{TN_ARG_SYMBOOL};
      a.u.sym = dim(expression_of(n));
      break;
    }
    case Tag::ints:
      return convert_sizes(v);
    case Tag::graph:
      for (const auto& sub : graph->subgraphs)
        if (sub.get() == v.as<Graph>())
          a.u.graph = subgraphs.emplace_back(std::make_unique<tn_graph>(sub)).get();
      a.kind = TN_ARG_GRAPH;
      break;
    case Tag::opaque:
      a.kind = TN_ARG_OPAQUE;
      a.u.opaque = v.as<void>();
      break;
    default:
      return plain_arg(v, string_lists);
  }
  return a;
}

tn_arg tn_graph::convert_sizes(const Value& v) {
  SymIntList list(List<SymInt>(v.as<SymInt>(), v.count));
  if (!list.is_symbolic()) return plain_arg(v, string_lists);
  auto& dims = dim_lists.emplace_back();
  for (SymInt s : list) dims.push_back(dim(s));
  tn_arg a = empty_arg(v.count);
  a.kind = TN_ARG_SYMINTS;
  a.u.syms = dims.data();
  return a;
}

void tn_graph::add_node(const Node& node) {
  auto& list = args.emplace_back();
  for (const Value& v : node.args) list.push_back(convert(v));
}

tn_graph::tn_graph(std::shared_ptr<const Graph> g) : graph(std::move(g)), users(graph->users()) {
  for (const SymbolBinding& s : graph->symbols) symbol_ids.push_back(expr_id(s.symbol));
  node_names = names_of_nodes(*graph);
  for (const Node& node : graph->nodes()) add_node(node);
  for (ValueId v = 0; v < graph->values().size(); ++v) {
    const GraphValue& value = graph->value(v);
    auto &s = sizes.emplace_back(), &t = strides.emplace_back();
    for (SymInt d : value.meta.sizes) s.push_back(dim(d));
    for (SymInt d : value.meta.strides) t.push_back(dim(d));
    offsets.push_back(dim(value.offset));
    value_names.push_back(display_name(*graph, v));
  }
}

namespace {

void check_value(const tn_graph* g, uint32_t value) {
  require(value < g->graph->values().size(), "value id {} is out of range: the graph has {}", value,
          g->graph->values().size());
}
void check_node(const tn_graph* g, uint32_t node) {
  require(node < g->graph->nodes().size(), "node id {} is out of range: the graph has {}", node,
          g->graph->nodes().size());
}

// Copies at most as many bytes as the reader's struct has, and keeps its struct_size.
template <class T>
void fill(T* inout, T full) {
  uint32_t size = inout->struct_size;
  full.struct_size = size;
  std::memcpy(inout, &full, std::min<size_t>(size, sizeof full));
}

uint32_t flag_bits(const ValueFlags& f) {
  return (f.parameter ? TN_V_PARAMETER : 0) | (f.buffer ? TN_V_BUFFER : 0) |
         (f.static_address ? TN_V_STATIC_ADDRESS : 0) | (f.mutated ? TN_V_MUTATED : 0) |
         (f.requires_grad ? TN_V_REQUIRES_GRAD : 0) | (f.saved ? TN_V_SAVED : 0) |
         (f.tangent ? TN_V_TANGENT : 0) | (f.user_output ? TN_V_USER_OUTPUT : 0);
}

tn_status* node_info(const tn_graph* g, uint32_t id, tn_node_info* inout) {
  return guarded([&] {
    check_node(g, id);
    const Node& node = g->graph->node(id);
    const OpEntry& op = entry_of(node.op);
    tn_node_info info{};
    info.op = static_cast<uint32_t>(node.op);
    info.n_args = static_cast<uint32_t>(node.args.size());
    info.n_results = node.n_results;
    info.first_result = node.first_result;
    info.tags = op.tags;
    info.args = g->args[id].data();
    info.op_name = str_of(op.name);
    info.name = str_of(g->node_names[id]);
    info.module_path = str_of(node.module_path);
    info.source_file = str_of(node.where.file);
    info.source_function = str_of(node.where.function);
    info.source_line = node.where.line;
    info.seq_nr = node.seq_nr;
    fill(inout, info);
  });
}

// By the words of the strides: asking whether symbols are equal would add guards.
bool is_laid_out(const TensorMeta& meta, MemoryFormat format) {
  Dims wanted = strides_for(list_of(meta.sizes), format);
  for (size_t d = 0; d < wanted.size(); ++d)
    if (meta.sizes[d].word() != 1 && meta.strides[d].word() != wanted[d].word()) return false;
  return true;
}

// `preserve` where the elements lie in no order that has a name.
MemoryFormat memory_format_of(const TensorMeta& meta) {
  if (is_laid_out(meta, MemoryFormat::contiguous)) return MemoryFormat::contiguous;
  for (auto [rank, format] : {std::pair(size_t{4}, MemoryFormat::channels_last),
                              std::pair(size_t{5}, MemoryFormat::channels_last_3d)})
    if (meta.sizes.size() == rank && is_laid_out(meta, format)) return format;
  return MemoryFormat::preserve;
}

tn_status* value_info(const tn_graph* g, uint32_t id, tn_value_info* inout) {
  return guarded([&] {
    check_value(g, id);
    const GraphValue& v = g->graph->value(id);
    tn_value_info info{};
    info.kind = static_cast<uint32_t>(v.kind);
    info.source = static_cast<uint32_t>(v.source);
    info.source_index = v.source_index;
    info.result_index = v.result_index;
    info.flags = flag_bits(v.flags);
    info.dtype = static_cast<int32_t>(v.meta.dtype);
    info.device_type = static_cast<int32_t>(v.meta.device.type);
    info.device_index = v.meta.device.index;
    info.memory_format = static_cast<int32_t>(memory_format_of(v.meta));
    info.ndim = static_cast<int32_t>(v.meta.sizes.size());
    info.n_uses = static_cast<uint32_t>(g->users[id].size());
    info.expr = TN_EXPR_STATIC;
    bool is_number = v.kind != ValueKind::tensor && v.kind != ValueKind::none;
    if (is_number && v.scalar.is_symbolic()) info.expr = g->expr_id(expression_of(v.scalar));
    info.alias_group = v.alias_group;
    info.sizes = g->sizes[id].data();
    info.strides = g->strides[id].data();
    info.storage_offset = g->offsets[id];
    info.name = str_of(g->value_names[id]);
    fill(inout, info);
  });
}

tn_status* constant(const tn_graph* g, uint32_t id, tn_tensor** borrowed) {
  return guarded([&] {
    check_value(g, id);
    require(g->graph->value(id).source == ValueSource::constant, "value {} is not a constant", id);
    *borrowed = g->graph->constant(id).head();
  });
}

tn_str node_meta(const tn_graph* g, uint32_t node, tn_str key) {
  if (view_of(key) == "grad") g->follows_modes = true;
  if (node >= g->graph->nodes().size()) return {"", 0};
  const auto& facts = g->graph->node(node).facts;
  auto found = facts.find(std::string(view_of(key)));
  return found == facts.end() ? tn_str{"", 0} : str_of(found->second);
}

void write(const tn_sink* sink, std::string_view text) {
  sink->write(sink->ctx, text.data(), text.size());
}

tn_status* dump(const tn_graph* g, int32_t format, const tn_sink* sink) {
  return guarded([&] {
    switch (format) {
      case TN_DUMP_TEXT:
        return write(sink, to_text(*g->graph));
      case TN_DUMP_CANONICAL:
        return write(sink, canonical_text(*g->graph));
      case TN_DUMP_DOT:
        return write(sink, to_dot(*g->graph));
      default:
        fail(ErrorCode::unsupported, "dump format {} is not offered; use text, canonical or dot",
             format);
    }
  });
}

template <class T>
uint32_t give_list(const T& list, const uint32_t** out) {
  *out = list.data();
  return static_cast<uint32_t>(list.size());
}

}  // namespace

const tn_graph_api tenon::graph_api = {
    .struct_size = sizeof(tn_graph_api),
    .node_count = [](const tn_graph* g) { return static_cast<uint32_t>(g->graph->nodes().size()); },
    .value_count =
        [](const tn_graph* g) { return static_cast<uint32_t>(g->graph->values().size()); },
    .inputs = [](const tn_graph* g,
                 const uint32_t** out) { return give_list(g->graph->inputs(), out); },
    .outputs = [](const tn_graph* g,
                  const uint32_t** out) { return give_list(g->graph->outputs(), out); },
    .symbols = [](const tn_graph* g,
                  const uint32_t** out) { return give_list(g->symbol_ids, out); },
    .users =
        [](const tn_graph* g, uint32_t v, const uint32_t** out) {
          static const std::vector<uint32_t> none;
          return give_list(v < g->users.size() ? g->users[v] : none, out);
        },
    .node = node_info,
    .value = value_info,
    .constant = constant,
    .node_meta = node_meta,
    .hash =
        [](const tn_graph* g, uint8_t digest[32]) {
          return guarded([&] { std::memcpy(digest, hash_of(*g->graph).data(), 32); });
        },
    .dump = dump,
};
