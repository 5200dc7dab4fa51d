// Loading: the steps of a plugin from file to ready, and what can go wrong at each.
#include "backend/life/load.h"

#include "backend/abi/bridge.h"
#include "backend/abi/extensions.h"
#include "backend/abi/status.h"
#include "backend/find/admission.h"
#include "backend/find/link_diagnosis.h"
#include "backend/life/crash_report.h"
#include "backend/life/shutdown.h"
#include "config/flags.h"
#include "core/own_file.h"
#include "core/threads/cancellation_off.h"
#include "ops/op_table.h"
#include "report/log.h"

#include <boost/dll/shared_library.hpp>
#include <tenon/thread_object.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>

namespace tenon {

namespace {

constexpr int64_t entry_budget_ms = 200;

/// Leaked: libraries stay mapped until the process ends, or until unmap().
struct Loader {
  std::recursive_mutex loading;       // an entry may run ops, whose kernels are loaded then
  std::vector<std::string> entering;  // files on their way, innermost last
  std::map<std::string, std::unique_ptr<LoadedPlugin>> loaded;
  std::map<std::string, Diagnosis> failed;  // after they were mapped: an entry runs once
  std::vector<std::unique_ptr<boost::dll::shared_library>> libraries;
  std::mutex listing;                      // guards the next one; taken last
  std::vector<const LoadedPlugin*> order;  // of initialisation
};

Loader& loader() {
  static auto* instance = new Loader;
  return *instance;
}

[[noreturn]] void throw_diagnosis(const Diagnosis& d) {
  throw BackendError(ErrorCode::plugin, TN_FAILED_PRECONDITION, to_text(d));
}

[[noreturn]] void refuse(PluginCatalog& catalog, const Diagnosis& d) {
  catalog.set_state(d.path, PluginState::broken, d);
  throw_diagnosis(d);
}

// The constructors of the library have run, and it stays mapped: it is not tried again.
[[noreturn]] void refuse_mapped(PluginCatalog& catalog, const Diagnosis& d) {
  loader().failed[d.path] = d;
  refuse(catalog, d);
}

std::unique_ptr<boost::dll::shared_library> map_library(PluginCatalog& catalog,
                                                        const FoundPlugin& plugin) {
  KeepsFloatMode mode(plugin.path, "mapping");
  try {
    return std::make_unique<boost::dll::shared_library>(
        plugin.path, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  } catch (const std::exception& e) {
    refuse(catalog, diagnose_link_failure(plugin, e.what()));
  }
}

thread_local const std::string* entered = nullptr;

/// Names the plugin that is being loaded.
class EntryScope {
 public:
  explicit EntryScope(const std::string& name) : outer_(std::exchange(entered, &name)) {}
  ~EntryScope() { entered = outer_; }
  EntryScope(const EntryScope&) = delete;

 private:
  const std::string* outer_;
};

// The table of the plugin, or the diagnosis of what its entry did instead.
Diagnosis run_entry(const FoundPlugin& plugin, tn_entry_fn& entry, const tn_plugin*& table) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  tn_status* status = nullptr;
  KeepsFloatMode mode(plugin.path, "entry");
  try {
    status = entry(host_table(), &table);
  } catch (...) {
    return PluginNet::describe_current(plugin.path, "entry");
  }
  std::chrono::duration<double, std::milli> took = Clock::now() - start;
  if (took.count() > entry_budget_ms)
    report::log(report::LogLevel::warning, "backend",
                "the entry of plugin {} took {} ms, expected at most {} ms; it should leave slow "
                "work to the first compile",
                plugin.manifest.name, static_cast<int64_t>(took.count()), entry_budget_ms);
  if (!status) return {};
  std::string text = status->text;
  free_status(status);
  return {PluginFault::entry_failed, plugin.path, message("its entry failed: {}", text), ""};
}

void offer_extensions(const LoadedPlugin& plugin) {
  static auto* ids = new std::vector<std::unique_ptr<std::string>>;  // live with the tables
  for (const tn_extension& e : plugin.extensions)
    add_extension(ids->emplace_back(std::make_unique<std::string>(view_of(e.id)))->c_str(),
                  e.version, e.table);
}

// P19 for the first device type of the plugin that this machine has none of.
Diagnosis look_for_devices(const LoadedPlugin& plugin) {
  for (const tn_device_provider& d : plugin.devices) {
    int32_t n = 0;
    std::string type(view_of(d.type_name));
    tn_status* status = call_plugin(plugin.net, message("count of device {}", type),
                                    [&] { return d.count(d.self, &n); });
    if (plugin.net.is_faulty()) {
      free_status(status);
      return plugin.net.diagnosis();
    }
    std::string why = status ? status->text : "";
    free_status(status);
    if (!why.empty() || n <= 0) return diagnose_no_device(*plugin.found, type, why);
  }
  return {};
}

// From here on the plugin is known as the owner of its code, and will be shut down.
void keep(LoadedPlugin& plugin, const boost::dll::shared_library& library) {
  auto& entry = library.get<tn_entry_fn>("tenon_plugin_entry_v1");
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&entry), &info) != 0) plugin.base = info.dli_fbase;
  expect_shutdown();
  std::lock_guard lock(loader().listing);
  loader().order.push_back(&plugin);
}

// Each op that the manifest names must be there once the entry has run.
Diagnosis missing_op(const FoundPlugin& found) {
  for (const OpManifest& op : found.manifest.ops)
    if (!find_op(op.name))
      return {PluginFault::table_mismatch, found.path,
              message("the manifest names op {}, which its entry did not add", op.name),
              "add it in the entry with tenon.custom_ops, or take it out of plugin.toml"};
  return {};
}

void load_requirements(PluginCatalog& catalog, const FoundPlugin& plugin);

std::unique_ptr<LoadedPlugin> enter_plugin(PluginCatalog& catalog, const FoundPluginPtr& plugin,
                                           boost::dll::shared_library& library) {
  if (!library.has("tenon_plugin_entry_v1")) refuse_mapped(catalog, no_entry(plugin->path));
  const tn_plugin* table = nullptr;
  auto& entry = library.get<tn_entry_fn>("tenon_plugin_entry_v1");
  if (Diagnosis d = run_entry(*plugin, entry, table)) refuse_mapped(catalog, d);
  auto loaded = std::make_unique<LoadedPlugin>(plugin);
  if (Diagnosis d = read_tables(*plugin, table, *loaded)) refuse_mapped(catalog, d);
  return loaded;
}

/// The file is on its way: nobody below may load it once more.
class Entering {
 public:
  explicit Entering(const FoundPlugin& plugin) {
    if (is_being_loaded(plugin))
      throw BackendError(ErrorCode::plugin, TN_FAILED_PRECONDITION,
                         message("plugin {} is asked for while it is being loaded; its entry must "
                                 "not use what it is about to offer",
                                 plugin.manifest.name));
    loader().entering.push_back(plugin.path);
  }
  ~Entering() { loader().entering.pop_back(); }
  Entering(const Entering&) = delete;
};

// Work on behalf of a call that was let in before the gate closed still finds what is not down.
void require_open(const LoadedPlugin& plugin) {
  bool is_let_in = InPlugin::current() && !plugin.net.life().is_down();
  if (is_gate_closed() && !is_let_in) throw_closed();
}

const LoadedPlugin& load_locked(PluginCatalog& catalog, const FoundPluginPtr& plugin) {
  Loader& l = loader();
  if (auto known = l.loaded.find(plugin->path); known != l.loaded.end()) {
    if (known->second->net.is_faulty()) throw_diagnosis(known->second->net.diagnosis());
    require_open(*known->second);
    return *known->second;
  }
  if (auto known = l.failed.find(plugin->path); known != l.failed.end())
    throw_diagnosis(known->second);
  require_usable(*plugin);
  require_loading_allowed();
  Entering entering(*plugin);
  if (config::flags().plugins.report_crashes) report_crashes();
  load_requirements(catalog, *plugin);

  auto start = std::chrono::steady_clock::now();
  Admission admission(catalog, *plugin);
  boost::dll::shared_library& library = *l.libraries.emplace_back(map_library(catalog, *plugin));
  admission.check_mapped(library.native());
  catalog.set_state(plugin->path, PluginState::loaded);
  // Until its ops have been checked: who looks for one of them must not load the plugin again.
  EntryScope scope(plugin->manifest.name);
  std::unique_ptr<LoadedPlugin> loaded = enter_plugin(catalog, plugin, library);
  // What offers nothing but devices is loaded when one is wanted, and who wants it asks: to open a
  // driver takes long, and no fork survives it.
  Diagnosis warning = loaded->backends.empty() ? Diagnosis() : look_for_devices(*loaded);
  if (warning.fault == PluginFault::threw) refuse_mapped(catalog, warning);
  if (Diagnosis d = missing_op(*plugin)) refuse_mapped(catalog, d);
  offer_extensions(*loaded);
  Diagnosis hygiene = diagnose_hygiene(*plugin);
  for (const Diagnosis& d : {warning, hygiene})
    if (d) report::log(report::LogLevel::warning, "backend", "{}", to_text(d));
  catalog.set_state(plugin->path, PluginState::ready, warning ? warning : hygiene);
  std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
  report::log(report::LogLevel::info, "backend", "loaded plugin {} {} from {} in {} ms",
              loaded->name, to_text(plugin->manifest.version), plugin->path, ms.count());
  keep(*loaded, library);
  return *(l.loaded[plugin->path] = std::move(loaded));
}

// ---- what a plugin requires

/// A plugin being loaded, and the extension for whose sake the next one is.
struct Requiring {
  const FoundPlugin* plugin;
  const ExtensionManifest* extension;
};

// "a requires tenon.x/1 of b, b requires tenon.y/1"
std::string chain_text(const std::vector<Requiring>& chain) {
  std::string out;
  for (size_t i = 0; i < chain.size(); ++i) {
    const Requiring& r = chain[i];
    if (i > 0) out += message(" of {}, ", r.plugin->manifest.name);
    out += message("{} requires {}/{}", r.plugin->manifest.name, r.extension->id,
                   r.extension->version);
  }
  return out;
}

void load_requirement(PluginCatalog& catalog, const std::vector<Requiring>& chain,
                      const FoundPluginPtr& provider) {
  const FoundPlugin& plugin = *chain.back().plugin;
  auto refuse_chain = [&](std::string_view end, std::string hint) {
    refuse(catalog, {PluginFault::missing_extension, plugin.path,
                     message("{}{}", chain_text(chain), end), std::move(hint)});
  };
  if (!provider) refuse_chain(", which no plugin offers", "install the plugin that offers it");
  bool circular = std::any_of(chain.begin(), chain.end(),
                              [&](const Requiring& r) { return r.plugin->path == provider->path; });
  if (circular)
    refuse_chain(message(" of {}: a circle", provider->manifest.name),
                 "let one of them ask for the extension when it first compiles");
  try {
    load_locked(catalog, provider);
  } catch (const BackendError&) {
    FoundPluginPtr now = catalog.find_path(provider->path);
    const Diagnosis& why = now ? now->diagnosis : provider->diagnosis;
    // A chain that broke further on has told of this link already.
    if (why.fault == PluginFault::missing_extension)
      refuse(catalog, {why.fault, plugin.path, why.reason, why.hint});
    refuse_chain(message(" of {}, which cannot be used", provider->manifest.name), to_text(why));
  }
}

void load_requirements(PluginCatalog& catalog, const FoundPlugin& plugin) {
  auto& chain = ThreadObject<std::vector<Requiring>>::get();
  for (const ExtensionManifest& e : plugin.manifest.requires_) {
    if (find_extension(e.id.c_str(), e.version)) continue;
    chain.push_back({&plugin, &e});
    struct Pop {
      std::vector<Requiring>& chain;
      ~Pop() { chain.pop_back(); }
    } pop{chain};
    load_requirement(catalog, chain, catalog.find_extension(e.id, e.version));
  }
}

}  // namespace

const LoadedPlugin& load_plugin(PluginCatalog& catalog, const FoundPluginPtr& plugin) {
  const CancellationOff until_loaded;
  std::lock_guard lock(loader().loading);
  return load_locked(catalog, plugin);
}

bool is_being_loaded(const FoundPlugin& plugin) {
  std::lock_guard lock(loader().loading);
  return std::ranges::count(loader().entering, plugin.path) > 0;
}

void require_usable(const FoundPlugin& plugin) {
  if (!plugin.usable) throw_diagnosis(plugin.diagnosis);
}

std::vector<const LoadedPlugin*> loaded_plugins() {
  std::lock_guard lock(loader().listing);
  return loader().order;
}

void unmap(const LoadedPlugin& plugin) {
  std::lock_guard lock(loader().loading);
  for (auto& library : loader().libraries)
    if (library->is_loaded() && library->location() == plugin.path) library->unload();
}

std::optional<std::string> plugin_being_loaded() {
  return entered ? std::optional(*entered) : std::nullopt;
}

// Plugins are beside the file itself, whatever links lead to it.
std::string plugin_install_dir() {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path here = fs::path(own_file()).parent_path(), beside = here / "tenon" / "plugins";
  if (fs::is_directory(beside, error)) return beside.string();
  return (here.parent_path() / "lib" / "tenon" / "plugins").string();
}

}  // namespace tenon
