// Options as CLI11 takes them, in the one file that compiles much of CLI11.
#include "cli/parser.h"

namespace tenon::cli {

namespace {

CLI::Option* add(CLI::App& app, const Option& option) {
  return std::visit(
      [&](auto* target) -> CLI::Option* {
        using Value = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_same_v<Value, bool> || std::is_same_v<Value, int>)
          if (option.is_flag) return app.add_flag(option.name, *target, option.doc);
        return app.add_option(option.name, *target, option.doc);
      },
      option.target);
}

void declare(CLI::App& app, const Options& options) {
  for (const Option& option : options.options) {
    CLI::Option* made = add(app, option);
    made->group(option.group)->required(option.is_required);
    if (option.takes_one) made->allow_extra_args(false);
    if (!option.choices.empty()) made->check(CLI::IsMember(option.choices));
    if (option.range) made->check(CLI::Range(option.range->first, option.range->second));
    if (option.is_positive) made->check(CLI::PositiveNumber);
    if (!option.excluded.empty()) made->excludes(app.get_option(option.excluded));
  }
  for (const Options& verb : options.verbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.summary);
    sub->callback(verb.on_chosen)->fallthrough();
    declare(*sub, verb);
  }
  if (!options.verbs.empty()) app.require_subcommand(1);
  if (!options.example.empty()) app.footer("Example:\n  " + options.example);
}

}  // namespace

std::unique_ptr<CLI::App> make_parser(const Verb& verb, Globals& globals, Action& action) {
  auto app =
      std::make_unique<CLI::App>(std::string(verb.summary), "tenon " + std::string(verb.name));
  app->get_formatter()->column_width(36);
  Options options;
  options.example = verb.example;
  action = verb.build(options);
  add_globals(options, globals);
  declare(*app, options);
  return app;
}

}  // namespace tenon::cli
