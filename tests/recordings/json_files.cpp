// Recordings that are JSON.
#include "recordings/json_files.h"

#include <fstream>
#include <map>
#include <sstream>

namespace tenon {

formats::JsonView json_file(const std::string& path) {
  static auto* documents = new std::map<std::string, formats::JsonDocument>;
  auto found = documents->find(path);
  if (found == documents->end()) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    found = documents->emplace(path, formats::parse_json(text.str(), path)).first;
  }
  return found->second.view();
}

}  // namespace tenon
