// Why a node, or a whole graph, cannot be recorded.
//
// A recording repeats kernels on the device without the host: what reads or makes values on the CPU
// at each call, draws random numbers there, or lets values of the device decide what happens next,
// cannot be part of it. CPU tensors without dimensions are no obstacle: they are numbers, which the
// host brings to the device before the recording runs.
#pragma once

#include <tenon/plugin.hpp>

#include <functional>
#include <optional>
#include <string>

namespace recordings {

struct Skip {
  std::string reason;    ///< an id of tn_cuda_skip: "data_dependent"
  std::string sentence;  ///< "aten.nonzero.default gives a result whose size values decide"
  std::string node, source;
  uint32_t at = TN_NO_VALUE;  ///< the node
};

/// Where the values of a graph are.
enum class Place : uint8_t { number, device, host_number, host };
Place place_of(const tenon::plugin::value& v);

/// The device of the graph's first tensor on a GPU; nothing for graphs without one.
std::optional<int32_t> device_of(const tenon::plugin::graph& g);

/// Calls f(value) for each value that the node reads.
template <class F>
void for_each_operand(const tenon::plugin::node& n, F&& f) {
  for (const tn_arg& a : n.arguments()) {
    if (a.kind == TN_ARG_VALUE && a.u.value != TN_NO_VALUE) f(a.u.value);
    for (uint32_t k = 0; a.kind == TN_ARG_VALUES && k < a.count; ++k)
      if (a.u.values[k] != TN_NO_VALUE) f(a.u.values[k]);
  }
}

/// Whether the host can run the node before what is recorded: it reads and makes numbers only.
bool is_host_node(const tenon::plugin::graph& g, const tenon::plugin::node& n);

/// Whether the device itself makes the random numbers of a node.
using DrawsThere = std::function<bool(uint32_t node)>;

/// Why this node is not recorded; nothing where it is. Asked for nodes that are no host nodes.
std::optional<Skip> why_not(const tenon::plugin::graph& g, uint32_t node, int32_t device,
                            const DrawsThere& draws_there);

/// "net.cpp:12", or empty.
std::string source_of(const tenon::plugin::node& n);

}  // namespace recordings
