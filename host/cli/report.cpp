// `tenon report`: what became of a model, as one page for a browser.
#include "report/html.h"

#include "cli/bench/process_memory.h"
#include "cli/explain.h"
#include "compile/compile_graph.h"
#include "core/error.h"
#include "core/threads/thread_pool.h"
#include "core/version.h"
#include "graph/text/page_graph.h"

#include <tenon/config.h>

#include <filesystem>

namespace tenon::cli {

namespace {

using report::HtmlPage;

struct ReportOptions {
  std::string model, backend, output;
  ModelOptions archive;
  InputOptions inputs;
};

using Rows = std::vector<std::vector<std::string>>;

void add_header(HtmlPage& page, const ReportOptions& options, const Json& facts,
                const MeasuredModel& m) {
  page.table({"", ""},
             {{"command", "tenon report " + options.model +
                              (options.backend.empty() ? "" : " --backend ") + options.backend},
              {"tenon", std::string(version)},
              {"backend",
               facts["backend"]["name"].text() + " of plugin " + facts["backend"]["plugin"].text()},
              {"processor", proc_value("/proc/cpuinfo", "model name")},
              {"threads", std::to_string(num_threads())},
              {"compiled in", rounded(m.compile_ms) + " ms"},
              {"a call", rounded(m.median_us) + " µs"}});
  Rows flags;
  for (const config::FlagInfo& flag : config::list())
    if (flag.source.layer != "default")
      flags.push_back(
          {flag.key, config::value_text(flag.value), flag.source.layer, flag.source.origin});
  page.subheading("Changed flags");
  if (flags.empty())
    page.paragraph("None.");
  else
    page.table({"FLAG", "VALUE", "LAYER", "FROM"}, flags);
}

void add_stages(HtmlPage& page, const Json& facts) {
  page.heading("Stages");
  std::vector<report::ChartBar> bars;
  double at = 0;
  for (const Json& stage : facts["stages"]) {
    double ms = stage["ms"].number();
    bars.push_back({stage["stage"].text(), at, at + ms});
    at += ms;
  }
  page.picture(report::bar_chart_svg(bars, "ms"));
}

void add_graph(HtmlPage& page, const std::string& title, const Graph& graph, const Json& facts,
               std::vector<std::string> run_by = {}) {
  page.heading(title);
  page.paragraph(message("{} nodes, {} inputs, {} outputs", facts["nodes"].integer(),
                         facts["inputs"].integer(), facts["outputs"].integer()));
  page.graph(page_graph(graph, {.run_by = std::move(run_by)}));
  Rows rows;
  for (const auto& [name, count] : facts["ops"].members())
    rows.push_back({name, std::to_string(count.integer())});
  page.table({"OP", "NODES"}, rows);
}

void add_conditions(HtmlPage& page, const Json& facts) {
  page.heading("Guards");
  Rows rows;
  for (const Json& c : facts["conditions"])
    rows.push_back({c["text"].text(), c["asked_by"].text(), c["at"].text()});
  for (const char* kind : {"ranges", "guards"})
    for (const Json& text : facts[kind]) rows.push_back({text.text(), "the archive", ""});
  if (rows.empty())
    page.paragraph("None: no size is symbolic.");
  else
    page.table({"CONDITION", "ASKED FOR BY", "AT"}, rows);
}

void add_placement(HtmlPage& page, const Json& facts) {
  page.heading("Who runs the nodes");
  Rows rows;
  for (const auto& [who, count] : facts["placement"].members())
    rows.push_back({who, std::to_string(count.integer())});
  page.table({"WHO", "NODES"}, rows);
  for (const Json& d : facts["declined"])
    page.paragraph(message("{} declined {} nodes: {}", d["backend"].text(), d["nodes"].integer(),
                           d["reason"].text()));
}

void add_kernels(HtmlPage& page, const MeasuredModel& m) {
  page.heading("Kernels");
  Rows numbers;
  for (const auto& [name, value] : m.stats.members())
    if (name != "items" && name != "buffers")
      numbers.push_back({name, value.is_text() ? value.text() : value.dump()});
  page.table({"STATISTIC", "VALUE"}, numbers);
  if (Rows rows = item_rows(m.stats); !rows.empty()) page.table(item_header, rows);
  if (!m.loops_before.empty()) page.folded("Loops before fusion", m.loops_before);
  if (!m.loops.empty()) page.folded("Kernels and calls after fusion", m.loops);
  if (!m.fusion.empty()) page.folded("What was fused, and what not and why", m.fusion);
}

void add_memory(HtmlPage& page, const MeasuredModel& m) {
  std::vector<report::MemoryBlock> blocks;
  for (const Json& b : m.stats["buffers"])
    blocks.push_back({b["name"].text(), b["offset"].integer(), b["bytes"].integer(),
                      b["first"].integer(), b["last"].integer()});
  if (blocks.empty()) return;
  page.heading("Memory plan");
  page.picture(report::memory_plan_svg(blocks));
  if (!m.memory.empty()) page.folded("As text", m.memory);
}

int report_model(const ReportOptions& options, const Globals& globals) {
  if (globals.json) leave_stdout_to_json();
  require_file_beside_json(options.output, globals);
  constexpr double seconds = 0.5;
  Json facts = explain_model(options.model, options.backend, options.archive);
  const std::string backend = facts["backend"]["name"].text();
  MeasuredModel m = measure_model(options.model, options.archive, options.inputs, backend, seconds);
  std::string name = std::filesystem::path(options.model).stem().string();
  HtmlPage page(name + " with " + backend);
  page.heading("The compilation");
  add_header(page, options, facts, m);
  add_stages(page, facts);
  auto graph = load_graph(options.model, options.archive);
  bool is_lowered = facts.find("lowered");
  std::vector<std::string> run_by;
  for (const Json& who : facts["run_by"]) run_by.push_back(who.text());
  add_graph(page, "Captured graph", *graph, facts["captured"],
            is_lowered ? std::vector<std::string>() : run_by);
  if (is_lowered)
    add_graph(page, "Graph that the backend got", *graph_for_backend(graph, backend),
              facts["lowered"], run_by);
  add_conditions(page, facts);
  add_placement(page, facts);
  add_kernels(page, m);
  add_memory(page, m);
  std::string file = options.output.empty() ? name + ".html" : options.output;
  write_output(file, page.text());
  if (globals.json)
    print_json({{"schema", 1}, {"file", file}});
  else if (file != "-")
    print("written to " + file + "\n");
  return 0;
}

Action build_report(Options& app) {
  auto options = std::make_shared<ReportOptions>();
  app.add_option("MODEL", options->model, "a model (.pt2) or a graph (.tng, .tng.json)").required();
  app.add_option("--backend", options->backend, "the backend to compile with");
  app.add_option("-o,--output", options->output, "the file to write; MODEL.html unless given");
  add_archive_options(app, options->archive);
  add_input_options(app, options->inputs);
  return [options](const Globals& globals) { return report_model(*options, globals); };
}

}  // namespace

extern constinit const Verb verb_report{
    .name = "report",
    .summary = "writes what became of a model as one HTML page",
    .example = "tenon report resnet18.pt2 --backend inductor -o resnet18.html",
    .build = build_report};

}  // namespace tenon::cli
