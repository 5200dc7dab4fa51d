// Prices of storages: bytes alone, without the weights that stand for time.
#include "partition/storage_cost.h"

#include <algorithm>
#include <map>
#include <set>

namespace tenon::partition {

namespace {

constexpr int64_t scale = 1024;  ///< a value more or less never outweighs a byte

// Memory of its own has a number of its own.
int64_t storage_of(const WorkGraph& graph, JointId id) {
  int64_t storage = graph.node(id).storage;
  return storage >= 0 ? storage : -1 - static_cast<int64_t>(id);
}

std::set<int64_t> free_storages(const WorkGraph& graph) {
  std::set<int64_t> found;
  for (JointId id : graph.order())
    if (graph.is_forward_input(id)) found.insert(storage_of(graph, id));
  for (JointId id : graph.forward_outputs()) found.insert(storage_of(graph, id));
  return found;
}

}  // namespace

StorageCosts find_storage_costs(const WorkGraph& graph) {
  StorageCosts costs;
  costs.of_node.assign(graph.size(), StorageCosts::free);
  std::set<int64_t> is_free = free_storages(graph);
  std::map<int64_t, uint32_t> known;
  // Far beyond any memory, and small enough that the sum over all stays below 2^60.
  auto most = static_cast<int64_t>(0x1p59 / static_cast<double>(graph.size()));
  for (JointId id : graph.order()) {
    const JointNode& node = graph.node(id);
    int64_t storage = storage_of(graph, id);
    if (node.type != JointNode::Type::tensor || is_free.contains(storage)) continue;
    auto [at, is_new] = known.try_emplace(storage, static_cast<uint32_t>(costs.prices.size()));
    if (is_new) costs.prices.push_back(0);
    costs.of_node[id] = at->second;
    int64_t price = node.bytes > most / scale ? most : node.bytes * scale;
    costs.prices[at->second] = std::max(costs.prices[at->second], price);
  }
  return costs;
}

int64_t weight_beside_storage(const WorkGraph& graph, const CutFacts& facts,
                              const PartitionOptions& options, JointId id) {
  int64_t weight = weight_of(graph, facts, options, id);
  bool is_tensor = graph.node(id).type == JointNode::Type::tensor;
  return is_tensor && weight != NodeFacts::infinite ? 1 : weight;
}

int64_t bytes_by_storage(const WorkGraph& graph, std::span<const JointId> saved) {
  std::set<int64_t> is_free = free_storages(graph);
  std::map<int64_t, int64_t> bytes;
  for (JointId id : saved) {
    int64_t storage = storage_of(graph, id);
    if (graph.node(id).type != JointNode::Type::tensor || is_free.contains(storage)) continue;
    bytes[storage] = std::max(bytes[storage], graph.node(id).bytes);
  }
  int64_t sum = 0;
  for (const auto& [storage, size] : bytes) sum += size;
  return sum;
}

}  // namespace tenon::partition
