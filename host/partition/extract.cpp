// Extracting the halves of a joint graph once the saved values are known.
//
// A call is valid in a half when it may run there and all its arguments are valid; the arguments of
// the half are valid by themselves, other inputs of the graph are not. Of the valid calls only
// those that results or effects need are kept.
#include "partition/extract.h"

#include "core/error.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace tenon::partition {
namespace {

using Kind = JointNode::Kind;

bool of_half(const WorkGraph& graph, JointId id, Half half) {
  return graph.of_backward(id) == (half == Half::backward);
}

std::vector<char> valid_nodes(const WorkGraph& graph, const std::vector<char>& given, Half half) {
  std::vector<char> valid = given;
  for (JointId id : graph.order()) {
    if (given[id] || graph.is_input(id)) continue;
    if (graph.runs_once(id) && !of_half(graph, id, half)) continue;
    auto inputs = graph.inputs(id);
    valid[id] =
        std::all_of(inputs.begin(), inputs.end(), [&](JointId input) { return valid[input] != 0; });
  }
  return valid;
}

// A result that is a write made in the other half stands for the value that is written to.
JointId result_in_half(const WorkGraph& graph, const std::vector<char>& valid, JointId id) {
  JointId at = id;
  while (!valid[at]) {
    bool write = (graph.classes(at) & class_copy) != 0;
    ensure(
        (write || graph.is_view(at)) && !graph.inputs(at).empty(),
        message("partition: '{}' is a result of one half, but cannot be computed there; its tags "
                "contradict its arguments",
                graph.node(id).name));
    at = graph.inputs(at)[0];
  }
  return at;
}

}  // namespace

ExtractedHalf extract(const WorkGraph& graph, std::span<const JointId> inputs,
                      std::span<const JointId> outputs, Half half) {
  std::vector<char> given(graph.size(), 0);
  for (JointId id : inputs) given[id] = 1;
  const std::vector<char> valid = valid_nodes(graph, given, half);
  ExtractedHalf result;
  result.used.assign(graph.size(), 0);
  for (JointId id : outputs) {
    result.outputs.push_back(id == no_node ? no_node : result_in_half(graph, valid, id));
    if (id != no_node) result.used[result.outputs.back()] = 1;
  }
  for (size_t i = graph.order().size(); i-- > 0;) {
    JointId id = graph.order()[i];
    if (given[id] || !valid[id]) continue;
    const JointNode& node = graph.node(id);
    bool acts = (node.effect || node.draws) && of_half(graph, id, half);
    if (!result.used[id] && !acts) continue;
    result.calls.push_back(id);
    for (JointId input : graph.inputs(id)) result.used[input] = 1;
  }
  std::reverse(result.calls.begin(), result.calls.end());
  return result;
}

namespace {

std::vector<JointId> inputs_of_kind(const WorkGraph& graph, Kind first, Kind second) {
  std::vector<JointId> ids;
  for (Kind kind : {first, second})
    for (JointId id : graph.order())
      if (graph.node(id).kind == kind) ids.push_back(id);
  return ids;
}

std::vector<JointId> concatenated(std::initializer_list<std::span<const JointId>> lists) {
  std::vector<JointId> all;
  for (std::span<const JointId> list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

void sort_into_kinds(const WorkGraph& graph, std::span<const JointId> saved, Partition& partition) {
  for (JointId id : saved) {
    if (graph.is_number(id))
      partition.saved_symbols.push_back(id);
    else if (graph.node(id).type == JointNode::Type::opaque)
      partition.saved_opaque.push_back(id);
    else
      partition.saved.push_back(id);
  }
}

// The nodes that name symbols of what the backward gets come first, then the other numbers.
void bind_symbols(const WorkGraph& graph, std::span<const JointId> tangents, Partition& partition) {
  std::vector<JointId> bindings, derived;
  std::set<std::string> bound;
  for (JointId id : partition.saved_symbols) {
    const std::string& symbol = graph.node(id).binds;
    (symbol.empty() ? derived : bindings).push_back(id);
    if (!symbol.empty()) bound.insert(symbol);
  }
  for (JointId id : concatenated({derived, partition.saved, tangents})) {
    std::vector<std::string> symbols = graph.node(id).symbols;
    std::sort(symbols.begin(), symbols.end());
    for (const std::string& symbol : symbols) {
      if (!bound.insert(symbol).second) continue;
      auto binder = std::find_if(graph.order().begin(), graph.order().end(),
                                 [&](JointId n) { return graph.node(n).binds == symbol; });
      if (binder != graph.order().end()) bindings.push_back(*binder);
    }
  }
  partition.saved_symbols = concatenated({bindings, derived});
}

// Results of a tuple are read right behind it, so that the rest of it can be freed.
void read_tuples_early(const WorkGraph& graph, std::vector<JointId>& calls) {
  std::vector<char> here(graph.size(), 0), placed(graph.size(), 0);
  for (JointId id : calls) here[id] = 1;
  std::vector<JointId> ordered;
  auto place = [&](auto& self, JointId id) -> void {
    if (placed[id]) return;
    placed[id] = 1;
    ordered.push_back(id);
    for (JointId user : graph.users(id))
      if (here[user] && (graph.classes(user) & class_getitem)) self(self, user);
  };
  for (JointId id : calls) place(place, id);
  calls = std::move(ordered);
}

}  // namespace

void split_at(const WorkGraph& graph, std::span<const JointId> saved, bool reorder,
              Partition& partition) {
  const std::vector<JointId> arguments = inputs_of_kind(graph, Kind::primal, Kind::forward_seed);
  const std::vector<JointId> arriving = inputs_of_kind(graph, Kind::tangent, Kind::backward_seed);
  std::vector<JointId> read(saved.begin(), saved.end());
  const std::vector<char> used =
      extract(graph, concatenated({read, arriving}), graph.gradients(), Half::backward).used;
  std::erase_if(read, [&](JointId id) { return !used[id]; });
  sort_into_kinds(graph, read, partition);
  bind_symbols(graph, arriving, partition);

  read = concatenated({partition.saved_symbols, partition.saved, partition.saved_opaque});
  const auto user_outputs = graph.forward_outputs();
  ExtractedHalf forward =
      extract(graph, arguments, concatenated({user_outputs, read}), Half::forward);
  ExtractedHalf backward =
      extract(graph, concatenated({read, arriving}), graph.gradients(), Half::backward);
  forward.outputs.resize(user_outputs.size());
  partition.forward_outputs = std::move(forward.outputs);
  partition.gradients = std::move(backward.outputs);
  partition.forward = std::move(forward.calls);
  partition.backward = reorder ? order_of_gradients(graph, backward.calls, partition.gradients)
                               : std::move(backward.calls);
  read_tuples_early(graph, partition.forward);
  read_tuples_early(graph, partition.backward);
  partition.stands_for = graph.stands_for();

  std::vector<char> in_backward(graph.size(), 0);
  for (JointId id : partition.backward) in_backward[id] = 1;
  for (JointId id : partition.forward)
    if (in_backward[id]) partition.recomputed.push_back(id);
}

namespace {

// Emits calls with what they need, in their old order.
class OnDemand {
 public:
  OnDemand(const WorkGraph& graph, const std::vector<JointId>& calls)
      : graph_(graph), rank_(graph.size(), not_here), placed_(graph.size(), 0) {
    for (size_t i = 0; i < calls.size(); ++i) rank_[calls[i]] = i;
  }

  void place(JointId target) {
    needed_.clear();
    open_.assign(1, target);
    while (!open_.empty()) {
      JointId id = open_.back();
      open_.pop_back();
      if (rank_[id] == not_here || std::exchange(placed_[id], 1)) continue;
      needed_.push_back(id);
      for (JointId input : graph_.inputs(id)) open_.push_back(input);
    }
    std::sort(needed_.begin(), needed_.end(),
              [&](JointId a, JointId b) { return rank_[a] < rank_[b]; });
    ordered_.insert(ordered_.end(), needed_.begin(), needed_.end());
  }

  std::vector<JointId> take() { return std::move(ordered_); }

 private:
  static constexpr size_t not_here = SIZE_MAX;
  const WorkGraph& graph_;
  std::vector<size_t> rank_;
  std::vector<char> placed_;
  std::vector<JointId> ordered_, open_, needed_;
};

}  // namespace

std::vector<JointId> order_of_gradients(const WorkGraph& graph, const std::vector<JointId>& calls,
                                        std::span<const JointId> results) {
  auto reads_tangent = [&](JointId id) {
    auto inputs = graph.inputs(id);
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](JointId input) { return graph.node(input).kind == Kind::tangent; });
  };
  const auto first = std::find_if(calls.begin(), calls.end(), reads_tangent);
  OnDemand emitter(graph, calls);
  for (auto at = calls.begin(); at != first; ++at) {
    const JointNode& node = graph.node(*at);
    if (node.effect || node.draws || (graph.classes(*at) & class_copy)) emitter.place(*at);
  }
  for (auto at = first; at != calls.end(); ++at) emitter.place(*at);
  // What no tangent leads to but a result needs.
  std::vector<JointId> rest(results.begin(), results.end());
  std::erase(rest, no_node);
  std::sort(rest.begin(), rest.end());
  for (JointId id : rest) emitter.place(id);
  return emitter.take();
}

}  // namespace tenon::partition
