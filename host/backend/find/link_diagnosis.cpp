// What the dynamic linker would say about a plugin.
//
// dlerror() names the first library or symbol that is missing, in the language of the user. Here
// every library is looked for where the linker would look, without mapping it: a library that was
// mapped to find out would run its constructors.
#include "backend/find/link_diagnosis.h"
#include "core/joined.h"
#include "report/stack.h"

#include "core/error.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>

namespace tenon {

namespace {

bool is_readable(const std::string& file) { return ::access(file.c_str(), R_OK) == 0; }

bool is_mapped(const std::string& name) {
  void* handle = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle) ::dlclose(handle);
  return handle != nullptr;
}

// The folders of LD_LIBRARY_PATH and those that the linker knows by itself.
std::vector<std::string> linker_folders() {
  std::vector<std::string> out;
  std::unique_ptr<void, int (*)(void*)> self(::dlopen(nullptr, RTLD_LAZY), &::dlclose);
  Dl_serinfo size{};
  if (!self || ::dlinfo(self.get(), RTLD_DI_SERINFOSIZE, &size) != 0) return out;
  std::vector<char> memory(size.dls_size);
  auto* info = reinterpret_cast<Dl_serinfo*>(memory.data());
  info->dls_size = size.dls_size;
  info->dls_cnt = size.dls_cnt;
  if (::dlinfo(self.get(), RTLD_DI_SERINFO, info) != 0) return out;
  for (unsigned i = 0; i < info->dls_cnt; ++i) out.emplace_back(info->dls_serpath[i].dls_name);
  return out;
}

// The cache is a table over a block of strings: name, path, name, path, each terminated. A name
// that stands in it alone is a library that the linker knows.
bool is_in_linker_cache(const std::string& name) {
  static const auto& cache = *new std::string([] {
    std::stringstream text;
    text << std::ifstream("/etc/ld.so.cache", std::ios::binary).rdbuf();
    return text.str();
  }());
  std::string terminated = '\0' + name + '\0';
  return cache.find(terminated) != std::string::npos;
}

std::vector<std::string> runpath_folders(const std::string& path, const std::string& runpath) {
  std::string origin = path.substr(0, path.rfind('/'));
  std::vector<std::string> out;
  std::stringstream folders(runpath);
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (std::string_view name : {"$ORIGIN", "${ORIGIN}"})
      if (size_t at = folder.find(name); at != std::string::npos)
        folder.replace(at, name.size(), origin);
    out.push_back(folder);
  }
  return out;
}

bool is_in_any(const std::vector<std::string>& folders, const std::string& name) {
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) { return is_readable(folder + "/" + name); });
}

// Other symbols than _Z... would be taken for types: "f" for float.
std::string source_name(const std::string& symbol) {
  return symbol.starts_with("_Z") ? report::demangled(symbol) : symbol;
}

// Names of templates fill pages.
std::string shortened(std::string name) {
  constexpr size_t longest = 60;
  return name.size() > longest ? name.substr(0, longest) + "..." : name;
}

// The first few in the order of their text, as they stood in the source.
std::string first_names(const std::vector<std::string>& symbols) {
  constexpr size_t most = 8;
  std::vector<std::string> names;
  for (const std::string& symbol : symbols) names.push_back(source_name(symbol));
  std::sort(names.begin(), names.end());
  size_t n = names.size();
  names.resize(std::min(n, most));
  for (std::string& name : names) name = shortened(std::move(name));
  return joined(names) + (n > most ? message(" and {} more", n - most) : "");
}

// What dlerror() said, out of the sentence that Boost.DLL makes around it, without the path, which
// the diagnosis names already.
std::string linker_text(std::string_view text, const std::string& path) {
  constexpr std::string_view before = "(dlerror system message: ";
  if (size_t at = text.find(before); at != std::string_view::npos) {
    text.remove_prefix(at + before.size());
    text = text.substr(0, text.rfind(')'));
  }
  if (text.starts_with(path + ": ")) text.remove_prefix(path.size() + 2);
  return std::string(text);
}

Diagnosis undefined_symbol(const FoundPlugin& plugin, const std::string& text, size_t at) {
  constexpr std::string_view label = "undefined symbol: ";
  std::string symbol = text.substr(at + label.size());
  symbol = symbol.substr(0, symbol.find_first_of(", \t"));
  std::string name = source_name(symbol);
  std::string shown = name == symbol ? name : message("{} ({})", name, symbol);
  return {PluginFault::undefined_symbol, plugin.path,
          message("it uses {}, which neither it nor a library that it links defines", shown),
          "link the library that has it; with -z defs, as in tenon_add_plugin, the build finds it"};
}

Diagnosis missing_library(const FoundPlugin& plugin, const std::string& text,
                          const std::vector<std::string>& missing) {
  std::string reason = text;
  if (!missing.empty()) reason += message("; cannot be found: {}", joined(missing));
  std::string hint = "install it, or set the plugin's RUNPATH to its folder";
  if (!plugin.manifest.needs_library.empty())
    hint += message("; the plugin says that it needs {}", joined(plugin.manifest.needs_library));
  return {PluginFault::missing_library, plugin.path, std::move(reason), std::move(hint)};
}

}  // namespace

bool library_is_found(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_readable(name);
  return is_mapped(name) || is_in_any(linker_folders(), name) || is_in_linker_cache(name);
}

std::vector<std::string> missing_libraries(const std::string& path, const ElfInfo& elf) {
  std::vector<std::string> out, own = runpath_folders(path, elf.runpath);
  for (const std::string& name : elf.needed)
    if (!is_in_any(own, name) && !library_is_found(name)) out.push_back(name);
  return out;
}

Diagnosis diagnose_link_failure(const FoundPlugin& plugin, std::string_view text) {
  std::string said = linker_text(text, plugin.path);
  if (size_t at = said.find("undefined symbol: "); at != std::string::npos)
    return undefined_symbol(plugin, said, at);
  std::vector<std::string> missing = missing_libraries(plugin.path, plugin.elf);
  bool of_library = said.find("cannot open shared object file") != std::string::npos ||
                    said.find("version `") != std::string::npos;
  if (!missing.empty() || of_library) return missing_library(plugin, said, missing);
  return {PluginFault::unreadable, plugin.path,
          message("expected a shared object of {} bytes that can be mapped; the linker says: {}",
                  plugin.elf.file.size, said),
          "build or copy it again"};
}

Diagnosis diagnose_hygiene(const FoundPlugin& plugin) {
  std::string found;
  auto add = [&](const std::string& what) { found += (found.empty() ? "" : "; ") + what; };
  ExtraExports extra = read_extra_exports(plugin.path);
  if (!extra.names.empty())
    add(message("symbols exported besides its entry: {} ({})", extra.names.size(),
                first_names(extra.names)));
  if (!extra.unique.empty())
    add(message("those of them that are one in the whole process: {} ({})", extra.unique.size(),
                first_names(extra.unique)));
  if (plugin.elf.exec_stack) add("asks for an executable stack");
  if (plugin.elf.text_relocations) add("has text relocations");
  if (found.empty()) return {};
  return {PluginFault::hygiene, plugin.path, found,
          "build it with tenon_add_plugin (version script, -z noexecstack, -fPIC)"};
}

Diagnosis diagnose_no_device(const FoundPlugin& plugin, std::string_view type,
                             std::string_view why) {
  std::string reason = message("it is loaded, but there is no device of type {} here", type);
  if (!why.empty()) reason += message(": {}", why);
  std::string looked;
  for (const std::string& name : plugin.manifest.needs_library)
    looked += message("{}{} ({})", looked.empty() ? "" : ", ", name,
                      library_is_found(name) ? "found" : "not found");
  if (!looked.empty()) reason += message("; it looks for {}", looked);
  return {PluginFault::no_device, plugin.path, std::move(reason),
          "install the driver of the device; all else goes on without it"};
}

}  // namespace tenon
