// Files of flags as facts and lines.
#include "cli/config_files.h"

#include "config/config.h"
#include "config/reading.h"

namespace tenon::cli {

Json config_file_facts() {
  Json::Array out;
  for (const config::ConfigFile& file : config::files_in_force())
    out.push_back({{"layer", config::name_of(file.layer)},
                   {"file", file.path},
                   {"read", file.distrusted.empty()},
                   {"why", file.distrusted}});
  return out;
}

std::string config_file_line(const Json& file) {
  auto text = [&](const char* key) { return file[key].text(); };
  std::string why = text("why");
  return message("{} file {}{}", text("layer"), text("file"),
                 why.empty() ? "" : ", not read: " + why);
}

}  // namespace tenon::cli
