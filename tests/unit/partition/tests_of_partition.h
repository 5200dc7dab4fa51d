// Joint graphs and partitions that were recorded from PyTorch, for the tests of the partitioner.
#pragma once

#include "formats/json.h"
#include "partition/partition.h"
#include "recordings/json_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <unordered_map>

namespace tenon::partition::tests {

struct RecordedGraph {
  explicit RecordedGraph(const std::string& path);

  JointId id(const std::string& name) const { return ids.at(name); }
  std::string name_of(JointId id) const { return graph.nodes[id].name; }
  std::vector<std::string> names(const std::vector<JointId>& list) const {
    std::vector<std::string> texts;
    for (JointId each : list) texts.push_back(each == no_node ? "-" : name_of(each));
    return texts;
  }
  formats::JsonView root() const { return document->view(); }
  /// The result of a configuration; of one that equals another one, that one's.
  formats::JsonView result(const std::string& configuration) const;

  std::unique_ptr<formats::JsonDocument> document;
  JointGraph graph;
  std::unordered_map<std::string, JointId> ids;
};

namespace detail {

inline std::string file_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The text of an argument, and the nodes in it.
inline std::string argument_text(formats::JsonView value, const RecordedGraph& graph,
                                 std::vector<JointId>& nodes) {
  if (value.is_array()) {
    std::string text = "[";
    for (formats::JsonView item : value.items()) text += argument_text(item, graph, nodes) + ",";
    return text + "]";
  }
  if (value.is_object()) {
    if (auto node = value.optional_field("node")) {
      nodes.push_back(graph.id(node->text()));
      return "%" + std::to_string(nodes.back());
    }
    std::string text = "{";
    for (auto [name, member] : value.members())
      text += std::string(name) + ":" + argument_text(member, graph, nodes) + ",";
    return text + "}";
  }
  return value.json().dump();
}

inline void read_value(formats::JsonView val, JointNode& node) {
  using Type = JointNode::Type;
  const std::string& kind = val.field("kind").text();
  if (kind == "tuple" || kind == "list") node.type = Type::tuple;
  if (kind == "none") node.type = Type::none;
  if (kind == "symint") {
    node.type = Type::sym_int;
    node.symbols.push_back(val.field("expr").text());
  }
  if (kind != "tensor") return;
  node.storage = val.field("storage").integer();
  auto sizes = val.optional_field("shape_hint");
  for (formats::JsonView size : (sizes ? *sizes : val.field("shape")).items())
    node.sizes.push_back(size.integer());
  for (formats::JsonView size : val.field("shape").items())
    if (size.is_text()) node.symbols.push_back(size.text());
}

inline JointNode::Recompute recompute_of(const std::string& text) {
  using R = JointNode::Recompute;
  static const std::map<std::string, R> names{{"MUST_SAVE", R::must_save},
                                              {"PREFER_SAVE", R::prefer_save},
                                              {"MUST_RECOMPUTE", R::must_recompute},
                                              {"PREFER_RECOMPUTE", R::prefer_recompute}};
  return names.at(text);
}

inline JointNode read_node(formats::JsonView entry, const RecordedGraph& graph) {
  JointNode node;
  node.name = entry.field("name").text();
  if (entry.field("op").text() == "placeholder") {
    node.kind =
        node.name.starts_with("tangents") ? JointNode::Kind::tangent : JointNode::Kind::primal;
  } else {
    node.target = entry.field("target").text();
  }
  if (auto tag = entry.optional_field("tag"))
    node.tag = tag->text() == "is_forward" ? JointNode::Tag::forward : JointNode::Tag::backward;
  if (auto tag = entry.optional_field("recompute")) {
    node.recompute = recompute_of(tag->text());
    node.region = 0;
  }
  if (auto val = entry.optional_field("val")) read_value(*val, node);
  if (auto bytes = entry.optional_field("size_of")) node.bytes = bytes->integer();
  if (auto args = entry.optional_field("args"))
    for (formats::JsonView argument : args->items()) {
      // Nodes that are arguments themselves come first in `inputs` only where no list comes before.
      bool direct = argument.is_object() && node.n_direct == node.inputs.size();
      node.arguments += argument_text(argument, graph, node.inputs) + ";";
      if (direct) node.n_direct = static_cast<uint32_t>(node.inputs.size());
    }
  if (auto kwargs = entry.optional_field("kwargs"))
    node.arguments += argument_text(*kwargs, graph, node.inputs);
  return node;
}

}  // namespace detail

inline RecordedGraph::RecordedGraph(const std::string& path) {
  document =
      std::make_unique<formats::JsonDocument>(formats::parse_json(detail::file_text(path), path));
  graph.name = root().field("name").text();
  for (formats::JsonView entry : root().field("joint_graph").items()) {
    if (entry.field("op").text() == "output") {
      for (formats::JsonView output : entry.field("args").items())
        graph.outputs.push_back(output.is_null() ? no_node : id(output.field("node").text()));
      continue;
    }
    ids[entry.field("name").text()] = static_cast<JointId>(graph.nodes.size());
    graph.nodes.push_back(detail::read_node(entry, *this));
  }
  graph.n_forward_outputs = static_cast<uint32_t>(root().field("num_fwd_outputs").integer());
  std::vector<JointId> primals;
  for (JointId id = 0; id < graph.nodes.size(); ++id)
    if (graph.nodes[id].kind == JointNode::Kind::primal) primals.push_back(id);
  for (formats::JsonView index : root().field("static_lifetime_input_indices").items())
    graph.static_inputs.push_back(primals.at(static_cast<size_t>(index.integer())));
}

inline formats::JsonView RecordedGraph::result(const std::string& configuration) const {
  formats::JsonView found = root().field("results").field(configuration);
  if (auto same = found.optional_field("same_as")) return result(same->text());
  return found;
}

/// One of the project's own recordings.
inline RecordedGraph own_graph(const std::string& name) {
  return RecordedGraph(own_recording("reference/partitioner/" + name + ".json"));
}

/// The files of all recordings at hand.
inline std::vector<std::string> recorded_graphs() {
  return files_in(reference_folder("partitioner"), ".json");
}

inline Partition cut_by(const RecordedGraph& recorded, const PartitionOptions& options) {
  return min_cut_partition(recorded.graph, options);
}

}  // namespace tenon::partition::tests
