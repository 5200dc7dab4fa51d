// Options as CLI11 takes them, in the one file that sees CLI11.
#include "cli/parser.h"

#include "config/flag_def.h"
#include "core/error.h"
#include "core/joined.h"

#include <CLI/CLI.hpp>
#include <algorithm>

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

// The options that the verb takes, and the chosen one of its own verbs.
void add_names(const Options& options, const CLI::App& app, std::vector<std::string>& names) {
  for (const Option& option : options.options)
    for (const std::string& name : dashed_names(option)) names.push_back(name);
  for (const CLI::App* chosen : app.get_subcommands())
    for (const Options& verb : options.verbs)
      if (verb.name == chosen->get_name()) add_names(verb, *chosen, names);
}

// "config lst", or nothing where one of several verbs belongs.
std::string verb_message(const Verb& verb, const Options& options,
                         const std::vector<std::string>& left) {
  std::vector<std::string> known;
  for (const Options& inner : options.verbs) known.push_back(inner.name);
  if (left.empty() || left.front().starts_with('-'))
    return message("{}: expected one of {}", verb.name, joined(known));
  return message("{}: there is no verb '{} {}'; the nearest are {}", verb.name, verb.name,
                 left.front(), nearest_names(left.front(), known));
}

// What is wrong with a command line, in our words where CLI11 does not help.
std::string usage_message(const Verb& verb, const Options& options, const CLI::App& app,
                          const CLI::ParseError& error) {
  std::string hint = message("; see tenon {} --help", verb.name);
  bool extras = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  std::vector<std::string> left = app.remaining(true);
  bool lacks_verb = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) &&
                    !options.verbs.empty() && app.get_subcommands().empty();
  if (lacks_verb) return verb_message(verb, options, left) + hint;
  if (!extras || left.empty()) return message("{}: {}{}", verb.name, error.what(), hint);
  const std::string& first = left.front();
  if (!first.starts_with('-'))
    return message("{}: unexpected argument '{}'{}", verb.name, first, hint);
  std::string name = first.substr(0, first.find('='));
  std::vector<std::string> known{"--help", "-h"};
  add_names(options, app, known);
  return message("{}: there is no option {}; the nearest are {}{}", verb.name, name,
                 nearest_names(name, known), hint);
}

}  // namespace

Options options_of(const Verb& verb, Globals& globals, Action& action) {
  Options options;
  options.example = verb.example;
  action = verb.build(options);
  add_globals(options, globals);
  return options;
}

std::vector<std::string> dashed_names(const Option& option) {
  if (!option.name.starts_with('-')) return {};
  return config::split(option.name, ',');
}

ReadLine read_line(const Verb& verb, const Options& options, std::vector<std::string> words) {
  CLI::App app(std::string(verb.summary), "tenon " + std::string(verb.name));
  app.get_formatter()->column_width(36);
  declare(app, options);
  std::ranges::reverse(words);  // as CLI11 wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    return {.help = app.help()};
  } catch (const CLI::ParseError& error) {
    return {.problem = usage_message(verb, options, app, error)};
  }
  return {};
}

}  // namespace tenon::cli
