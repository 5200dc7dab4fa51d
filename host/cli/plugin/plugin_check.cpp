// `tenon plugin check`: whether a plugin file keeps the rules, check by check.
#include "backend/backend.h"
#include "backend/catalog.h"
#include "cli/exit_status.h"
#include "cli/plugin/plugin.h"
#include "cli/temporary_folder.h"
#include "config/config.h"
#include "core/error.h"
#include "core/joined.h"
#include "debug/plugin_kit/kit.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace tenon::cli {

namespace {

struct CheckOptions {
  KitSettings kit;
  std::string phase;  ///< of a child; empty: this is the parent
  size_t first = 0;
};

std::string quoted_if_needed(const std::string& word) {
  bool plain = std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("_-./+=:,").find(static_cast<char>(c)) != std::string_view::npos;
  });
  return plain && !word.empty() ? word : "'" + word + "'";
}

// The command that runs one check alone.
std::string replay_of(const KitResult& result, const KitSettings& kit) {
  std::vector<std::string> words{"tenon", "plugin", "check", kit.file, "--case", result.name};
  if (!result.backend.empty()) words.insert(words.end(), {"--backend", result.backend});
  words.insert(words.end(), {"--seed", std::to_string(kit.seed)});
  for (const std::string& m : kit.models) words.insert(words.end(), {"--models", m});
  for (const std::string& o : kit.ops) words.insert(words.end(), {"--ops", o});
  if (kit.quick) words.emplace_back("--quick");
  for (std::string& word : words) word = quoted_if_needed(word);
  return joined(words, " ");
}

KitCommand child_command(const KitSettings& kit, const Globals& globals) {
  std::vector<std::string> line{"tenon", "plugin", "check", kit.file, "-q"};
  auto add = [&](const std::string& option, const std::string& value) {
    if (!value.empty()) line.push_back(option + "=" + value);
  };
  add("--backend", kit.backend);
  add("--device", kit.device);
  add("--case", kit.only);
  add("--level", std::to_string(kit.level));
  add("--seed", std::to_string(kit.seed));
  add("--work-folder", kit.work_folder);
  if (kit.quick) line.emplace_back("--quick");
  for (const std::string& m : kit.models) add("--models", m);
  for (const std::string& o : kit.ops) add("--ops", o);
  for (const std::string& s : globals.settings) add("--set", s);
  for (const std::string& p : globals.plugins) add("--plugin", p);
  for (const std::string& p : globals.plugin_path) add("--plugin-path", p);
  add("--config", globals.config_file);
  if (globals.threads > 0) add("--threads", std::to_string(globals.threads));
  return [line](const std::string& phase, size_t first) {
    std::vector<std::string> child = line;
    child.push_back("--phase=" + phase);
    child.push_back("--first=" + std::to_string(first));
    return child;
  };
}

// ---- reports

std::string indented(const std::string& text) {
  std::string out = "         ";
  for (char c : text) {
    out += c;
    if (c == '\n') out += "         ";
  }
  return out + "\n";
}

void print_result(const KitResult& result, const KitSettings& kit) {
  std::string word = name_of(result.status);
  word.resize(8, ' ');
  std::string line = message("{} {}", word, result.name);
  if (!result.backend.empty()) line += " [" + result.backend + "]";
  bool failed = result.status == KitStatus::failed;
  if (!failed && !result.detail.empty()) line += ": " + result.detail;
  print(line + "\n");
  if (!failed) return;
  print(indented(message("{} (section {})", result.detail, result.section)));
  if (!result.graph.empty()) print(indented(message("graph {}, seed {}", result.graph, kit.seed)));
  if (!result.log.empty()) print(indented("log: " + result.log));
  print(indented("replay: " + replay_of(result, kit)));
}

std::string_view name_of(KitVerdict verdict) {
  constexpr std::string_view names[] = {"conformant", "not conformant", "not a plugin",
                                        "cannot be loaded"};
  return names[static_cast<size_t>(verdict)];
}

Json to_json(const KitResult& result, const KitSettings& kit) {
  Json out{{"check", result.name},
           {"backend", result.backend.empty() ? Json(nullptr) : Json(result.backend)},
           {"level", result.level},
           {"section", result.section},
           {"status", result.status == KitStatus::passed   ? "passed"
                      : result.status == KitStatus::failed ? "failed"
                                                           : name_of(result.status)},
           {"detail", result.detail},
           {"graph", result.graph.empty() ? Json(nullptr) : Json(result.graph)},
           {"ms", std::round(result.ms * 10) / 10}};
  if (!result.log.empty()) out["log"] = result.log;
  if (result.status == KitStatus::failed) out["replay"] = replay_of(result, kit);
  return out;
}

int count(const KitReport& report, KitStatus status) {
  return static_cast<int>(std::count_if(report.results.begin(), report.results.end(),
                                        [&](const KitResult& r) { return r.status == status; }));
}

Json to_json(const KitReport& report, const KitSettings& kit) {
  Json out{{"schema", 1},
           {"file", kit.file},
           {"plugin", report.plugin},
           {"version", report.version},
           {"verdict", name_of(report.verdict)},
           {"reason", report.reason},
           {"seed", kit.seed},
           {"level", kit.level},
           {"checks", Json::Array{}}};
  for (const KitResult& r : report.results) out["checks"].items().push_back(to_json(r, kit));
  out["passed"] = count(report, KitStatus::passed);
  out["failed"] = count(report, KitStatus::failed);
  out["skipped"] = count(report, KitStatus::skipped);
  out["warnings"] = count(report, KitStatus::warned);
  return out;
}

ExitStatus status_of(KitVerdict verdict) {
  switch (verdict) {
    case KitVerdict::conformant:
      return ExitStatus::done;
    case KitVerdict::not_conformant:
      return ExitStatus::check_failed;
    case KitVerdict::not_a_plugin:
      return ExitStatus::bad_file;
    case KitVerdict::cannot_be_loaded:
      return ExitStatus::plugin;
  }
  return ExitStatus::internal;
}

// The file itself comes first, also one that crashed before: here that is one failed check.
void search_first(const KitSettings& kit, const Globals& globals) {
  config::set_from_command_line("plugins.quarantine=false");
  std::vector<std::string> files{kit.file};
  files.insert(files.end(), globals.plugins.begin(), globals.plugins.end());
  set_plugin_search(files, globals.plugin_path);
}

int check(const CheckOptions& options, const Globals& globals) {
  KitSettings kit = options.kit;
  search_first(kit, globals);
  if (!options.phase.empty()) {
    run_kit_phase(kit, options.phase, options.first);
    return 0;
  }
  TemporaryFolder folder("tenon_plugin_");  // in which one phase leaves files for another
  kit.work_folder = folder.path.string();
  auto on_result = [&](const KitResult& result) {
    bool quiet = globals.quiet && result.status != KitStatus::failed;
    if (!globals.json && !quiet) print_result(result, kit);
  };
  KitReport report = check_plugin(kit, child_command(kit, globals), on_result);
  if (globals.json) {
    print_json(to_json(report, kit));
  } else if (report.results.empty()) {
    print_message(report.reason);
  } else {
    print(message("{} passed, {} failed, {} skipped, {} with warnings: {} {}\n",
                  count(report, KitStatus::passed), count(report, KitStatus::failed),
                  count(report, KitStatus::skipped), count(report, KitStatus::warned),
                  report.plugin, name_of(report.verdict)));
  }
  return static_cast<int>(status_of(report.verdict));
}

Action build_plugin_check(Options& app) {
  auto options = std::make_shared<CheckOptions>();
  KitSettings& kit = options->kit;
  app.add_option("FILE", kit.file, "the .so file").required();
  app.add_option("--backend", kit.backend, "one backend of the plugin");
  app.add_option("--level", kit.level, "0 load, 1 correct, 2 dynamic, 3 robust (default)")
      .within(0, 3);
  app.add_option("--device", kit.device, "one device type of the plugin");
  app.add_option("--seed", kit.seed, "of the numbers in inputs");
  app.add_option("--time", kit.time_limit, "seconds that one check may take (30)").positive();
  app.add_option("--case", kit.only, "one check, by the name that the report gives");
  app.add_flag("--quick", kit.quick, "few repetitions");
  app.add_option("--models", kit.models, "archives with recordings, run through each backend")
      .one_at_a_time();
  app.add_option("--ops", kit.ops, "recorded calls of ops, run through each backend")
      .one_at_a_time();
  app.add_option("--phase", options->phase, "").hidden();
  app.add_option("--first", options->first, "").hidden();
  app.add_option("--work-folder", kit.work_folder, "").hidden();
  app.add_option("--nonce", kit.nonce, "").hidden();
  return [options](const Globals& globals) { return check(*options, globals); };
}

}  // namespace

extern constinit const Verb plugin_check{
    .name = "check",
    .summary = "whether a plugin keeps the rules, each part of it in a child process",
    .example = "tenon plugin check build/plugins/tenon_mine.so --level 1",
    .build = build_plugin_check};

}  // namespace tenon::cli
