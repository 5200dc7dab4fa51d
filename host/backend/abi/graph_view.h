// The graph as plugins see it: dense ids, frozen structs and a table of functions over them.
#pragma once

#include "backend/abi/abi_args.h"
#include "graph/graph.h"

#include <tenon/plugin.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

/// What a tn_graph* points to. Built once for a compile, so that getters only index; expressions
/// may be added while it lives, under the lock.
struct tn_graph {
  explicit tn_graph(std::shared_ptr<const tenon::Graph> graph);
  tn_graph(const tn_graph&) = delete;

  uint32_t expr_id(const tenon::Expr* expr) const;
  const tenon::Expr* expr(uint32_t id) const;
  tn_dim dim(tenon::SymInt value) const;
  tn_dim dim(const tenon::Expr* expr) const;

  std::shared_ptr<const tenon::Graph> graph;
  std::vector<std::vector<tn_arg>> args;            // by node
  std::vector<std::vector<uint32_t>> users;         // by value
  std::vector<std::vector<tn_dim>> sizes, strides;  // by value
  std::vector<tn_dim> offsets;
  std::vector<std::string> value_names, node_names;
  std::vector<uint32_t> symbol_ids;
  std::deque<std::vector<tn_dim>> dim_lists;
  tenon::StringLists string_lists;
  std::deque<std::unique_ptr<tn_graph>> subgraphs;

  /// The plugin asked for the modes of nodes, or lets the host run the graph: see tenon/grad_mode.h.
  mutable std::atomic<bool> follows_modes = false;

  mutable std::mutex exprs_lock;  // guards the two below
  mutable std::deque<const tenon::Expr*> exprs;
  mutable std::unordered_map<const tenon::Expr*, uint32_t> expr_ids;
  mutable std::deque<std::vector<uint32_t>> operand_lists;

 private:
  void add_node(const tenon::Node& node);
  tn_arg convert(const tenon::Value& value);
  tn_arg convert_sizes(const tenon::Value& value);
};

namespace tenon {

/// TN_DIM_REAL, or 0 for an integer or a boolean.
uint32_t kind_flags(const Expr* expr);

/// By node: its own name, or one made of the op's, such as "add_3".
std::vector<std::string> names_of_nodes(const Graph& graph);

extern const tn_graph_api graph_api;
extern const tn_sym_api sym_api;

}  // namespace tenon
