// Floating-point operations of calls, by their packets.
#include "partition/runtime_estimate.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace tenon::partition {
namespace {

using Sizes = std::vector<int64_t>;

double product(const Sizes& sizes, size_t first = 0) {
  double all = 1;
  for (size_t i = first; i < sizes.size(); ++i) all *= static_cast<double>(sizes[i]);
  return all;
}

// 2 m n k over leading dimensions: all of `a` times the last of `b`.
double matmul_flops(const Sizes& a, const Sizes& b) {
  return b.empty() ? 1 : 2 * product(a) * static_cast<double>(b.back());
}

// Each element of the weight is used once for each image and place of the result. (Transposed: of
// the argument, which has the places then.)
double convolution_flops(const Sizes& weight, const Sizes& places) {
  return places.size() < 2
             ? 1
             : 2 * static_cast<double>(places[0]) * product(places, 2) * product(weight);
}

// Query times key, then scores times value.
double attention_flops(const Sizes& query, const Sizes& key, const Sizes& value) {
  if (query.size() < 2 || key.size() < 2 || value.empty()) return 1;
  double scores = product(query) * static_cast<double>(key[key.size() - 2]);
  double per_column = scores / static_cast<double>(std::max<int64_t>(query.back(), 1));
  return 2 * scores + 2 * per_column * static_cast<double>(value.back());
}

using Name = std::string_view;

/// A product of the matrices `left` and `left + 1` of a call's inputs.
struct Product {
  Name packet;
  size_t left;
};
// Mirrors the matrix products in PyTorch's flop counter (torch/utils/flop_counter.py).
constexpr Product products[] = {{"aten.mm", 0},
                                {"aten.bmm", 0},
                                {"aten._scaled_mm", 0},
                                {"aten.addmm", 1},
                                {"aten.baddbmm", 1}};

double counted(const WorkGraph& graph, JointId id) {
  const JointNode& node = graph.node(id);
  auto inputs = graph.inputs(id);
  auto sizes = [&](size_t i) -> const Sizes& { return graph.node(inputs[i]).sizes; };
  Name packet = packet_of(node.target);
  bool backward = packet.find("backward") != Name::npos;
  if (packet.find("attention") != Name::npos && !backward && inputs.size() >= 3)
    return attention_flops(sizes(0), sizes(1), sizes(2));
  if (packet.find("conv") != Name::npos && packet.starts_with("aten.") &&
      inputs.size() >= (backward ? 3 : 2))
    return backward ? 2 * convolution_flops(sizes(2), sizes(0))
                    : convolution_flops(sizes(1), node.sizes);
  auto product = std::ranges::find(products, packet, &Product::packet);
  if (product == std::end(products) || inputs.size() < product->left + 2) return 1;
  return matmul_flops(sizes(product->left), sizes(product->left + 1));
}

}  // namespace

double flops_of(const WorkGraph& graph, JointId id) { return std::max(counted(graph, id), 1.0); }

void check_runtime_estimator(const PartitionOptions& options) {
  const std::string& name = options.runtime_estimator;
  require(
      name == "flops" || name == "testing" || name == "profile",
      "activation_memory_budget_runtime_estimator: Not aware of runtime estimator: {}; known are "
      "flops, profile, testing",
      name);
  bool measures = name == "profile" && options.memory_budget > 0 && options.memory_budget < 1;
  require(!measures || options.profile,
          "activation_memory_budget_runtime_estimator: 'profile' needs a way to run single calls, "
          "which this compilation does not have; use 'flops'");
}

double estimate_runtime(const WorkGraph& graph, const PartitionOptions& options, JointId id) {
  if (options.runtime_estimator == "testing") return 1;
  if (options.runtime_estimator == "profile") return options.profile(graph.node(id));
  return flops_of(graph, id);
}

}  // namespace tenon::partition
