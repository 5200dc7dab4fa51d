// What stands against recording a node, the first reason that holds.
#include "skips.h"

namespace recordings {

using tenon::plugin::graph;
using tenon::plugin::node;
using tenon::plugin::sv;
using tenon::plugin::text;
using tenon::plugin::value;

Place place_of(const value& v) {
  if (!v.is_tensor()) return Place::number;
  if (v.device_type == TN_DEV_CUDA) return Place::device;
  return v.device_type == TN_DEV_CPU && v.ndim == 0 ? Place::host_number : Place::host;
}

std::optional<int32_t> device_of(const graph& g) {
  for (uint32_t id = 0; id < g.values(); ++id) {
    value v = g.value_at(id);
    if (place_of(v) == Place::device) return std::max(v.device_index, 0);
  }
  return std::nullopt;
}

std::string source_of(const node& n) {
  std::string_view file = sv(n.source_file);
  if (file.empty()) return "";
  return text("{}:{}", file.substr(file.rfind('/') + 1), n.source_line);
}

namespace {

template <class F>
void for_each_result(const node& n, F&& f) {
  for (uint32_t r = 0; r < n.n_results; ++r) f(n.first_result + r);
}

/// What a node reads and makes.
struct Traffic {
  bool reads_device = false, reads_host = false, makes_device = false, makes_host = false,
       makes_host_number = false, is_sparse = false, is_unbacked = false, is_elsewhere = false;
};

bool is_unbacked(const value& v) {
  return std::ranges::any_of(v.dims(), [](const tn_dim& d) { return d.flags & TN_DIM_UNBACKED; });
}

Traffic traffic_of(const graph& g, const node& n, int32_t device) {
  Traffic out;
  auto look = [&](uint32_t id, bool& on_device, bool& on_host) {
    value v = g.value_at(id);
    Place place = place_of(v);
    on_device |= place == Place::device;
    on_host |= place == Place::host;
    out.is_elsewhere |= place == Place::device && std::max(v.device_index, 0) != device;
    out.is_sparse |= v.is_tensor() && v.layout != TN_LAYOUT_STRIDED;
    out.is_unbacked |= is_unbacked(v);
  };
  for_each_operand(n, [&](uint32_t id) { look(id, out.reads_device, out.reads_host); });
  for_each_result(n, [&](uint32_t id) {
    look(id, out.makes_device, out.makes_host);
    out.makes_host_number |= place_of(g.value_at(id)) == Place::host_number;
  });
  return out;
}

bool has_argument(const node& n, uint32_t kind) {
  return std::ranges::any_of(n.arguments(), [&](const tn_arg& a) { return a.kind == kind; });
}

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view b) { return op.starts_with(b); });
}

// Mirrors what PyTorch's inductor looks for in a graph (get_first_incompatible_cudagraph_node in
// torch/_inductor/utils.py), op by op, and what this host has besides.

// A mask says by its values how many elements are meant.
bool puts_by_mask(const graph& g, const node& n) {
  if (!is_one_of(sv(n.op_name), {"aten.index_put", "aten._unsafe_index_put", "aten.index."}))
    return false;
  bool found = false;
  for (const tn_arg& a : n.arguments())
    for (uint32_t k = 0; a.kind == TN_ARG_VALUES && k < a.count; ++k)
      found |= a.u.values[k] != TN_NO_VALUE && g.value_at(a.u.values[k]).dtype == TN_BOOL;
  return found;
}

Skip skip(std::string_view reason, const node& n, uint32_t at, std::string_view what) {
  return {std::string(reason), text("{} {}", sv(n.op_name), what), std::string(sv(n.name)),
          source_of(n), at};
}

// What the op itself says, wherever its operands are.
const char* unsafe_because(const node& n, uint32_t at, const DrawsThere& draws_there) {
  std::string_view op = sv(n.op_name);
  if (op.starts_with("tenon.host_call") || has_argument(n, TN_ARG_OPAQUE))
    return "calls back into the program";
  if (op.starts_with("tenon.philox_"))
    return "draws with a state of the generator that it is given";
  if ((n.tags & TN_TAG_RANDOM) && !draws_there(at)) return "draws random numbers on the CPU";
  bool only_asks = is_one_of(op, {"aten._assert_tensor_metadata", "aten._assert_scalar"});
  if ((n.tags & TN_TAG_SIDE_EFFECT) && !only_asks) return "has effects besides its results";
  return nullptr;
}

const char* data_decides(const graph& g, const node& n, const Traffic& traffic) {
  std::string_view op = sv(n.op_name);
  if (op.starts_with("aten._assert_async")) return "looks at a value and may fail";
  if ((n.tags & TN_TAG_HIGHER_ORDER) || has_argument(n, TN_ARG_GRAPH))
    return "has bodies, and the host decides which of them run";
  if (puts_by_mask(g, n)) return "takes a mask, whose values decide how many elements are meant";
  if (traffic.is_unbacked) return "has an operand or result whose size values decide";
  if (n.tags & TN_TAG_DATA_DEPENDENT) return "gives what values decide";
  return nullptr;
}

}  // namespace

bool is_host_node(const graph& g, const node& n) {
  bool reads_numbers = true, makes_numbers = n.n_results > 0;
  auto is_number = [&](uint32_t id) {
    Place place = place_of(g.value_at(id));
    return place == Place::number || place == Place::host_number;
  };
  for_each_operand(n, [&](uint32_t id) { reads_numbers &= is_number(id); });
  for_each_result(n, [&](uint32_t id) { makes_numbers &= is_number(id); });
  bool is_plain = !has_argument(n, TN_ARG_GRAPH) && !has_argument(n, TN_ARG_OPAQUE);
  return reads_numbers && makes_numbers && is_plain;
}

std::optional<Skip> why_not(const graph& g, uint32_t at, int32_t device,
                            const DrawsThere& draws_there) {
  node n = g.at(at);
  Traffic traffic = traffic_of(g, n, device);
  std::string_view op = sv(n.op_name);
  if (const char* why = data_decides(g, n, traffic)) return skip("data_dependent", n, at, why);
  if (traffic.is_sparse) return skip("sparse", n, at, "has a sparse operand or result");
  if (is_one_of(op, {"aten.set_.", "aten.resize_.", "aten.resize_as_.", "aten.set_data"}))
    return skip("input_storage_mutation", n, at, "replaces the memory of a tensor");
  if (const char* why = unsafe_because(n, at, draws_there)) return skip("unsafe_op", n, at, why);
  if (traffic.reads_host) return skip("cpu_node", n, at, "reads a tensor that is on the CPU");
  if (traffic.makes_host) return skip("cpu_node", n, at, "makes a tensor on the CPU");
  if (traffic.makes_host_number)
    return skip("cpu_node", n, at, "brings a value of the device to the CPU");
  if (traffic.is_elsewhere)
    return skip("multiple_devices", n, at, text("is on another device than cuda:{}", device));
  return std::nullopt;
}

}  // namespace recordings
