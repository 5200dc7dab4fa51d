// `tenon config`: every flag, its value and where the value comes from.
#include "config/config.h"

#include "backend/backend.h"
#include "cli/config_files.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "config/reading.h"
#include "core/joined.h"

#include <algorithm>

namespace tenon::cli {

namespace {

using config::FlagInfo;
using config::Source;

struct ConfigOptions {
  std::string key, value, path = "configs";
  bool all = false, changed = false, no_effect = false, pending = false, toml = false, cpp = false;
  bool project = false;
};

Json to_json(const config::Value& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Json to_json(const FlagInfo& flag) {
  return {{"key", flag.key},
          {"type", flag.type},
          {"value", to_json(flag.value)},
          {"default", to_json(flag.default_value)},
          {"layer", flag.source.layer},
          {"origin", flag.source.origin},
          {"choices", flag.choices},
          {"status", flag.status},
          {"why", flag.why},
          {"environment", flag.environment},
          {"doc", flag.doc}};
}

bool is_changed(const FlagInfo& flag) { return flag.value != flag.default_value; }

std::vector<FlagInfo> chosen(const ConfigOptions& options) {
  config::declare_all_options();
  std::vector<FlagInfo> flags = config::list();
  std::erase_if(flags, [&](const FlagInfo& f) {
    if (options.no_effect) return f.status != "no_effect";
    if (options.pending) return f.status != "pending";
    if (options.changed) return !is_changed(f);
    return !options.all && f.status == "no_effect";
  });
  return flags;
}

std::string origin_of(const Source& source) {
  return source.origin.empty() || source.layer == "default" ? source.layer : source.origin;
}

// Why a flag has no effect, now or ever; empty for those that have one.
std::string reason_of(const FlagInfo& flag) {
  if (flag.status != "pending") return flag.why;
  return "comes with " + (flag.why.empty() ? "a later version" : flag.why);
}

int list(const ConfigOptions& options, const Globals& globals) {
  require(!globals.json || !(options.toml || options.cpp),
          "--json with --toml or --cpp: stdout holds one of them; choose one");
  if (options.toml) return print(config::save()), 0;
  if (options.cpp) return print(config::save_as_cpp()), 0;
  std::vector<FlagInfo> flags = chosen(options);
  if (globals.json) {
    Json document{{"schema", 1}, {"flags", Json::Array{}}};
    for (const FlagInfo& f : flags) document["flags"].items().push_back(to_json(f));
    return print_json(document), 0;
  }
  bool reasons = options.no_effect || options.pending;
  Table table({"FLAG", "VALUE", "FROM", "STATUS", reasons ? "REASON" : "MEANING"});
  for (const FlagInfo& f : flags)
    table.add({f.key, config::value_text(f.value), origin_of(f.source), f.status,
               reasons ? reason_of(f) : f.doc});
  print(table.text());
  return 0;
}

int get(const ConfigOptions& options, const Globals& globals) {
  FlagInfo flag = config::info(options.key);
  if (globals.json)
    print_json({{"schema", 1}, {"flag", to_json(flag)}});
  else
    print(config::value_text(flag.value) + "\n");
  return 0;
}

int set(const ConfigOptions& options, const Globals& globals) {
  std::string path = config::setting_file(config::info(options.key).key, options.project);
  config::write_setting(path, options.key, options.value);
  if (globals.json)
    print_json({{"schema", 1}, {"file", path}});
  else
    print("written to " + path + "\n");
  return 0;
}

int doc(const ConfigOptions& options, const Globals& globals) {
  FlagInfo flag = config::info(options.key);
  std::vector<Source> layers = config::explain(options.key);
  if (globals.json) {
    Json document{{"schema", 1}, {"flag", to_json(flag)}, {"layers", Json::Array{}}};
    for (const Source& s : layers)
      document["layers"].items().push_back(
          {{"layer", s.layer}, {"origin", s.origin}, {"value", to_json(s.value)}});
    return print_json(document), 0;
  }
  print(bold(flag.key) + " (" + flag.type + ")\n  " + flag.doc + "\n");
  if (!flag.choices.empty()) print("  one of: " + joined(flag.choices) + "\n");
  if (!flag.environment.empty()) print("  environment: " + flag.environment + "\n");
  if (flag.status != "active") print(message("  {}: {}\n", flag.status, reason_of(flag)));
  print("  layers, the last one counts:\n");
  for (const Source& s : layers)
    print(message("    {} = {}{}\n", s.layer, config::value_text(s.value),
                  s.origin.empty() ? "" : " (" + s.origin + ")"));
  return 0;
}

int path(const ConfigOptions&, const Globals& globals) {
  Json document{{"schema", 1}, {"folders", Json::Array{}}, {"files", config_file_facts()}};
  for (const auto& [layer, folder] : config::config_folders())
    document["folders"].items().push_back({{"layer", config::name_of(layer)}, {"folder", folder}});
  if (globals.json) return print_json(document), 0;
  for (const Json& folder : document["folders"])
    print(message("{}: {}\n", folder["layer"].text(), folder["folder"].text()));
  for (const Json& file : document["files"]) print(config_file_line(file) + "\n");
  return 0;
}

int write(const ConfigOptions& options, const Globals& globals) {
  config::write_config_files(options.path);
  if (globals.json)
    print_json({{"schema", 1}, {"folder", options.path}});
  else
    print("written to " + options.path + "\n");
  return 0;
}

int check(const ConfigOptions& options, const Globals& globals) {
  std::vector<std::string> tolerated = config::check_file(options.path);
  if (globals.json) {
    Json warnings = Json::Array{};
    for (std::string& text : tolerated) warnings.items().push_back(std::move(text));
    print_json(
        {{"schema", 1}, {"file", options.path}, {"ok", true}, {"warnings", std::move(warnings)}});
    return 0;
  }
  for (const std::string& text : tolerated) print(options.path + ": " + text + "\n");
  if (tolerated.empty()) print(options.path + ": no mistakes\n");
  return 0;
}

int diff(const ConfigOptions&, const Globals& globals) { return list({.changed = true}, globals); }

using Step = int (*)(const ConfigOptions&, const Globals&);

Options& add_step(Options& app, std::string_view name, std::string_view summary, Step step,
                  const std::shared_ptr<Step>& chosen_step) {
  return app.add_verb(name, summary, [step, chosen_step] { *chosen_step = step; });
}

void add_list_options(Options& sub, ConfigOptions& options) {
  sub.add_flag("--all", options.all, "flags without effect in C++ too");
  sub.add_flag("--changed", options.changed, "those that are not at their defaults");
  sub.add_flag("--no-effect", options.no_effect, "those without effect in C++, with the reason");
  sub.add_flag("--pending", options.pending, "those whose effect comes later, and with what");
  sub.add_flag("--toml", options.toml, "the changed ones as TOML");
  sub.add_flag("--cpp", options.cpp, "the changed ones as C++");
}

Action build_config(Options& app) {
  auto options = std::make_shared<ConfigOptions>();
  auto step = std::make_shared<Step>(nullptr);
  add_list_options(add_step(app, "list", "flags with values and where these come from", list, step),
                   *options);
  Options& get_app = add_step(app, "get", "the value of a flag", get, step);
  get_app.add_option("KEY", options->key, "module.flag").required();
  Options& set_app = add_step(app, "set", "writes a flag into the user's file", set, step);
  set_app.add_option("KEY", options->key, "module.flag").required();
  set_app.add_option("VALUE", options->value, "the value").required();
  set_app.add_flag("--project", options->project, "into the project's file instead");
  Options& doc_app = add_step(app, "doc", "what a flag means, and each layer's value", doc, step);
  doc_app.add_option("KEY", options->key, "module.flag").required();
  add_step(app, "diff", "flags that are not at their defaults", diff, step);
  add_step(app, "path", "the folders that are searched, and the files that are read", path, step);
  Options& write_app = add_step(app, "write", "writes a TOML file a module", write, step);
  write_app.add_option("FOLDER", options->path, "where to (configs)");
  Options& check_app = add_step(app, "check", "looks for mistakes in a TOML file", check, step);
  check_app.add_option("FILE", options->path, "the file").required();
  return [options, step](const Globals& globals) { return (*step)(*options, globals); };
}

}  // namespace

extern constinit const Verb verb_config{.name = "config",
                                        .summary = "shows and changes flags",
                                        .example = "tenon config doc dynamo.recompile_limit",
                                        .build = build_config};

}  // namespace tenon::cli
