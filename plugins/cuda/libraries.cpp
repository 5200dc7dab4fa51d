// The vendor's libraries and files: which folders are searched, and in which order.
#include "libraries.h"

#include <tenon/plugin.hpp>

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

namespace tenon::cuda {

using plugin::error;
using plugin::text;

namespace {

constexpr const char* usual_place = "/usr/local/cuda";

// The folders of the flag; none where the host does not know it.
std::vector<std::string> flagged_folders() {
  tn_str value{};
  std::vector<std::string> out;
  tn_status* unknown =
      plugin::host->opt->config_str(nullptr, TN_STR("plugins.library_path"), &value);
  if (unknown) {
    plugin::host->status_free(unknown);
    return out;
  }
  std::istringstream list{std::string(plugin::sv(value))};
  for (std::string folder; std::getline(list, folder, ':');)
    if (!folder.empty()) out.push_back(folder);
  return out;
}

// Where toolkits are installed. Who runs with the rights of another names none by a variable.
std::vector<std::string> toolkits() {
  std::vector<std::string> out;
  if (const char* home = ::secure_getenv("CUDA_HOME"); home && *home) out.emplace_back(home);
  out.emplace_back(usual_place);
  return out;
}

void* open_in(const std::string& folder, const std::string& name) {
  return ::dlopen((folder + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

void* search(const std::string& name) {
  for (const std::string& folder : flagged_folders())
    if (void* library = open_in(folder, name)) return library;
  if (void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  for (const std::string& toolkit : toolkits())
    for (const char* folder : {"/lib64", "/targets/x86_64-linux/lib"})
      if (void* library = open_in(toolkit + folder, name)) return library;
  return nullptr;
}

std::string path_of(void* library, const std::string& name) {
  link_map* map = nullptr;
  bool known = ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name && *map->l_name;
  return known ? map->l_name : name;
}

bool exists(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0;
}

std::string search_file(const std::string& file) {
  if (void* library = file.find('/') == std::string::npos ? open_library(file) : nullptr)
    return path_of(library, file);
  std::vector<std::string> places;
  for (const std::string& folder : flagged_folders())
    places.insert(places.end(), {folder, folder + "/.."});
  for (const std::string& toolkit : toolkits()) places.push_back(toolkit);
  for (const std::string& place : places)
    if (std::string path = place + "/" + file; exists(path)) return path;
  return {};
}

/// Answers by name, each found out once.
template <class T>
class Once {
 public:
  template <class F>
  const T& get(const std::string& name, F&& find) {
    std::lock_guard lock(finding_);
    auto known = known_.find(name);
    return known != known_.end() ? known->second : known_.emplace(name, find(name)).first->second;
  }

 private:
  std::mutex finding_;
  std::map<std::string, T> known_;
};

std::string not_found(const std::string& what) {
  return text("{} not found; TENON_PLUGINS_LIBRARY_PATH names folders to search first", what);
}

}  // namespace

void* open_library(const std::string& name) {
  static auto* const libraries = new Once<void*>;
  return libraries->get(name, search);
}

void* library_symbol(const std::string& library, const std::string& name) {
  void* opened = open_library(library);
  if (!opened) throw error(TN_UNAVAILABLE, not_found(text("library {}", library)));
  void* found = ::dlsym(opened, name.c_str());
  if (!found) throw error(TN_NOT_FOUND, text("{} has no {}", path_of(opened, library), name));
  return found;
}

std::string_view find_file(const std::string& file) {
  static auto* const files = new Once<std::string>;
  const std::string& path = files->get(file, search_file);
  if (path.empty()) throw error(TN_UNAVAILABLE, not_found(file));
  return path;
}

}  // namespace tenon::cuda
