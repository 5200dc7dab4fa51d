// Identities for keys of the cache on disk. Files count by what they contain: a plugin or a host
// that was built again under the same version may make other code, and in images all files have the
// same time.
#include "backend/compile/cache_identity.h"

#include "backend/abi/compile_context.h"
#include "backend/catalog.h"
#include "backend/compile/options.h"
#include "backend/find/content_identity.h"
#include "core/cpu_level.h"
#include "core/error.h"
#include "core/version.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <set>

namespace tenon {

namespace {

#if defined(__x86_64__)
std::string cpuid_text(unsigned leaf, bool with_ebx) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(leaf, 0, &a, &b, &c, &d)) return "none ";
  return message("{:x} {:x} {:x} {:x} ", a, with_ebx ? b : 0, c, d);  // EBX of leaf 1: which core
}
#endif

std::string processor() {
  std::string out(name_of(detect_cpu_level()));
#if defined(__x86_64__)
  out += " " + cpuid_text(1, false) + cpuid_text(7, true) + cpuid_text(0x80000001, true);
#endif
  return out;
}

std::string identity_of(const BackendChoice& choice) {
  const FoundPlugin& plugin = *choice.plugin;
  return message("{} {} {}: {}\n", choice.manifest().name, plugin.manifest.name,
                 to_text(plugin.manifest.version), content_identity(plugin.path, plugin.elf));
}

/// The backend and those that it leaves graphs to, one after the other.
std::string chain_identity(BackendChoice choice) {
  std::string out;
  std::set<std::string> seen;
  for (;;) {
    const BackendManifest& manifest = choice.manifest();
    out += identity_of(choice);
    if (manifest.fallback == "eager" || !seen.insert(manifest.name).second) return out;
    auto next = plugin_catalog().find_backend(manifest.fallback, "");
    if (!next) return out;
    choice = *next;
  }
}

}  // namespace

CacheIdentity cache_identity(const std::string& backend, const CompileRequest& request,
                             const Graph& graph) {
  // A callable of the program comes before plugins.
  std::optional<BackendChoice> choice;
  if (!backend_info(backend, graph).file.empty()) choice = choice_for(backend, graph);
  if (!choice) return {false, message("{} of {}", backend, program_identity()), "program"};
  const BackendManifest& manifest = choice->manifest();
  CacheIdentity out;
  out.serializable = manifest.serializable;
  out.text = chain_identity(*choice);
  out.owner = choice->plugin->manifest.name + "-" + to_text(choice->plugin->manifest.version);
  for (char& c : out.owner)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '_';
  tn_options options = resolve_options(manifest, request);
  for (const BackendOption& option : manifest.options)
    if (option.affects_cache)
      out.text += message("{} = {}\n", option.name, to_text(options.values.at(option.name)));
  return out;
}

const std::string& host_identity() {
  static const auto* known = [] {
    const auto* here = reinterpret_cast<const void*>(&host_identity);
    return new std::string(
        message("tenon {}: {}, {}", version, content_identity_of_code(here), processor()));
  }();
  return *known;
}

const std::string& program_identity() {
  static const auto* known = new std::string(content_identity_of_program());
  return *known;
}

}  // namespace tenon
