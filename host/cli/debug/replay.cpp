// `tenon replay`: runs again what was recorded: the operations that led to an error, on fakes, or the
// calls of a session.
#include "cli/debug/failing_model.h"
#include "cli/output.h"
#include "core/error.h"
#include "debug/replay_calls.h"
#include "graph/verify.h"

#include <algorithm>
#include <filesystem>

namespace tenon::cli {

namespace {

struct RecordOptions {
  std::string record, backend;
  ModelOptions archive;
};

int replay_operations(const RecordOptions& options, const Globals& globals) {
  require(options.backend.empty(),
          "--backend: the operations of {} run on fakes; only a session of calls takes a backend",
          options.record);
  use_flags_of(std::filesystem::path(options.record).parent_path().string());
  ParseOptions as_recorded;
  as_recorded.check_metadata = false;  // what differs is what is asked for here
  std::shared_ptr<Graph> graph = load_graph(options.record, options.archive, as_recorded);
  std::vector<std::string> problems = meta_problems_of(*graph);
  std::string error = problems.empty() ? "" : problems.front();
  size_t n = graph->nodes().size();
  if (globals.json)
    print_json({{"schema", 1}, {"operations", n}, {"error", error.empty() ? Json() : Json(error)}});
  else if (error.empty())
    print(message("{} operations ran again without an error\n", n));
  if (!error.empty()) print_message(error);
  return error.empty() ? 0 : 1;
}

Json to_json(const ReplayedCall& call) {
  return {{"call", call.number},
          {"graph", call.graph},
          {"backend", call.backend},
          {"by_value", call.by_value},
          {"problem", call.problem.empty() ? Json() : Json(call.problem)}};
}

int replay_session(const RecordOptions& options, const Globals& globals) {
  use_flags_of(options.record);
  if (!options.backend.empty()) backend_names({options.backend});
  std::vector<ReplayedCall> calls = replay_calls(
      options.record, {options.backend, options.archive.mode}, [&](const ReplayedCall& call) {
        if (call.problem.empty()) return;
        print_message(message("call {} of {} on {}: {}", call.number, call.graph, call.backend,
                              call.problem));
      });
  auto failed = static_cast<size_t>(
      std::ranges::count_if(calls, [](const ReplayedCall& call) { return !call.problem.empty(); }));
  if (globals.json) {
    Json document{{"schema", 1}, {"calls", Json::Array{}}, {"failed", failed}};
    for (const ReplayedCall& call : calls) document["calls"].items().push_back(to_json(call));
    print_json(document);
  } else {
    print(message("{} calls ran again, {} of them with a problem\n", calls.size(), failed));
  }
  return failed == 0 ? 0 : 1;
}

Action build_replay(Options& app) {
  auto options = std::make_shared<RecordOptions>();
  app.add_option("RECORD", options->record,
                 "a file that dynamo.replay_record_enabled wrote, or a folder of "
                 "compiler.record_calls")
      .required();
  app.add_option("--backend", options->backend, "of a session: instead of the recorded ones");
  app.add_option("--mode", options->archive.mode, "of a session: a mode of the backend");
  return [options](const Globals& globals) {
    return holds_session(options->record) ? replay_session(*options, globals)
                                          : replay_operations(*options, globals);
  };
}

}  // namespace

extern constinit const Verb verb_replay{
    .name = "replay",
    .summary = "runs recorded operations or calls again",
    .example =
        "tenon replay tenon_debug/run_4711/0_0/replay.tng\n"
        "tenon replay tenon_debug/run_4711/calls --backend eager",
    .build = build_replay};

}  // namespace tenon::cli
