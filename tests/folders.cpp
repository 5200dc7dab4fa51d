// Where tests find their files. The only file of the tests that is compiled with a path, so that
// ccache knows all others in a tree of another name.
#include "folders.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace tenon {
namespace {

std::string from_environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

}  // namespace

std::string source_path(const std::string& name) { return TENON_SOURCE_DIR "/" + name; }

std::string own_recording(const std::string& name) { return TENON_RECORDINGS "/" + name; }

std::string shared_folder(const std::string& name) {
  std::string named = from_environment("TENON_SHARED");
  return named.empty() ? own_recording(name) : named + "/" + name;
}

std::string reference_folder(const std::string& kind) {
  std::string named = from_environment("TENON_REFERENCE");
  return named.empty() ? shared_folder("reference/" + kind) : named + "/" + kind;
}

std::vector<std::string> files_in(const std::string& folder, const std::string& ending) {
  std::vector<std::string> files;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing))
    if (entry.path().string().ends_with(ending)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::string nothing_in(const std::string& folder) {
  return "no recording found in " + folder +
         "; TENON_REFERENCE names the folder that holds ops/, partitioner/ and the other kinds";
}

}  // namespace tenon
