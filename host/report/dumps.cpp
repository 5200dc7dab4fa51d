// Folders of dumps, and how paths are shown.
#include "report/dumps.h"

#include "config/flags.h"
#include "report/log.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;

namespace tenon::report {

bool dumps_wanted() {
  static const std::string& by_default = *new std::string(config::DynamoFlags().debug_dir_root);
  const config::DynamoFlags& flags = config::flags().dynamo;
  return flags.repro_after != "unset" || flags.debug_dir_root != by_default;
}

std::string dump_folder(std::string_view compile_id) {
  std::string name(compile_id.empty() ? "other" : compile_id);
  for (char& c : name)
    if (c == '/') c = '_';
  fs::path folder = fs::path(config::flags().dynamo.debug_dir_root) /
                    ("run_" + std::to_string(::getpid())) / name;
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return folder.string();
  warn_once("dumps " + folder.string(), "report",
            message("{}: dumps cannot be written there: {}; set dynamo.debug_dir_root",
                    folder.string(), error.message()));
  return "";
}

void write_dump(const std::string& folder, std::string_view name, std::string_view text) {
  if (folder.empty()) return;
  std::string path = folder + "/" + std::string(name);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    warn_once("dumps " + path, "report", message("{}: cannot be written; is the disk full?", path));
}

std::string shown_path(std::string_view path) {
  std::string_view base = config::flags().dynamo.base_dir;
  while (base.ends_with('/')) base.remove_suffix(1);
  bool inside = !base.empty() && path.starts_with(base) && path.size() > base.size() &&
                path[base.size()] == '/';
  return std::string(inside ? path.substr(base.size() + 1) : path);
}

}  // namespace tenon::report
