// Where files of flags are looked for, and which of them are believed.
#include "config/folders.h"

#include "core/edit_distance.h"
#include "core/error.h"
#include "core/own_file.h"
#include "core/path_writers.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace fs = std::filesystem;

namespace tenon::config {

namespace {

std::string environment_path(const char* name) {
  const char* text = secure_getenv(name);
  return text ? text : "";
}

std::string install_folder() {
  fs::path library = own_file();
  return library.empty() ? "" : (library.parent_path().parent_path() / "etc" / "tenon").string();
}

std::string user_folder() {
  std::string base = environment_path("XDG_CONFIG_HOME");
  if (base.empty()) {
    std::string home = environment_path("HOME");
    if (home.empty()) return "";
    base = home + "/.config";
  }
  return base + "/tenon";
}

// The nearest configs/ or .tenon/ at the working directory or above it.
std::string project_folder() {
  if (process_is_secure()) return "";
  std::string named = environment_path("TENON_CONFIG_DIR");
  std::error_code error;
  if (!named.empty()) {
    require(fs::is_directory(named, error), ErrorCode::config,
            "TENON_CONFIG_DIR is {}, which is not a folder; name one that holds files such as "
            "dynamo.toml",
            named);
    return named;
  }
  for (fs::path at = fs::current_path(error); !at.empty(); at = at.parent_path()) {
    for (const char* name : {"configs", ".tenon"}) {
      if (fs::is_directory(at / name, error)) return (at / name).string();
    }
    if (at == at.root_path()) break;
  }
  return "";
}

}  // namespace

std::vector<std::pair<Layer, std::string>> config_folders() {
  std::vector<std::pair<Layer, std::string>> folders;
  auto add = [&](Layer layer, std::string folder) {
    if (!folder.empty()) folders.emplace_back(layer, std::move(folder));
  };
  add(Layer::install, install_folder());
  add(Layer::user, user_folder());
  add(Layer::project, project_folder());
  return folders;
}

// The folder is searched for upwards, so it may be anybody's.
std::string why_not_trusted(const std::string& path) {
  std::error_code error;
  WriterFindings findings = PathWriters().of_found_file(fs::absolute(path, error).string());
  if (findings.refused.empty()) return "";
  const WriterFinding& first = findings.refused.front();
  return first.reason + (first.hint.empty() ? "" : "; " + first.hint);
}

// A short name is like many: an edit for every three letters, and two at most.
std::string misspelt(std::string_view name, const std::vector<std::string>& known) {
  if (known.empty() || std::find(known.begin(), known.end(), name) != known.end()) return "";
  std::string nearest = nearest_names(name, known, 1);
  size_t edits = edit_distance(name.substr(0, 128), nearest);
  return edits <= std::min<size_t>(2, nearest.size() / 3) ? nearest : "";
}

std::optional<Layer> layer_of_file(const std::string& path) {
  std::error_code error;
  fs::path folder = fs::weakly_canonical(fs::absolute(path, error), error).parent_path();
  for (const auto& [layer, known] : config_folders())
    if (fs::equivalent(known, folder, error) && !error) return layer;
  if (folder.filename() == "configs" || folder.filename() == ".tenon") return Layer::project;
  return std::nullopt;
}

}  // namespace tenon::config
