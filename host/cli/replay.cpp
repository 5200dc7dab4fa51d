// `tenon replay`: runs the operations of an execution record again, on fakes.
#include "cli/graph_file.h"
#include "cli/output.h"
#include "config/config.h"
#include "graph/verify.h"

#include <filesystem>

namespace tenon::cli {

namespace {

struct ReplayOptions {
  std::string record;
  ModelOptions archive;
};

// The flags of the record stand beside it.
void use_recorded_flags(const std::string& record) {
  std::filesystem::path flags = std::filesystem::path(record).parent_path() / "flags.toml";
  std::error_code error;
  if (std::filesystem::is_regular_file(flags, error)) config::use_file(flags.string());
}

int replay(const ReplayOptions& options, const Globals& globals) {
  use_recorded_flags(options.record);
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

Action build(Options& app) {
  auto options = std::make_shared<ReplayOptions>();
  app.add_option("FILE", options->record, "a record that dynamo.replay_record_enabled wrote")
      .required();
  return [options](const Globals& globals) { return replay(*options, globals); };
}

}  // namespace

extern constinit const Verb verb_replay{
    .name = "replay",
    .summary = "runs the operations again that led to an error of a compilation",
    .example = "tenon replay tenon_debug/run_4711/0_0/replay.tng",
    .build = build};

}  // namespace tenon::cli
