// Backends by name: listing, and who compiles under a name.
#include "backend/backend.h"

#include "backend/catalog.h"
#include "backend/compile/call_backend.h"
#include "backend/compile/declined.h"
#include "backend/compile/fallback.h"
#include "backend/compile/options.h"
#include "backend/find/trust.h"
#include "backend/life/load.h"
#include "config/config.h"
#include "config/flags.h"
#include "core/process_end.h"
#include "core/sym/sym_int.h"
#include "core/version.h"
#include "report/log.h"

#include <tenon/compile.h>
#include <tenon/devices.h>
#include <tenon/plugin.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace tenon {

namespace {

struct UserBackend {
  BackendInfo info;
  BackendFunction compile;
};

/// Leaked; the one registry of the process.
struct Registry {
  std::mutex making;  // guards all below
  std::map<std::string, UserBackend> user_backends;
};

Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

BackendInfo info_of(const FoundPlugin& plugin, const BackendManifest& b) {
  BackendInfo info;
  info.name = b.name;
  info.plugin = plugin.manifest.name;
  info.version = to_text(plugin.manifest.version);
  info.description = b.description;
  info.file = plugin.path;
  info.state = std::string(name_of(plugin.state));
  info.tags = b.tags;
  info.devices = b.devices;
  info.stages = b.stages;
  info.stage = b.stage == BackendStage::captured ? Stage::captured : Stage::inference;
  info.dynamic_shapes = b.dynamic_shapes;
  info.partitioner = b.aot.partitioner;
  info.decompositions = b.aot.decompositions;
  info.decomposition_ops = b.aot.decompose;
  info.kept_ops = b.aot.keep;
  info.keep_inference_input_mutations = b.aot.keep_inference_input_mutations;
  info.debug_assert = b.aot.debug_assert;
  info.fallback = b.fallback;
  info.makes_code = b.makes_code;
  return info;
}

BackendInfo host_eager_info() {
  BackendInfo info;
  info.name = "eager";
  info.plugin = "tenon";
  info.version = version;
  info.description = "runs the graph node by node in the host";
  info.state = "ready";
  info.tags = {"debug"};
  info.devices = {"*"};
  return info;
}

// Whether a file that cannot be used offers the backend, by its manifest or else by its name.
bool is_offered_by_broken(const std::string& name) {
  std::string bare = name.substr(name.find('/') + 1);
  std::vector<FoundPluginPtr> plugins = plugin_catalog().list();
  return std::any_of(plugins.begin(), plugins.end(), [&](const FoundPluginPtr& p) {
    bool named = p->manifest.find_backend(bare) || p->file_name() == "tenon_" + bare + ".so";
    return p->diagnosis && named;
  });
}

// A wrong name, or a right one whose plugin cannot be used.
[[noreturn]] void fail_unknown(const std::string& name) {
  std::string why, nearest = nearest_names(name, list_backends({}));
  for (const Diagnosis& d : plugin_catalog().why_missing(name)) why += "; " + to_text(d);
  if (is_offered_by_broken(name))
    throw BackendError(
        ErrorCode::plugin, TN_NOT_FOUND,
        message("backend '{}' cannot be used{}; the nearest are {}", name, why, nearest));
  throw UserError(ErrorCode::invalid_backend,
                  message("there is no backend '{}'; the nearest are {}{}", name, nearest, why));
}

}  // namespace

std::optional<Device> device_of(const Graph& graph) {
  for (const GraphValue& v : graph.values()) {
    DeviceType type = v.meta.device.type;
    bool is_there = type != DeviceType::cpu && type != DeviceType::meta;
    if (v.kind == ValueKind::tensor && v.meta.defined && is_there) return v.meta.device;
  }
  return std::nullopt;
}

std::string architecture_of(const Graph& graph) {
  std::optional<Device> device = device_of(graph);
  if (!device) return "";
  try {
    return device_properties(*device).arch;
  } catch (const Error&) {
    return "absent";
  }
}

std::string place_text(const CompileRequest& request) {
  constexpr std::string_view stages[] = {"captured", "forward", "backward", "inference",
                                         "single op"};
  std::string out = message("stage {}", stages[static_cast<size_t>(request.stage)]);
  if (request.graph && !request.graph->name.empty())
    out += message(", graph {}", request.graph->name);
  if (!request.compile_id.empty()) out += message(", compilation {}", request.compile_id);
  return out;
}

namespace {

BackendInfo info_of_name(const std::string& name, const Graph* graph) {
  {
    std::lock_guard lock(registry().making);
    auto user = registry().user_backends.find(name);
    if (user != registry().user_backends.end()) return user->second.info;
  }
  auto choice = graph ? choice_for(name, *graph) : plugin_catalog().find_backend(name, "");
  if (choice) return info_of(*choice->plugin, choice->manifest());
  if (name == "eager") return host_eager_info();
  fail_unknown(name);
}

}  // namespace

BackendInfo backend_info(const std::string& name) { return info_of_name(name, nullptr); }
BackendInfo backend_info(const std::string& name, const Graph& graph) {
  return info_of_name(name, &graph);
}

void check_backend_options(const std::string& backend, const std::string& mode,
                           const std::string& options_toml) {
  static_cast<void>(backend_info(backend));
  auto choice = plugin_catalog().find_backend(backend, "");
  if (!choice) return;
  CompileRequest request;
  request.mode = mode;
  request.options_toml = options_toml;
  static_cast<void>(resolve_options(choice->manifest(), request));
}

std::vector<BackendInfo> all_backends() {
  std::vector<BackendInfo> out;
  bool has_eager = false;
  for (const FoundPluginPtr& plugin : plugin_catalog().list()) {
    for (size_t i = 0; i < plugin->manifest.backends.size(); ++i) {
      if (!plugin->usable || !plugin->backend_shadowed_by[i].empty()) continue;
      out.push_back(info_of(*plugin, plugin->manifest.backends[i]));
      has_eager = has_eager || out.back().name == "eager";
    }
  }
  if (!has_eager) out.push_back(host_eager_info());
  std::lock_guard lock(registry().making);
  for (const auto& [name, backend] : registry().user_backends) out.push_back(backend.info);
  std::sort(out.begin(), out.end(),
            [](const BackendInfo& a, const BackendInfo& b) { return a.name < b.name; });
  return out;
}

std::shared_ptr<Artifact> compile_with_backend(const std::string& name,
                                               const CompileRequest& request) {
  // What it asks about sizes goes to its graph, also in the middle of a recording with other symbols.
  std::optional<ShapeEnvScope> sizes;
  if (request.graph->shape_env) sizes.emplace(*request.graph->shape_env);
  BackendFunction user;
  {
    std::lock_guard lock(registry().making);
    auto found = registry().user_backends.find(name);
    if (found != registry().user_backends.end()) user = found->second.compile;
  }
  if (user) return user(request);
  if (is_process_ending()) return interpreter_artifact(request.graph);
  std::optional<BackendChoice> choice = choice_for(name, *request.graph);
  if (!choice && name == "eager") return interpreter_artifact(request.graph);
  if (!choice) fail_unknown(name);
  try {
    return compile_with_plugin(*choice, request);
  } catch (const BackendError& e) {
    if (is_process_ending()) return interpreter_artifact(request.graph);
    if (!config::flags().dynamo.suppress_errors) throw;
    report::warn_once(message("{} {}", name, e.what()), "backend",
                      message("{}; the graph runs in the interpreter", e.what()));
    note_declined({name, "eager", e.what(), request.graph->nodes().size(), request.stage});
    return as_fallback(interpreter_artifact(request.graph), *request.graph);
  }
}

namespace {

std::optional<BackendChoice> loader_of(const std::string& name, const Graph& graph) {
  std::string device = device_type_of(graph);
  for (const FoundPluginPtr& plugin : plugin_catalog().list())
    for (size_t i = 0; plugin->usable && i < plugin->manifest.backends.size(); ++i) {
      const BackendManifest& b = plugin->manifest.backends[i];
      bool loads = std::find(b.loads.begin(), b.loads.end(), name) != b.loads.end();
      if (loads && b.serves(device)) return BackendChoice{plugin, i};
    }
  return choice_for(name, graph);
}

// Options are those of the backend that compiled; one that only loads knows some of them.
CompileRequest request_for_loader(const std::string& maker, const CompileRequest& request,
                                  const BackendManifest& loader) {
  CompileRequest out = request;
  if (maker == loader.name) return out;
  out.options_toml.clear();
  out.mode.clear();
  std::optional<BackendChoice> known = choice_for(maker, *request.graph);
  if (!known) return out;
  tn_options options = resolve_options(known->manifest(), request);
  for (const BackendOption& option : loader.options) {
    const BackendOption* same = known->manifest().find_option(option.name);
    if (same && options.values.at(same->name) != same->default_value)
      out.options_toml += message("{} = {}\n", same->name, to_text(options.values.at(same->name)));
  }
  return out;
}

}  // namespace

std::shared_ptr<Artifact> load_with_backend(const SavedArtifact& saved,
                                            const CompileRequest& request) {
  const std::string& name = saved.backend;
  std::optional<BackendChoice> choice = loader_of(name, *request.graph);
  if (!choice) {
    std::string why;
    for (const Diagnosis& d : plugin_catalog().why_missing(name)) why += "; " + to_text(d);
    throw BackendError(
        ErrorCode::plugin, TN_NOT_FOUND,
        message("code that backend {} compiled needs a plugin that runs it, and none "
                "is installed{}; `tenon backends --why` shows where plugins are "
                "looked for",
                name, why));
  }
  return load_with_plugin(*choice, request_for_loader(name, request, choice->manifest()), saved);
}

void check_trusted_code(const std::string& path, int descriptor) {
  TrustVerdict verdict = TrustCheck(trust_mode()).judge_opened(path, descriptor);
  auto told = [](const Diagnosis& d) {
    return d.hint.empty() ? d.reason : d.reason + "; " + d.hint;
  };
  if (verdict.refusal)
    throw BackendError(
        ErrorCode::plugin, TN_PERMISSION_DENIED,
        message("{}: holds machine code and is refused: {}", path, told(verdict.refusal)));
  for (const Diagnosis& d : verdict.warnings)
    report::warn_once(message("trust {} {}", path, d.reason), "backend",
                      message("{}: holds machine code, and {}", path, told(d)));
}

void register_backend(std::string name, BackendFunction compile, std::vector<std::string> tags,
                      Stage stage) {
  BackendInfo info = host_eager_info();
  info.name = name;
  info.plugin = "program";
  info.description = "registered by this program";
  info.tags = std::move(tags);
  info.stage = stage;
  register_backend(std::move(compile), std::move(info));
}

void register_backend(BackendFunction compile, BackendInfo info) {
  std::lock_guard lock(registry().making);
  std::string name = info.name;
  registry().user_backends[name] = {std::move(info), std::move(compile)};
}

std::vector<std::string> list_backends(const std::vector<std::string>& exclude_tags) {
  std::vector<std::string> out;
  for (const BackendInfo& b : all_backends()) {
    if (is_runtime(b)) continue;
    bool excluded = std::any_of(b.tags.begin(), b.tags.end(), [&](const std::string& tag) {
      return std::find(exclude_tags.begin(), exclude_tags.end(), tag) != exclude_tags.end();
    });
    // Plugins for different devices may offer one name; the list is sorted.
    if (!excluded && (out.empty() || out.back() != b.name)) out.push_back(b.name);
  }
  return out;
}

namespace {

// The options of every backend that a bare name means.
void declare_all_options() {
  for (const FoundPluginPtr& plugin : plugin_catalog().list())
    for (size_t i = 0; plugin->usable && i < plugin->manifest.backends.size(); ++i)
      if (plugin->backend_shadowed_by[i].empty()) declare_options(plugin->manifest.backends[i]);
  if (!plugin_catalog().find_backend("eager", "")) config::declare_options("eager", {});
}

const struct FillSlots {
  FillSlots() { config::declare_all_options_slot = &declare_all_options; }
} fill_slots;

}  // namespace

}  // namespace tenon
