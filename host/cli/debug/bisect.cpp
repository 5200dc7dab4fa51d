// `tenon bisect`: the first stage, and the operations, at which a model fails.
#include "debug/minify/bisect.h"
#include "cli/debug/failing_model.h"
#include "cli/output.h"
#include "core/error.h"
#include "ops/op_table.h"

namespace tenon::cli {

namespace {

/// One node that fails, for people.
struct Culprit {
  std::string op, value, module_path, where;
};

Culprit culprit_of(const Graph& graph, NodeId n) {
  const Node& node = graph.node(n);
  Culprit out{std::string(entry_of(node.op).name), "", node.module_path, ""};
  if (node.n_results) out.value = "%" + display_name(graph, node.first_result);
  if (node.where.line > 0) out.where = message("{}:{}", node.where.file, node.where.line);
  return out;
}

std::string line_of(const Culprit& c) {
  std::string out = c.op;
  for (const std::string& part : {c.value, c.module_path, c.where})
    if (!part.empty()) out += "  " + part;
  return out;
}

Json to_json(const Bisected& found, const std::vector<Culprit>& culprits) {
  Json out{{"schema", 1},     {"stages", Json::Array{}}, {"stage", nullptr},
           {"half", nullptr}, {"region", nullptr},       {"nodes", Json::Array{}}};
  for (const BisectStage& s : found.stages)
    out["stages"].items().push_back({{"backend", s.backend},
                                     {"kind", std::string(name_of(s.failure.kind))},
                                     {"failure", s.failure ? Json(s.failure.text) : Json()}});
  if (found.has_failure()) out["stage"] = found.stages.back().backend;
  if (found.half != TrainingHalf::both) out["half"] = std::string(name_of(found.half));
  if (found.region) out["region"] = *found.region;
  for (const Culprit& c : culprits)
    out["nodes"].items().push_back(
        {{"op", c.op}, {"value", c.value}, {"module", c.module_path}, {"where", c.where}});
  return out;
}

void print_found(const Bisected& found, const std::vector<Culprit>& culprits) {
  Table table({"STAGE", "ADDS", "VERDICT"});
  for (const BisectStage& s : found.stages)
    table.add({s.backend, std::string(s.adds),
               s.failure ? message("{}: {}", name_of(s.failure.kind), s.failure.text) : "fine"});
  print(table.text());
  if (!found.has_failure()) return print("no stage fails\n");
  std::string part;
  if (found.half != TrainingHalf::both) part = message(", in the {} half", name_of(found.half));
  if (found.region) part += message(", in region {}", *found.region);
  print(message("the failure begins at stage {}{}, {}:\n", found.stages.back().backend, part,
                culprits.size() == 1 ? "with one operation"
                                     : message("with {} operations together", culprits.size())));
  for (const Culprit& c : culprits) print("  " + line_of(c) + "\n");
}

int run_bisect(const FailingModel& options, const Globals& globals) {
  Candidate whole = read_candidate(options);
  JudgeInChildren children(options, globals);
  auto say = [&](const std::string& text) {
    if (!globals.quiet) print_message(text);
  };
  Bisected found = bisect(
      children.judge(), whole, backend_of(options), options.grad,
      [&](const BisectStage& s) {
        say(message("stage {}: {}", s.backend, name_of(s.failure.kind)));
      },
      [&](const SearchProgress& p) { say(to_text(p)); });
  std::vector<Culprit> culprits;
  for (NodeId n : found.nodes) culprits.push_back(culprit_of(*whole.graph, n));
  if (globals.json)
    print_json(to_json(found, culprits));
  else
    print_found(found, culprits);
  return found.has_failure() ? 1 : 0;
}

Action build_bisect(Options& app) {
  auto options = std::make_shared<FailingModel>();
  add_failing_model_options(app, *options);
  return [options](const Globals& globals) { return run_bisect(*options, globals); };
}

}  // namespace

extern constinit const Verb verb_bisect{
    .name = "bisect",
    .summary = "the first stage, and the operations, at which a model fails",
    .example = "tenon bisect bert.pt2 --backend mine --grad",
    .build = build_bisect};

}  // namespace tenon::cli
