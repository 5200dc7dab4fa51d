// Which plugins go with a folder, and their copies.
#include "backend/carried_plugins.h"

#include "backend/backend.h"
#include "backend/life/load.h"
#include "core/error.h"
#include "core/shell_word.h"

#include <algorithm>
#include <filesystem>

namespace tenon {

namespace {

namespace fs = std::filesystem;

// What is not a file, such as a backend of the program itself, cannot go along.
std::vector<fs::path> files_to_carry(const std::string& backend,
                                     const std::vector<std::string>& files) {
  std::vector<fs::path> out;
  std::error_code none;
  fs::path installed = fs::weakly_canonical(plugin_install_dir(), none);
  auto add = [&](const std::string& file) {
    fs::path path = file.empty() ? fs::path() : fs::canonical(file, none);
    bool is_file = !path.empty() && fs::is_regular_file(path, none);
    if (is_file && path.parent_path() != installed && std::ranges::find(out, path) == out.end())
      out.push_back(path);
  };
  for (const std::string& file : files) add(file);
  for (const BackendInfo& info : all_backends())
    if (info.name == backend) add(info.file);
  for (const LoadedPlugin* plugin : loaded_plugins()) add(plugin->path);
  return out;
}

// Files of one name come from different folders.
std::string free_name(const fs::path& file, const std::vector<std::string>& taken) {
  std::string name = file.filename().string(), out = "plugins/" + name;
  for (int i = 2; std::ranges::find(taken, out) != taken.end(); ++i)
    out = message("plugins/{}_{}", i, name);
  return out;
}

void copy_plugin(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  fs::create_directories(to.parent_path(), failed);
  if (!failed) fs::copy_file(from, to, fs::copy_options::update_existing, failed);
  require(!failed, ErrorCode::bad_file, "{} cannot be copied to {}: {}; choose another folder",
          from.string(), to.string(), failed.message());
}

}  // namespace

std::vector<std::string> carry_plugins(const std::string& folder, const std::string& backend,
                                       const std::vector<std::string>& files) {
  std::vector<std::string> out;
  for (const fs::path& file : files_to_carry(backend, files)) {
    std::string name = free_name(file, out);
    std::error_code none;
    // A folder that is written again from its own copy.
    if (!fs::equivalent(file, fs::path(folder) / name, none))
      copy_plugin(file, fs::path(folder) / name);
    out.push_back(name);
  }
  return out;
}

std::string carried_plugin_words(const std::string& folder, const std::string& backend,
                                 const std::vector<std::string>& files) {
  std::string out;
  for (const std::string& file : carry_plugins(folder, backend, files))
    out += " --plugin " + shell_word(file);
  return out;
}

}  // namespace tenon
