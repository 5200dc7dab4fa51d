// `tenon plugin release`: ends a quarantine.
#include "cli/plugin/plugin.h"

#include <tenon/plugins.h>

namespace tenon::cli {

namespace {

int release(const std::string& name, const Globals& globals) {
  release_plugin(name);
  if (globals.json)
    print_json({{"schema", 1}, {"released", name}});
  else
    print(name + " is tried again when it is needed\n");
  return 0;
}

Action build_plugin_release(Options& app) {
  auto name = std::make_shared<std::string>();
  app.add_option("NAME", *name, "a plugin, a backend or a plugin file").required();
  return [name](const Globals& globals) { return release(*name, globals); };
}

}  // namespace

extern constinit const Verb plugin_release{
    .name = "release",
    .summary = "lets a plugin be loaded again that crashed while it was loaded",
    .example = "tenon plugin release inductor",
    .build = build_plugin_release};

}  // namespace tenon::cli
