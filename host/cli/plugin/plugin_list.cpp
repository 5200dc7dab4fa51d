// `tenon plugin list`: one line a file, with what became of it and why.
#include "backend/catalog.h"
#include "cli/plugin/plugin.h"

namespace tenon::cli {

Json verdict_json(const FoundPlugin& plugin) {
  return {{"state", name_of(plugin.state)},
          {"code", code_of(plugin.diagnosis.fault)},
          {"reason", plugin.diagnosis.reason},
          {"hint", plugin.diagnosis.hint}};
}

std::vector<std::string> warning_texts(const FoundPlugin& plugin) {
  std::vector<std::string> out;
  for (const Diagnosis& w : plugin.warnings)
    out.push_back(w.reason + (w.hint.empty() ? "" : "; " + w.hint));
  return out;
}

namespace {

Json row_of(const FoundPlugin& p) {
  bool read = !p.manifest.name.empty();
  Json out{{"file", p.path},
           {"source", name_of(p.source)},
           {"name", p.manifest.name},
           {"version", read ? to_text(p.manifest.version) : ""}};
  out.update(verdict_json(p));
  out["warnings"] = warning_texts(p);
  return out;
}

int list(const Globals& globals) {
  std::vector<FoundPluginPtr> plugins = plugin_catalog().list();
  if (globals.json) {
    Json document{{"schema", 1}, {"plugins", Json::Array{}}};
    for (const FoundPluginPtr& p : plugins) document["plugins"].items().push_back(row_of(*p));
    print_json(document);
    return 0;
  }
  Table table({"STATE", "CODE", "FILE", "REASON"});
  for (const FoundPluginPtr& p : plugins) {
    const Diagnosis& d = p->diagnosis;
    std::string why = d.reason + (d.hint.empty() ? "" : "; " + d.hint);
    if (!d && !p->warnings.empty()) why = "doubtful: " + warning_texts(*p)[0];
    table.add({std::string(name_of(p->state)), code_of(d.fault), p->path, why});
  }
  print(table.text());
  return 0;
}

Action build_plugin_list(Options&) { return list; }

}  // namespace

extern constinit const Verb plugin_list{.name = "list",
                                        .summary = "the plugin files, with state, code and reason",
                                        .example = "tenon plugin list --json",
                                        .build = build_plugin_list};

}  // namespace tenon::cli
