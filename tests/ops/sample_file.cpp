// One line after the other.
#include "sample_file.h"

#include "core/error.h"
#include "folders.h"

#include <fstream>

namespace tenon::testing {

SampleFile::SampleFile(const std::string& path) {
  std::ifstream in(path);
  require(in.good(), "{} cannot be read", path);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    size_t space = line.find(' ');
    SampleEntry& entry = entries_[line.substr(0, space)];
    std::string rest = space == line.npos ? "" : line.substr(space + 1);
    constexpr std::string_view without = "without ";
    if (rest.starts_with("untested: "))
      entry.untested = true;
    else if (rest.starts_with(without))
      entry.without.insert(rest.substr(without.size(), rest.find(':') - without.size()));
    else
      entry.calls.push_back(rest);
  }
}

const SampleEntry& SampleFile::entry_for(const std::string& op) const {
  static const SampleEntry none;
  auto found = entries_.find(op);
  if (found == entries_.end()) found = entries_.find(op.substr(0, op.find('.')) + ".*");
  return found == entries_.end() ? none : found->second;
}

std::map<std::string, std::string> recorded_ops() {
  std::map<std::string, std::string> out;
  constexpr std::string_view extension = ".safetensors";
  for (const std::string& path : files_in(reference_folder("ops"), extension.data())) {
    size_t slash = path.rfind('/') + 1;
    out[path.substr(slash, path.size() - extension.size() - slash)] = path;
  }
  require(!out.empty(), "{}", nothing_in(reference_folder("ops")));
  return out;
}

}  // namespace tenon::testing
