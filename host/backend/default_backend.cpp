// The backend that is meant where none is named, and why it is another one than was wanted.
//
// The fallback is many times slower, so it is never taken in silence: where the wanted backend is
// installed and cannot be used, one warning per process says why and what runs instead.
#include "backend/backend.h"
#include "backend/catalog.h"
#include "config/flags.h"
#include "core/executable_memory.h"
#include "report/log.h"

#include <unistd.h>

#include <algorithm>

namespace tenon {

namespace {

constexpr std::string_view usual = "inductor", instead = "aot_eager";

bool offers(const FoundPlugin& plugin, const std::string& backend) {
  return plugin.manifest.find_backend(backend) || plugin.file_name() == "tenon_" + backend + ".so";
}

// Why the plugins that offer the backend cannot be used; empty where none does.
std::string refusals_of(const std::string& backend) {
  std::string out;
  for (const FoundPluginPtr& plugin : plugin_catalog().list())
    if (plugin->diagnosis && offers(*plugin, backend))
      out += (out.empty() ? "" : "; ") + to_text(plugin->diagnosis);
  if (!out.empty()) return out;
  for (const SearchPlace& place : plugin_catalog().places()) {
    std::string file = place.path + "/tenon_" + backend + ".so";
    if (::access(file.c_str(), F_OK) == 0) return file + " is there, but its folder cannot be read";
  }
  return "";
}

void warn_of_fallback(const std::string& wanted, const std::string& why) {
  report::warn_once("default backend", "backend",
                    message("the default backend {} cannot be used: {}. {} runs instead, which is "
                            "slower",
                            wanted, why, instead));
}

// A plugin from elsewhere that took the name of an installed one.
void warn_of_foreign(const BackendInfo& backend) {
  if (backend.name != usual) return;
  std::optional<BackendChoice> choice = plugin_catalog().find_backend(backend.name, "");
  if (!choice || choice->plugin->in_install_dir) return;
  std::string installed;
  for (const FoundPluginPtr& plugin : plugin_catalog().list())
    if (plugin->in_install_dir && plugin->manifest.find_backend(backend.name))
      installed = plugin->path;
  std::string whose = installed.empty() ? "which is not Tenon's" : "not " + installed;
  report::warn_once("foreign default " + backend.file, "backend",
                    message("the default backend {} is {}, {}; take it off the plugin path, or set "
                            "compiler.default_backend to {}/{} to say that it is meant",
                            backend.name, backend.file, whose, backend.plugin, backend.name));
}

// Without a page for it, code would be made in vain at every compile.
bool may_run(const BackendInfo& backend) { return !backend.makes_code || can_make_code(); }

const BackendInfo* find(const std::vector<BackendInfo>& all, const std::string& name) {
  auto found = std::find_if(all.begin(), all.end(),
                            [&](const BackendInfo& b) { return b.name == name && !is_runtime(b); });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

bool is_runtime(const BackendInfo& backend) {
  return std::find(backend.tags.begin(), backend.tags.end(), "runtime") != backend.tags.end();
}

std::string default_backend() {
  const std::string& wanted = config::flags().compiler.default_backend;
  std::vector<BackendInfo> all = all_backends();
  const BackendInfo* found = find(all, wanted);
  if (found) warn_of_foreign(*found);
  if (wanted != usual || (found && may_run(*found))) return wanted;
  std::string why = found ? "the system does not let this process run code that it makes (a "
                            "policy against memory that is written and executed)"
                          : refusals_of(wanted);
  if (!why.empty()) warn_of_fallback(wanted, why);
  return std::string(instead);
}

}  // namespace tenon
