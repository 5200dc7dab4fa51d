// `tenon plugin`: hands over to one of its sub-commands.
#include "cli/plugin/plugin.h"

namespace tenon::cli {

namespace {

constexpr const Verb* sub_commands[] = {&plugin_list, &plugin_info, &plugin_check,
                                        &plugin_load, &plugin_new,  &plugin_release};

Action build(CLI::App& app) {
  auto chosen = std::make_shared<Action>();
  app.require_subcommand(1);
  for (const Verb* command : sub_commands) {
    CLI::App* sub = app.add_subcommand(std::string(command->name), std::string(command->summary));
    if (!command->example.empty()) sub->footer("Example:\n  " + std::string(command->example));
    Action action = command->build(*sub);
    sub->callback([chosen, action = std::move(action)] { *chosen = action; });
  }
  return [chosen](const Globals& globals) { return (*chosen)(globals); };
}

}  // namespace

extern constinit const Verb verb_plugin{.name = "plugin",
                                        .summary = "shows, checks and begins plugins",
                                        .example = "tenon plugin list",
                                        .build = build};

}  // namespace tenon::cli
