// The list of verbs and the parser that each of them gets.
#include "cli/verb.h"

namespace tenon::cli {

extern const Verb verb_backends;
extern const Verb verb_run;
extern const Verb verb_check;
extern const Verb verb_compile;
extern const Verb verb_bench;
extern const Verb verb_bench_compile;
extern const Verb verb_bench_worker;
extern const Verb verb_graph;
extern const Verb verb_ops;
extern const Verb verb_explain;
extern const Verb verb_report;
extern const Verb verb_trace;
extern const Verb verb_plugin;
extern const Verb verb_config;
extern const Verb verb_cache;
extern const Verb verb_replay;
extern const Verb verb_minify;
extern const Verb verb_bisect;
extern const Verb verb_doctor;
extern const Verb verb_completion;
extern const Verb verb_man;

namespace {

constexpr const Verb* all_verbs[] = {
    &verb_backends,     &verb_run,           &verb_check,   &verb_compile, &verb_bench,
    &verb_bench_worker, &verb_bench_compile, &verb_explain, &verb_report,  &verb_trace,
    &verb_graph,        &verb_ops,           &verb_plugin,  &verb_config,  &verb_cache,
    &verb_replay,       &verb_minify,        &verb_bisect,  &verb_doctor,  &verb_completion,
    &verb_man,
};

}  // namespace

std::span<const Verb* const> verbs() { return all_verbs; }

const Verb* find_verb(std::string_view name) {
  for (const Verb* verb : all_verbs)
    if (verb->name == name) return verb;
  return nullptr;
}

void add_globals(Options& app, Globals& globals) {
  app.add_flag("--json", globals.json, "one JSON document on stdout").in_group(globals_group);
  app.add_flag("-q,--quiet", globals.quiet, "no warnings on stderr").in_group(globals_group);
  app.add_flag("-v,--verbose", globals.verbose, "more on stderr; -vv: still more")
      .in_group(globals_group);
  app.add_option("--set", globals.settings, "section.flag=value, over all other settings")
      .one_at_a_time()
      .in_group(globals_group);
  app.add_option("--config", globals.config_file, "a TOML file with flags").in_group(globals_group);
  app.add_option("--threads", globals.threads, "CPU threads")
      .within(1, 1023)
      .in_group(globals_group);
  app.add_option("--color", globals.color, "auto, always or never")
      .one_of({"auto", "always", "never"})
      .in_group(globals_group);
  app.add_option("--plugin", globals.plugins, "a plugin file, tried before all others")
      .one_at_a_time()
      .in_group(globals_group);
  app.add_option("--plugin-path", globals.plugin_path, "folders of plugins, separated by ':'")
      .one_at_a_time()
      .in_group(globals_group);
}

std::vector<std::string> split_commas(const std::vector<std::string>& values) {
  std::vector<std::string> out;
  for (const std::string& value : values) {
    size_t begin = 0;
    while (begin <= value.size()) {
      size_t end = std::min(value.find(',', begin), value.size());
      if (end > begin) out.push_back(value.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return out;
}

}  // namespace tenon::cli
