// Log lines about a cut.
#include "partition/log_cut.h"

#include "core/error.h"
#include "core/joined.h"
#include "report/log.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace tenon::partition {
namespace {

void log_text(const std::string& text) {
  report::log_line(report::LogLevel::info, "partition", text);
}

void log_saved(const WorkGraph& graph, const Partition& partition) {
  std::vector<JointId> by_size = partition.saved;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](JointId a, JointId b) { return graph.node(a).bytes > graph.node(b).bytes; });
  int64_t total = 0;
  std::string sizes;
  for (JointId id : by_size) {
    total += graph.node(id).bytes;
    sizes += message("\n  {} {}", graph.node(id).bytes, graph.node(id).name);
  }
  log_text(message("{}: saved values: {} bytes, {} of them besides the inputs{}",
                   graph.joint().name, total, activation_bytes(graph.joint(), partition), sizes));
}

// "name" -> "\"name\"" for names of our own graphs, which hold no other characters to escape.
std::string quoted(const std::string& text) { return '"' + text + '"'; }

template <class Each>
std::string json_list(size_t count, const Each& each) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + each(i);
  return text + "]";
}

}  // namespace

void log_cut(const WorkGraph& graph, const Partition& partition) {
  std::set<std::string> outside;
  for (JointId id : graph.order())
    if (!graph.is_input(id) && !(graph.classes(id) & class_recomputable))
      outside.insert(std::string(packet_of(graph.node(id).target)));
  log_text(message("{}: ops banned from recomputation: {}", graph.joint().name, joined(outside)));
  log_saved(graph, partition);
  std::map<std::string, int> counts;
  for (JointId id : partition.recomputed) ++counts[std::string(packet_of(graph.node(id).target))];
  std::string recomputed;
  for (const auto& [name, count] : counts) recomputed += message("\n  {} {}", count, name);
  log_text(message("{}: # remat/fw/bw: {}/{}/{}{}", graph.joint().name, partition.recomputed.size(),
                   partition.forward.size(), partition.backward.size(), recomputed));
}

std::string text_of(const WorkGraph& graph) {
  std::string text = graph.joint().name + "\n";
  for (JointId id : graph.order()) {
    text += message("%{} {} = {}(", id, graph.node(id).name,
                    graph.is_input(id) ? "input" : graph.node(id).target);
    for (JointId input : graph.inputs(id)) text += graph.node(input).name + ", ";
    text +=
        message(") {} bytes{}\n", graph.node(id).bytes, graph.of_backward(id) ? ", backward" : "");
  }
  return text;
}

void log_candidates(const WorkGraph& graph, const std::vector<JointId>& candidates,
                    const std::vector<KnapsackItem>& items, const std::vector<uint32_t>& kept,
                    double budget) {
  size_t n = candidates.size();
  log_text(message(
      "{{\"graph\": {}, \"budget\": {}, \"candidates\": {}, \"memories\": {}, \"runtimes\": {}, "
      "\"kept\": {}}}",
      quoted(graph.joint().name), budget,
      json_list(n, [&](size_t i) { return quoted(graph.node(candidates[i]).name); }),
      json_list(n, [&](size_t i) { return message("{}", items[i].memory); }),
      json_list(n, [&](size_t i) { return message("{}", items[i].runtime); }),
      json_list(kept.size(), [&](size_t i) { return message("{}", kept[i]); })));
}

}  // namespace tenon::partition
