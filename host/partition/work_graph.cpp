// Making a joint graph ready: dead calls, equal calls, edges as flat arrays.
//
// Merging keeps the first of equal calls: same op, same arguments after merging, as text (so that 1
// and 1.0 differ). Never merged are random ops, `empty`, numbers that depend on data, calls with
// effects, calls on both sides of one, and whatever shares memory with an output: the caller may
// write to one of two equal outputs.
#include "partition/work_graph.h"

#include "core/error.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tenon::partition {

WorkGraph::WorkGraph(const JointGraph& graph, bool merge_equal) : joint_(&graph) {
  check();
  outputs_ = graph.outputs;
  runs_once_.assign(size(), 0);
  stands_for_.resize(size());
  std::unordered_map<std::string_view, uint16_t> known;
  for (JointId id = 0; id < size(); ++id) {
    const JointNode& n = node(id);
    stands_for_[id] = id;
    recompute_.push_back(n.recompute);
    auto [entry, fresh] = known.try_emplace(n.target, uint16_t{0});
    if (fresh && !n.target.empty()) entry->second = classes_of(n.target);
    classes_.push_back(entry->second | (n.draws ? class_seeded | class_keep : 0));
  }
  drop_dead();
  if (merge_equal) merge_equal_calls();
  index_edges();
}

void WorkGraph::check() const {
  for (JointId id = 0; id < size(); ++id) {
    for (JointId input : node(id).inputs)
      ensure(input < id, message("joint graph: '{}' reads a node that comes later", node(id).name));
    ensure(node(id).n_direct <= node(id).inputs.size(), "joint graph: too many direct arguments");
  }
  for (JointId id : joint_->outputs)
    ensure(id == no_node || id < size(), "joint graph: an output is not a node");
  ensure(joint_->n_forward_outputs <= joint_->outputs.size(), "joint graph: outputs are missing");
}

std::span<const JointId> WorkGraph::forward_outputs() const {
  return std::span(outputs_).first(joint_->n_forward_outputs);
}
std::span<const JointId> WorkGraph::gradients() const {
  return std::span(outputs_).subspan(joint_->n_forward_outputs);
}

void WorkGraph::drop_dead() {
  live_.assign(size(), 0);
  for (JointId id : outputs_)
    if (id != no_node) live_[id] = 1;
  for (JointId id = static_cast<JointId>(size()); id-- > 0;) {
    if (is_input(id) || node(id).effect || node(id).draws) live_[id] = 1;
    if (live_[id])
      for (JointId input : node(id).inputs) live_[input] = 1;
  }
}

namespace {

// The arguments with the ids taken out: those after merging are compared as numbers.
std::string text_without_ids(const JointNode& node) {
  std::string text;
  size_t next = 0;
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    text += node.arguments[i];
    if (node.arguments[i] != '%' || next == node.inputs.size()) continue;
    std::string id = std::to_string(node.inputs[next]);
    if (node.arguments.compare(i + 1, id.size(), id) != 0) continue;
    i += id.size();
    ++next;
  }
  return text;
}

}  // namespace

void WorkGraph::merge_equal_calls() {
  std::unordered_set<int64_t> output_storages;
  std::vector<char> given(size(), 0);
  for (JointId id : outputs_)
    if (id != no_node) {
      given[id] = 1;
      if (node(id).storage >= 0) output_storages.insert(node(id).storage);
    }
  std::unordered_map<std::string, JointId> seen;
  uint64_t region = 0;  // a call with effects ends one
  for (JointId id = 0; id < size(); ++id) {
    const JointNode& n = node(id);
    if (!live_[id]) continue;
    region += n.effect;
    bool number_of_data = is_number(id) && (classes_[id] & class_data_number);
    bool aliases_output = n.storage >= 0 ? output_storages.count(n.storage) != 0
                                         : given[id] && n.type == JointNode::Type::tensor;
    if (is_input(id) || n.effect || n.binds_symbol || (classes_[id] & class_keep) ||
        number_of_data || aliases_output)
      continue;
    std::string key = n.target + '\n' + std::to_string(region) + '\n' + text_without_ids(n);
    if (n.tag == JointNode::Tag::must_be_in_forward) key += "\nf";
    if (n.tag == JointNode::Tag::must_be_in_backward) key += "\nb";
    for (JointId input : n.inputs) key += '\n' + std::to_string(stands_for_[input]);
    auto [entry, fresh] = seen.try_emplace(std::move(key), id);
    if (fresh) continue;
    stands_for_[id] = entry->second;
    live_[id] = 0;
  }
  for (JointId& id : outputs_)
    if (id != no_node) id = stands_for_[id];
}

void WorkGraph::index_edges() {
  for (JointId id = 0; id < size(); ++id)
    if (live_[id]) order_.push_back(id);
  first_input_.assign(1, 0);
  first_user_.assign(size() + 1, 0);
  std::vector<JointId> last(size(), no_node);  // the last user that was counted
  for (JointId id = 0; id < size(); ++id) {
    if (live_[id])
      for (JointId input : node(id).inputs) {
        inputs_.push_back(stands_for_[input]);
        if (std::exchange(last[inputs_.back()], id) != id) ++first_user_[inputs_.back() + 1];
      }
    first_input_.push_back(static_cast<uint32_t>(inputs_.size()));
  }
  for (size_t i = 0; i < size(); ++i) first_user_[i + 1] += first_user_[i];
  users_.resize(first_user_.back());
  std::vector<uint32_t> at(first_user_.begin(), first_user_.end() - 1);
  last.assign(size(), no_node);
  for (JointId id : order_)
    for (JointId input : inputs(id))
      if (std::exchange(last[input], id) != id) users_[at[input]++] = id;
  is_output_.assign(size(), 0);
  for (JointId id : outputs_)
    if (id != no_node) is_output_[id] = 1;
}

}  // namespace tenon::partition
