// Joint graphs that tests of the partitioner write by hand.
#pragma once

#include "core/error.h"
#include "partition/partition.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace tenon::partition::tests {

using Names = std::vector<std::string>;

/// Nodes by name; calls that read a tangent, or what follows one, are tagged as backward.
class SmallGraph {
 public:
  SmallGraph() { graph_.name = "small"; }

  SmallGraph& primal(const std::string& name, int64_t bytes = 1024) {
    return add(name, JointNode::Kind::primal, "", {}, bytes);
  }
  SmallGraph& parameter(const std::string& name, int64_t bytes = 1024) {
    primal(name, bytes);
    graph_.static_inputs.push_back(id(name));
    return *this;
  }
  SmallGraph& tangent(const std::string& name, int64_t bytes = 1024) {
    add(name, JointNode::Kind::tangent, "", {}, bytes);
    node(name).tag = JointNode::Tag::backward;
    return *this;
  }
  SmallGraph& call(const std::string& name, const std::string& target, const Names& inputs,
                   int64_t bytes = 1024) {
    add(name, JointNode::Kind::call, target, inputs, bytes);
    for (JointId input : node(name).inputs)
      if (graph_.nodes[input].tag != JointNode::Tag::forward &&
          graph_.nodes[input].tag != JointNode::Tag::must_be_in_forward)
        node(name).tag = JointNode::Tag::backward;
    return *this;
  }
  SmallGraph& tuple(const std::string& name, const std::string& target, const Names& inputs) {
    call(name, target, inputs, 2048);
    node(name).type = JointNode::Type::tuple;
    node(name).storage = -1;
    return *this;
  }
  SmallGraph& item(const std::string& name, const std::string& of, int index,
                   int64_t bytes = 1024) {
    call(name, "getitem", {of}, bytes);
    node(name).arguments += std::to_string(index);
    return *this;
  }
  SmallGraph& outputs(const Names& forward, const Names& gradients) {
    for (const Names* list : {&forward, &gradients})
      for (const std::string& name : *list)
        graph_.outputs.push_back(name == "-" ? no_node : id(name));
    graph_.n_forward_outputs = static_cast<uint32_t>(forward.size());
    return *this;
  }

  JointNode& node(const std::string& name) { return graph_.nodes[id(name)]; }
  JointId id(const std::string& name) const { return ids_.at(name); }
  const JointGraph& graph() const { return graph_; }
  Names names(const std::vector<JointId>& list) const {
    Names texts;
    for (JointId each : list) texts.push_back(each == no_node ? "-" : graph_.nodes[each].name);
    return texts;
  }
  Partition cut(const PartitionOptions& options = {}) const {
    return min_cut_partition(graph_, options);
  }
  Names saved(const PartitionOptions& options = {}) const { return names(cut(options).saved); }

 private:
  SmallGraph& add(const std::string& name, JointNode::Kind kind, const std::string& target,
                  const Names& inputs, int64_t bytes) {
    JointNode node;
    node.name = name;
    node.kind = kind;
    node.target = target;
    node.bytes = bytes;
    node.storage = static_cast<int64_t>(graph_.nodes.size());
    for (const std::string& input : inputs) {
      node.inputs.push_back(id(input));
      node.arguments += "%" + std::to_string(node.inputs.back()) + ",";
    }
    node.n_direct = static_cast<uint32_t>(inputs.size());
    ids_[name] = static_cast<JointId>(graph_.nodes.size());
    graph_.nodes.push_back(std::move(node));
    return *this;
  }

  JointGraph graph_;
  std::map<std::string, JointId> ids_;
};

inline bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace tenon::partition::tests
