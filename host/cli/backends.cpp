// `tenon backends`: what can compile here, and which files could not be taken.
#include "backend/backend.h"
#include "backend/catalog.h"

#include "cli/output.h"
#include "cli/verb.h"
#include "core/joined.h"

#include <algorithm>

namespace tenon::cli {

namespace {

struct BackendsOptions {
  bool all = false, why = false;
};

bool is_hidden(const BackendInfo& backend) {
  return std::any_of(backend.tags.begin(), backend.tags.end(), [](const std::string& tag) {
    return tag == "debug" || tag == "experimental" || tag == "runtime";
  });
}

Json to_json(const BackendInfo& b) {
  return {{"name", b.name},
          {"plugin", b.plugin},
          {"version", b.version},
          {"description", b.description},
          {"tags", b.tags},
          {"devices", b.devices},
          {"stage", b.stage == Stage::captured ? "captured" : "aot"},
          {"dynamic_shapes", b.dynamic_shapes},
          {"file", b.file},
          {"state", b.state}};
}

Json as_json(const std::vector<BackendInfo>& backends, bool why) {
  Json document{{"schema", 1}, {"backends", Json::Array{}}, {"refused", Json::Array{}}};
  for (const BackendInfo& b : backends) document["backends"].items().push_back(to_json(b));
  for (const RefusedPlugin& r : refused_plugins())
    document["refused"].items().push_back(
        {{"file", r.file}, {"code", r.code}, {"reason", r.reason}, {"hint", r.hint}});
  document["missing"] = missing_device_libraries();
  if (why) document["search"] = plugin_search_report();
  return document;
}

void print_table(const std::vector<BackendInfo>& backends, size_t n_hidden) {
  Table table({"NAME", "VERSION", "TAGS", "DEVICES", "DESCRIPTION", "FILE"});
  for (const BackendInfo& b : backends)
    table.add({b.name, b.version, joined(b.tags, ","), joined(b.devices, ","), b.description,
               b.file.empty() ? "(" + b.plugin + ")" : b.file});
  print(table.text());
  if (n_hidden > 0)
    print(message("{} more with the tags debug, experimental or runtime: tenon backends --all\n",
                  n_hidden));
  for (const std::string& line : missing_device_libraries()) print(line + "\n");
}

void print_refused() {
  std::vector<RefusedPlugin> refused = refused_plugins();
  if (!refused.empty()) print("\nFiles that could not be taken:\n");
  for (const RefusedPlugin& r : refused)
    print(
        message("  {} {}: {}{}{}\n", r.code, r.file, r.reason, r.hint.empty() ? "" : "; ", r.hint));
}

int list_backends(const BackendsOptions& options, const Globals& globals) {
  std::vector<BackendInfo> backends = all_backends();
  size_t n_all = backends.size();
  if (!options.all) std::erase_if(backends, is_hidden);
  if (globals.json) {
    print_json(as_json(backends, options.why));
    return 0;
  }
  print_table(backends, n_all - backends.size());
  print_refused();
  if (options.why) print("\nFolders searched:\n  " + joined(plugin_search_report(), "\n  ") + "\n");
  return 0;
}

Action build_backends(Options& app) {
  auto options = std::make_shared<BackendsOptions>();
  app.add_flag("--all", options->all, "those with the tags debug, experimental and runtime too");
  app.add_flag("--why", options->why, "the folders searched and the verdict on each file");
  return [options](const Globals& globals) { return list_backends(*options, globals); };
}

}  // namespace

extern constinit const Verb verb_backends{.name = "backends",
                                          .summary = "lists the installed backends",
                                          .example = "tenon backends --all",
                                          .build = build_backends,
                                          .judges_plugins = true};

}  // namespace tenon::cli
