// Verdicts: asked for, checked, limited by the manifest.
#include "backend/compile/verdicts.h"

#include "backend/abi/status.h"
#include "core/device/provider.h"
#include "core/joined.h"
#include "graph/passes/view_root.h"
#include "ops/op_table.h"

#include <algorithm>
#include <map>
#include <new>
#include <set>

namespace tenon {

namespace {

std::string listed(const std::vector<std::string>& names) { return "[" + joined(names) + "]"; }

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string device_problem(const BackendManifest& manifest, const Graph& graph, ValueId id) {
  const GraphValue& value = graph.value(id);
  if (value.kind != ValueKind::tensor) return "";
  std::string type = type_name(value.meta.device.type);
  if (manifest.serves(type)) return "";
  bool is_beside = manifest.takes_cpu_values && value.meta.device.type == DeviceType::cpu;
  if (is_beside && manifest.serves(type_name(device_of(graph).value_or(kCPU).type))) return "";
  return message("its manifest says devices = {}, %{} is on {}", listed(manifest.devices),
                 display_name(graph, id), type);
}

std::string dtype_problem(const BackendManifest& manifest, const Graph& graph, ValueId id) {
  const GraphValue& value = graph.value(id);
  bool any = manifest.dtypes.empty() || value.kind != ValueKind::tensor;
  if (any || has(manifest.dtypes, name_of(value.meta.dtype))) return "";
  return message("its manifest says dtypes = {}, %{} is {}", listed(manifest.dtypes),
                 display_name(graph, id), value.meta.dtype);
}

std::string stage_problem(const BackendManifest& manifest, Stage stage) {
  constexpr std::string_view names[] = {"captured", "forward", "backward", "inference",
                                        "single_op"};
  bool is_single = stage == Stage::single_op;
  bool any = !is_single && (manifest.stage == BackendStage::captured || stage == Stage::captured);
  std::string_view name = any ? "" : names[static_cast<size_t>(stage)];
  if (any || has(manifest.stages, name)) return "";
  return message("its manifest says stages = {}, the graph is a {}", listed(manifest.stages),
                 stage == Stage::inference ? "whole for inference" : name);
}

// The dtypes of what a node reads and gives.
std::string dtype_problem_of_node(const BackendManifest& manifest, const Graph& graph,
                                  const Node& node) {
  std::string problem;
  auto look = [&](ValueId id) {
    if (id != no_value && problem.empty()) problem = dtype_problem(manifest, graph, id);
  };
  Graph::for_each_use(node, look);
  for (uint32_t r = 0; r < node.n_results; ++r) look(node.first_result + r);
  return problem;
}

void limit_to_manifest(const BackendManifest& manifest, const Graph& graph, Verdicts& verdicts) {
  if (manifest.dtypes.empty()) return;
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    std::string problem = dtype_problem_of_node(manifest, graph, graph.node(n));
    if (problem.empty()) continue;
    verdicts.support[n] = Support::no;
    verdicts.reasons[n] = std::move(problem);
  }
}

/// What `judge` writes into.
struct Judged {
  tn_verdicts abi{};
  Verdicts& out;
  explicit Judged(std::vector<uint8_t>& bytes, Verdicts& v) : out(v) {
    abi.struct_size = sizeof abi;
    abi.n_nodes = static_cast<uint32_t>(bytes.size());
    abi.verdict = bytes.data();
    abi.group = v.groups.data();
    abi.host_data = this;
    abi.reason = [](tn_verdicts* self, uint32_t node, tn_str why) {
      auto& reasons = static_cast<Judged*>(self->host_data)->out.reasons;
      if (node >= reasons.size()) return;
      try {
        reasons[node] = std::string(view_of(why));
      } catch (const std::bad_alloc&) {  // must not leave through the plugin; the verdict counts
      }
    };
  }
};

const char* asked_of(const tn_backend& table) { return table.judge ? "judge" : "supports"; }

tn_status* ask(const PluginBackend& backend, AbiRequest& request, std::vector<uint8_t>& bytes,
               Verdicts& verdicts) {
  auto lock = backend.lock();
  const tn_backend& table = backend.table;
  std::string place = message("{} of backend {}", asked_of(table), backend.manifest.name);
  return call_plugin(backend.plugin.net, place, [&] {
    if (!table.judge) return table.supports(table.self, &request.abi, bytes.data());
    Judged judged(bytes, verdicts);
    return table.judge(table.self, &request.abi, &judged.abi);
  });
}

}  // namespace

std::string outside_of_manifest(const BackendManifest& manifest, const CompileRequest& request,
                                bool with_dtypes) {
  const Graph& graph = *request.graph;
  std::string problem = stage_problem(manifest, request.stage);
  for (ValueId id = 0; id < graph.values().size() && problem.empty(); ++id) {
    problem = device_problem(manifest, graph, id);
    if (problem.empty() && with_dtypes) problem = dtype_problem(manifest, graph, id);
  }
  return problem;
}

bool judges_nodes(const tn_backend& table) { return table.judge || table.supports; }

Verdicts verdicts_on(const PluginBackend& backend, AbiRequest& request) {
  const Graph& graph = *request.ctx.request->graph;
  const std::string& name = backend.manifest.name;
  const char* what = asked_of(backend.table);
  size_t n = graph.nodes().size();
  Verdicts out;
  out.support.resize(n);
  out.reasons.resize(n);
  out.groups.resize(n);
  std::vector<uint8_t> bytes(n, TN_NOT_SUPPORTED);
  tn_status* status = ask(backend, request, bytes, out);
  if (status && status->code == TN_DECLINED) {
    out.declined = status;
    return out;
  }
  if (status)
    throw_status(status, ErrorCode::backend_compiler_failed, message("backend {}: {}", name, what));
  for (size_t i = 0; i < n; ++i) {
    if (bytes[i] > TN_SUPPORTED_IF_FUSED)
      throw BackendError(
          ErrorCode::backend_compiler_failed, TN_INTERNAL,
          message(
              "backend {}: {} said {} of node {} ({}); expected 0 (no), 1 (yes) or 2 (if fused)",
              name, what, static_cast<int>(bytes[i]), i, name_of(graph.node(i).op)));
    out.support[i] = static_cast<Support>(bytes[i]);
  }
  limit_to_manifest(backend.manifest, graph, out);
  return out;
}

Verdicts verdicts_by_mode(const Graph& graph) {
  Verdicts out;
  out.groups.resize(graph.nodes().size());
  for (const Node& node : graph.nodes()) {
    bool is_on = is_grad_enabled_at(node, true);
    out.support.push_back(is_on ? Support::yes : Support::no);
    out.reasons.emplace_back(is_on ? ""
                                   : "gradients are off there, which its code does not follow");
  }
  return out;
}

namespace {

constexpr size_t no_piece = SIZE_MAX;

// By node: the region in which it is.
std::vector<size_t> region_of_nodes(const GraphPieces& cut, size_t n_nodes) {
  std::vector<size_t> out(n_nodes, no_piece);
  for (size_t p = 0; p < cut.pieces.size(); ++p)
    for (NodeId n : cut.pieces[p].nodes)
      if (cut.pieces[p].is_region) out[n] = p;
  return out;
}

// Leaves the groups that are not whole in one region; whether there were any.
bool leave_parted_groups(const GraphPieces& cut, Verdicts& verdicts) {
  std::vector<size_t> region = region_of_nodes(cut, verdicts.groups.size());
  std::map<uint32_t, size_t> place;
  std::set<uint32_t> parted;
  for (size_t n = 0; n < region.size(); ++n) {
    uint32_t group = verdicts.groups[n];
    if (group == 0) continue;
    auto [at, first] = place.try_emplace(group, region[n]);
    if (!first && at->second != region[n]) parted.insert(group);
  }
  for (size_t n = 0; n < region.size(); ++n) {
    if (!parted.contains(verdicts.groups[n])) continue;
    verdicts.support[n] = Support::no;
    if (verdicts.reasons[n].empty())
      verdicts.reasons[n] = "its group cannot be whole in one region";
  }
  return !parted.empty();
}

}  // namespace

GraphPieces cut_by(const Graph& graph, Verdicts& verdicts, size_t min_region_ops) {
  Dependencies dependencies(graph);
  for (;;) {
    GraphPieces cut = cut_into_regions(graph, dependencies, verdicts.support, min_region_ops);
    // Each round leaves a group for good, so that there is an end.
    if (!leave_parted_groups(cut, verdicts)) return cut;
    for (size_t n = 0; n < verdicts.groups.size(); ++n)
      if (verdicts.support[n] == Support::no) verdicts.groups[n] = 0;
  }
}

}  // namespace tenon
