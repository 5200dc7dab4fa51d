// `tenon plugin load`: loads one file, as a first compile with it would, and tells what became of
// it.
#include "cli/plugin/plugin.h"

#include <tenon/plugins.h>

namespace tenon::cli {

namespace {

int load(const std::string& file, const Globals& globals) {
  PluginInfo plugin = load_plugin(file);
  if (globals.json)
    print_json({{"schema", 1}, {"name", plugin.name}, {"state", plugin.state}});
  else
    print(plugin.name + " is " + plugin.state + "\n");
  return 0;
}

Action build_plugin_load(Options& app) {
  auto file = std::make_shared<std::string>();
  app.add_option("FILE", *file, "a plugin file; its code is run").required();
  return [file](const Globals& globals) { return load(*file, globals); };
}

}  // namespace

extern constinit const Verb plugin_load{.name = "load",
                                        .summary = "loads a plugin file and shows its state",
                                        .example = "tenon plugin load ./tenon_mine.so",
                                        .build = build_plugin_load};

}  // namespace tenon::cli
