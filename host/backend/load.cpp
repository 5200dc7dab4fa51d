// Loading: the steps of a plugin from file to ready, and what can go wrong at each.
#include "backend/load.h"

#include "backend/bridge.h"
#include "backend/extensions.h"
#include "backend/status.h"
#include "ops/op_table.h"
#include "report/log.h"

#include <boost/dll/runtime_symbol_info.hpp>
#include <boost/dll/shared_library.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

namespace tenon {

namespace {

/// Leaked: libraries stay mapped until the process ends.
struct Loader {
  std::mutex loading;
  std::map<std::string, std::unique_ptr<LoadedPlugin>> loaded;
  std::vector<std::unique_ptr<boost::dll::shared_library>> libraries;
  std::vector<const LoadedPlugin*> order;  // of initialisation
};

Loader& loader() {
  static auto* instance = new Loader;
  return *instance;
}

// Plugins shut down in reverse order, before static destructors run.
void shut_down_plugins() {
  Loader& l = loader();
  for (size_t i = l.order.size(); i-- > 0;)
    if (l.order[i]->table.shutdown) free_status(l.order[i]->table.shutdown());
}

[[noreturn]] void refuse(PluginCatalog& catalog, const FoundPlugin& plugin, PluginFault fault,
                         std::string reason, std::string hint) {
  Diagnosis d{fault, plugin.path, std::move(reason), std::move(hint)};
  catalog.set_state(plugin.path, PluginState::broken, d);
  throw BackendError(ErrorCode::plugin, TN_FAILED_PRECONDITION, to_text(d));
}

std::unique_ptr<boost::dll::shared_library> map_library(PluginCatalog& catalog,
                                                        const FoundPlugin& plugin) {
  try {
    return std::make_unique<boost::dll::shared_library>(
        plugin.path, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  } catch (const std::exception& e) {
    std::string_view text = e.what();
    bool symbol = text.find("undefined symbol") != std::string_view::npos;
    refuse(
        catalog, plugin, symbol ? PluginFault::undefined_symbol : PluginFault::missing_library,
        std::string(text),
        symbol
            ? "link the plugin with -z defs, as tenon_add_plugin does, to see this when it is built"
            : "install the library, or set the plugin's RUNPATH");
  }
}

// Copies a table of the plugin into a full-length one; what an older plugin lacks is zero.
template <class T>
T full_copy(const T* table) {
  T copy;
  std::memset(&copy, 0, sizeof copy);
  std::memcpy(&copy, table, std::min<size_t>(table->struct_size, sizeof copy));
  return copy;
}

std::string names_of(const auto& list, auto name) {
  std::string out;
  for (const auto& e : list) out += (out.empty() ? "" : ", ") + std::string(name(e));
  return out.empty() ? "none" : out;
}

void copy_tables(PluginCatalog& catalog, LoadedPlugin& plugin, const tn_plugin* table) {
  const FoundPlugin& found = *plugin.found;
  if (!table || table->struct_size < offsetof(tn_plugin, n_backends))
    refuse(catalog, found, PluginFault::entry_failed,
           "its entry gave no table, or one that is too short", "");
  plugin.table = full_copy(table);
  for (uint32_t i = 0; i < plugin.table.n_backends; ++i)
    plugin.backends.push_back(full_copy(plugin.table.backends[i]));
  for (uint32_t i = 0; i < plugin.table.n_kernels; ++i)
    plugin.kernels.push_back(full_copy(plugin.table.kernels[i]));
  auto declared = found.manifest.backends;
  bool same = declared.size() == plugin.backends.size() &&
              found.manifest.kernels.size() == plugin.kernels.size();
  for (const BackendManifest& b : declared)
    same = same &&
           std::any_of(plugin.backends.begin(), plugin.backends.end(),
                       [&](const tn_backend& t) { return view_of(t.name) == b.name && t.compile; });
  if (!same)
    refuse(catalog, found, PluginFault::table_mismatch,
           message("the manifest declares the backends {}, the table has {}",
                   names_of(declared, [](const auto& b) { return b.name; }),
                   names_of(plugin.backends, [](const auto& b) { return view_of(b.name); })),
           "make TENON_PLUGIN_BACKENDS and plugin.toml name the same backends");
  for (uint32_t i = 0; i < plugin.table.n_extensions; ++i) {
    const tn_extension* e = plugin.table.extensions[i];
    static auto* ids = new std::vector<std::unique_ptr<std::string>>;
    add_extension(ids->emplace_back(std::make_unique<std::string>(view_of(e->id)))->c_str(),
                  e->version, e->table);
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

// Each op that the manifest names must be there once the entry has run.
void check_ops(PluginCatalog& catalog, const FoundPlugin& found) {
  for (const OpManifest& op : found.manifest.ops)
    if (!find_op(op.name))
      refuse(catalog, found, PluginFault::table_mismatch,
             message("the manifest names op {}, which its entry did not add", op.name),
             "add it in the entry with tenon.custom_ops, or take it out of plugin.toml");
}

// The table that the plugin's entry gives.
const tn_plugin* call_entry(PluginCatalog& catalog, const FoundPlugin& plugin,
                            boost::dll::shared_library& library) {
  auto& entry = library.get<tn_entry_fn>("tenon_plugin_entry_v1");
  const tn_plugin* table = nullptr;
  tn_status* status = nullptr;
  try {
    status = entry(host_table(), &table);
  } catch (const std::exception& e) {
    refuse(catalog, plugin, PluginFault::threw, message("its entry threw: {}", e.what()),
           "catch exceptions inside the plugin");
  } catch (...) {
    refuse(catalog, plugin, PluginFault::threw, "its entry threw an exception of unknown type",
           "catch exceptions inside the plugin");
  }
  if (status) {
    std::string text = status->text;
    free_status(status);
    refuse(catalog, plugin, PluginFault::entry_failed, message("its entry failed: {}", text), "");
  }
  return table;
}

void load_requirements(PluginCatalog& catalog, const FoundPlugin& plugin);

const LoadedPlugin& load_locked(PluginCatalog& catalog, const FoundPluginPtr& plugin) {
  Loader& l = loader();
  if (auto known = l.loaded.find(plugin->path); known != l.loaded.end()) return *known->second;
  if (!plugin->usable)
    throw BackendError(ErrorCode::plugin, TN_FAILED_PRECONDITION, to_text(plugin->diagnosis));
  load_requirements(catalog, *plugin);

  auto start = std::chrono::steady_clock::now();
  if (l.order.empty()) std::atexit(shut_down_plugins);
  auto& library = l.libraries.emplace_back(map_library(catalog, *plugin));
  catalog.set_state(plugin->path, PluginState::loaded);
  if (!library->has("tenon_plugin_entry_v1"))
    refuse(catalog, *plugin, PluginFault::no_entry, "it does not export tenon_plugin_entry_v1",
           "declare the entry extern \"C\" with TN_EXPORT, and keep it in the version script");
  // Until its ops have been checked: who looks for one of them must not load the plugin again.
  EntryScope scope(plugin->manifest.name);
  const tn_plugin* table = call_entry(catalog, *plugin, *library);
  auto loaded = std::make_unique<LoadedPlugin>();
  loaded->name = plugin->manifest.name;
  loaded->path = plugin->path;
  loaded->found = plugin;
  copy_tables(catalog, *loaded, table);
  check_ops(catalog, *plugin);
  catalog.set_state(plugin->path, PluginState::ready);
  std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
  report::log(ms.count() > 200 ? report::LogLevel::warning : report::LogLevel::info, "backend",
              "loaded plugin {} {} from {} in {} ms", loaded->name,
              to_text(plugin->manifest.version), plugin->path, ms.count());
  l.order.push_back(loaded.get());
  return *(l.loaded[plugin->path] = std::move(loaded));
}

void load_requirements(PluginCatalog& catalog, const FoundPlugin& plugin) {
  thread_local std::vector<std::string> chain;
  for (const ExtensionManifest& e : plugin.manifest.requires_) {
    if (find_extension(e.id.c_str(), e.version)) continue;
    FoundPluginPtr provider = catalog.find_extension(e.id, e.version);
    bool circular = std::find(chain.begin(), chain.end(), plugin.manifest.name) != chain.end();
    if (!provider || circular)
      refuse(catalog, plugin, PluginFault::missing_extension,
             message("it requires extension {}/{}, which {}", e.id, e.version,
                     circular ? "requires it in turn" : "no plugin offers"),
             "install the plugin that offers it");
    chain.push_back(plugin.manifest.name);
    struct Pop {
      ~Pop() { chain.pop_back(); }
    } pop;
    load_locked(catalog, provider);
  }
}

}  // namespace

const LoadedPlugin& load_plugin(PluginCatalog& catalog, const FoundPluginPtr& plugin) {
  std::lock_guard lock(loader().loading);
  return load_locked(catalog, plugin);
}

std::optional<std::string> plugin_being_loaded() {
  return entered ? std::optional(*entered) : std::nullopt;
}

std::string plugin_install_dir() {
  boost::filesystem::path file = boost::dll::this_line_location();
  // A program that was found on the PATH knows itself by its bare name.
  if (!file.has_parent_path()) file = boost::filesystem::read_symlink("/proc/self/exe");
  boost::filesystem::path here = file.parent_path();
  boost::filesystem::path beside = here / "tenon" / "plugins";
  if (boost::filesystem::is_directory(beside)) return beside.string();
  return (here.parent_path() / "lib" / "tenon" / "plugins").string();
}

size_t loaded_plugin_count() {
  std::lock_guard lock(loader().loading);
  return loader().loaded.size();
}

}  // namespace tenon
