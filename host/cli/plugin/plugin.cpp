// `tenon plugin`: hands over to one of its sub-commands.
#include "cli/plugin/plugin.h"

namespace tenon::cli {

namespace {

constexpr const Verb* sub_commands[] = {&plugin_list, &plugin_info, &plugin_check,
                                        &plugin_load, &plugin_new,  &plugin_release};

Action build_plugin(Options& app) {
  auto chosen = std::make_shared<Action>();
  for (const Verb* command : sub_commands) {
    Options& sub = app.add_verb(command->name, command->summary, nullptr);
    sub.example = command->example;
    sub.on_chosen = [chosen, action = command->build(sub)] { *chosen = action; };
  }
  return [chosen](const Globals& globals) { return (*chosen)(globals); };
}

}  // namespace

extern constinit const Verb verb_plugin{.name = "plugin",
                                        .summary = "shows, checks and begins plugins",
                                        .example = "tenon plugin list",
                                        .build = build_plugin,
                                        .judges_plugins = true};

}  // namespace tenon::cli
