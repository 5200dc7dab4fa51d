// Backends by name: the catalog of the process, compiling through plugins, fallback.
#include "backend/registry.h"

#include "backend/abi_request.h"
#include "backend/backend.h"
#include "backend/bridge.h"
#include "backend/declined.h"
#include "backend/load.h"
#include "backend/options.h"
#include "backend/status.h"
#include "config/config.h"
#include "config/flags.h"
#include "report/events.h"
#include "report/log.h"

#include <tenon/compile.h>

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
  std::vector<std::string> files, folders;
  std::unique_ptr<PluginCatalog> catalog;
  std::map<std::string, UserBackend> user_backends;
};

Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

TrustMode trust_mode() {
  Choice mode = config::flags().plugins.trust;
  return mode == "strict" ? TrustMode::strict : mode == "off" ? TrustMode::off : TrustMode::owner;
}

}  // namespace

PluginCatalog& plugin_catalog() {
  Registry& r = registry();
  std::lock_guard lock(r.making);
  if (r.catalog) return *r.catalog;
  SearchSettings settings;
  settings.files = r.files;
  settings.option_path = r.folders;
  settings.environment = plugin_path_variable();
  settings.config_path = config::flags().plugins.path;
  settings.install_dir = plugin_install_dir();
  settings.secure = process_is_secure();
  settings.trust = trust_mode();
  r.catalog = std::make_unique<PluginCatalog>(std::move(settings));
  return *r.catalog;
}

namespace {

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
  info.keep_inference_input_mutations = b.aot.keep_inference_input_mutations;
  info.fallback = b.fallback;
  return info;
}

BackendInfo host_eager_info() {
  BackendInfo info;
  info.name = "eager";
  info.plugin = "tenon";
  info.version = "0.1.0";
  info.description = "runs the graph node by node in the host";
  info.state = "ready";
  info.tags = {"debug"};
  info.devices = {"*"};
  return info;
}

// ---- artifacts of plugins

class PluginArtifact final : public Artifact {
 public:
  PluginArtifact(tn_artifact* artifact, std::string backend)
      : artifact_(artifact), backend_(std::move(backend)) {}
  ~PluginArtifact() override { artifact_->api->destroy(artifact_); }

  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    constexpr size_t inline_outputs = 24;
    tn_tensor* local[inline_outputs] = {};
    std::vector<tn_tensor*> more(outputs.size() > inline_outputs ? outputs.size() : 0);
    tn_tensor** out = more.empty() ? local : more.data();
    tn_call call{};
    call.struct_size = sizeof call;
    bool may_steal = steal && (artifact_->api->flags & TN_AF_STEALS_INPUTS);
    call.flags = may_steal ? TN_CALL_STEAL_INPUTS : 0;
    call.n_inputs = static_cast<uint32_t>(inputs.size());
    call.n_outputs = static_cast<uint32_t>(outputs.size());
    call.n_syms = static_cast<uint32_t>(syms.size());
    call.inputs = reinterpret_cast<tn_tensor**>(inputs.data());
    call.outputs = out;
    call.syms = syms.data();
    tn_status* status = nullptr;
    if (artifact_->api->flags & TN_AF_SERIAL_ONLY) {
      std::lock_guard lock(serial_);
      status = artifact_->api->call(artifact_, &call);
    } else {
      status = artifact_->api->call(artifact_, &call);
    }
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = take_tensor(out[i]);
    if (steal)
      for (detail::TensorHead*& left : inputs) take_tensor(std::exchange(left, nullptr));
    if (status)
      throw_status(status, ErrorCode::backend_call_failed, message("backend {}", backend_));
  }

  std::string describe(int32_t what) const override {
    if (artifact_->api->struct_size < offsetof(tn_artifact_api, set_constants) ||
        !artifact_->api->describe)
      return "";
    std::string text;
    tn_sink sink{&text, [](void* ctx, const char* data, size_t n) {
                   static_cast<std::string*>(ctx)->append(data, n);
                 }};
    if (tn_status* status = artifact_->api->describe(artifact_, what, &sink)) {
      free_status(status);
      return "";
    }
    return text;
  }

 private:
  tn_artifact* artifact_;
  std::string backend_;
  std::mutex serial_;
};

std::shared_ptr<Artifact> compile_with_plugin(const BackendChoice& choice,
                                              const CompileRequest& request) {
  const LoadedPlugin& plugin = load_plugin(plugin_catalog(), choice.plugin);
  const BackendManifest& manifest = choice.manifest();
  auto table = std::find_if(plugin.backends.begin(), plugin.backends.end(),
                            [&](const tn_backend& b) { return view_of(b.name) == manifest.name; });
  ensure(table != plugin.backends.end(), "a loaded plugin lacks a backend of its manifest");

  AbiRequest rq(manifest, plugin.name, request);
  tn_artifact* artifact = nullptr;
  tn_status* status = nullptr;
  static std::mutex serial_compiles;
  {
    std::unique_lock lock(serial_compiles, std::defer_lock);
    if (!manifest.threadsafe_compile) lock.lock();
    status = table->compile(table->self, &rq.abi, &artifact);
  }
  if (status && status->code == TN_DECLINED && !manifest.fallback.empty()) {
    report::log(report::LogLevel::info, "backend", "{} declined the graph: {}; {} takes it",
                manifest.name, status->text, manifest.fallback);
    std::string reason = status->text;
    free_status(status);
    report::counter("fallback.calls").add();
    note_declined({manifest.name, manifest.fallback, reason, request.graph->nodes().size()});
    return manifest.fallback == "eager" ? interpreter_artifact(request.graph)
                                        : compile_with_backend(manifest.fallback, request);
  }
  if (status)
    throw_status(status, ErrorCode::backend_compiler_failed, message("backend {}", manifest.name));
  if (!artifact || !artifact->api || !artifact->api->call || !artifact->api->destroy)
    throw BackendError(ErrorCode::backend_compiler_failed, TN_INTERNAL,
                       message("backend {} reported success without an artifact", manifest.name));
  auto out = std::make_shared<PluginArtifact>(artifact, manifest.name);
  out->guards = rq.ctx.guards;
  return out;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const BackendInfo& b : all_backends()) names.push_back(b.name);
  return names;
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
  std::string why, nearest = nearest_names(name, known_names());
  for (const Diagnosis& d : plugin_catalog().why_missing(name)) why += "; " + to_text(d);
  if (is_offered_by_broken(name))
    throw BackendError(
        ErrorCode::plugin, TN_NOT_FOUND,
        message("backend '{}' cannot be used{}; the nearest are {}", name, why, nearest));
  throw UserError(ErrorCode::invalid_backend,
                  message("there is no backend '{}'; the nearest are {}{}", name, nearest, why));
}

}  // namespace

BackendInfo backend_info(const std::string& name) {
  {
    std::lock_guard lock(registry().making);
    auto user = registry().user_backends.find(name);
    if (user != registry().user_backends.end()) return user->second.info;
  }
  if (auto choice = plugin_catalog().find_backend(name, ""))
    return info_of(*choice->plugin, choice->manifest());
  if (name == "eager") return host_eager_info();
  fail_unknown(name);
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
  BackendFunction user;
  {
    std::lock_guard lock(registry().making);
    auto found = registry().user_backends.find(name);
    if (found != registry().user_backends.end()) user = found->second.compile;
  }
  if (user) return user(request);
  std::optional<BackendChoice> choice = plugin_catalog().find_backend(name, "");
  if (!choice && name == "eager") return interpreter_artifact(request.graph);
  if (!choice) fail_unknown(name);
  try {
    return compile_with_plugin(*choice, request);
  } catch (const BackendError& e) {
    if (!config::flags().dynamo.suppress_errors) throw;
    report::warn_once(message("{} {}", name, e.what()), "backend",
                      message("{}; the graph runs in the interpreter", e.what()));
    note_declined({name, "eager", e.what(), request.graph->nodes().size()});
    return interpreter_artifact(request.graph);
  }
}

void register_backend(std::string name, BackendFunction compile, std::vector<std::string> tags) {
  BackendInfo info = host_eager_info();
  info.name = name;
  info.plugin = "program";
  info.description = "registered by this program";
  info.tags = std::move(tags);
  std::lock_guard lock(registry().making);
  registry().user_backends[name] = {std::move(info), std::move(compile)};
}

std::vector<RefusedPlugin> refused_plugins() {
  std::vector<RefusedPlugin> out;
  for (const FoundPluginPtr& plugin : plugin_catalog().list())
    if (plugin->diagnosis)
      out.push_back({plugin->path, code_of(plugin->diagnosis.fault), plugin->diagnosis.reason,
                     plugin->diagnosis.hint});
  return out;
}

std::vector<std::string> plugin_search_report() {
  std::vector<std::string> out;
  std::vector<FoundPluginPtr> plugins = plugin_catalog().list();
  for (const SearchPlace& place : plugin_catalog().places()) {
    out.push_back(message("{} ({})", place.path, name_of(place.source)));
    for (const FoundPluginPtr& p : plugins)
      if (p->source == place.source && p->path.starts_with(place.path))
        out.push_back(
            message("  {}: {}", p->file_name(),
                    p->diagnosis ? to_text(p->diagnosis) : std::string(name_of(p->state))));
  }
  return out;
}

void set_plugin_search(std::vector<std::string> files, std::vector<std::string> folders) {
  std::lock_guard lock(registry().making);
  registry().files = std::move(files);
  registry().folders = std::move(folders);
  registry().catalog.reset();
}

void rescan_plugins() { plugin_catalog().rescan(); }

std::vector<std::string> list_backends(const std::vector<std::string>& exclude_tags) {
  std::vector<std::string> out;
  for (const BackendInfo& b : all_backends()) {
    bool excluded = std::any_of(b.tags.begin(), b.tags.end(), [&](const std::string& tag) {
      return std::find(exclude_tags.begin(), exclude_tags.end(), tag) != exclude_tags.end();
    });
    if (!excluded) out.push_back(b.name);
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
