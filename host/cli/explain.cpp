// `tenon explain`: what becomes of a model on its way to code, step by step, with times.
#include "cli/explain.h"

#include "backend/backend.h"
#include "backend/compile/declined.h"
#include "compile/compile_graph.h"
#include "config/config.h"
#include "core/sym/shape_env.h"
#include "formats/pt2/pt2_import.h"
#include "ops/op_table.h"
#include "report/compile_record.h"

#include <tenon/autograd.h>
#include <tenon/config.h>
#include <tenon/plugin.h>

#include <algorithm>
#include <chrono>
#include <map>

namespace tenon::cli {

namespace {

struct ExplainOptions {
  std::string model, backend;
  ModelOptions archive;
  InputOptions inputs;
  bool profile = false, assembly = false, grad = false;
};

// Times of the stages in the order in which they ran, in milliseconds.
class Stages {
 public:
  template <class F>
  auto run(const std::string& name, F work) {
    auto begin = std::chrono::steady_clock::now();
    auto result = work();
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    times_.emplace_back(name, took.count());
    return result;
  }
  const std::vector<std::pair<std::string, double>>& times() const { return times_; }

 private:
  std::vector<std::pair<std::string, double>> times_;
};

Json op_counts(const Graph& graph) {
  std::map<std::string, int64_t> counts;
  for (const Node& node : graph.nodes()) ++counts[name_of(node.op)];
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Json out = Json::Object{};
  for (const auto& [name, count] : sorted) out[name] = count;
  return out;
}

Json graph_facts(const Graph& graph) {
  return {{"nodes", graph.nodes().size()},         {"inputs", graph.inputs().size()},
          {"constants", graph.constants().size()}, {"outputs", graph.outputs().size()},
          {"symbols", graph.symbols.size()},       {"ops", op_counts(graph)}};
}

// The graph, and into `facts` what only an archive tells.
std::shared_ptr<Graph> load(const std::string& path, const ModelOptions& options, Stages& stages,
                            Json& facts) {
  if (graph_file_kind(path) != GraphFileKind::archive)
    return stages.run("read", [&] { return load_graph(path, options); });
  formats::Pt2Options reading = pt2_options(options);
  auto program = stages.run("read", [&] { return formats::read_pt2(path, reading); });
  facts["torch"] = program.torch_version;
  formats::ImportOptions importing;
  importing.random_weights = options.random_weights;
  importing.device = device_of(options);
  auto model = stages.run("import", [&] { return formats::import_pt2(program, importing); });
  for (const formats::Pt2Range& r : model.ranges) facts["ranges"].items().push_back(r.text);
  for (const formats::Pt2Guard& g : model.guards) facts["guards"].items().push_back(g.text);
  return model.graph;
}

Json backend_facts(const BackendInfo& b) {
  return {{"name", b.name},
          {"plugin", b.plugin},
          {"stage", b.stage == Stage::captured ? "captured" : "aot"},
          {"decompositions", b.decompositions},
          {"fallback", b.fallback},
          {"file", b.file}};
}

// Conditions of the code, in the words of the model's inputs: what importing and lowering decided
// about symbolic sizes, and what the backend asked for.
Json condition_facts(const Graph& graph, const Artifact& artifact, const std::string& backend) {
  Json::Array out;
  if (!graph.shape_env) return out;  // no sizes are symbolic
  const ShapeEnv& env = *graph.shape_env;
  for (const RecordedGuard& g : env.guard_conditions())
    out.push_back(
        {{"text", env.source_text(g.condition)}, {"asked_by", "host"}, {"at", g.location}});
  for (const Expr* condition : artifact.guards)
    out.push_back({{"text", env.source_text(condition)}, {"asked_by", backend}, {"at", ""}});
  return out;
}

// Who runs the nodes: the backend or who took the graph or a piece of it over, less those that
// kernels of plugins take for it.
Json placement(const Graph& graph, const std::vector<PlacedPiece>& pieces,
               const std::string& runner, bool node_by_node) {
  std::map<std::string, int64_t> counts;
  auto count = [&](const std::string& who, const std::string& op) {
    bool by_kernel = node_by_node && !entry_of(op_id(op)).foreign_kernels().empty();
    ++counts[by_kernel ? who + ", with a plugin's kernel where it fits" : who];
  };
  for (const PlacedPiece& piece : pieces)
    for (const PlacedNode& node : piece.nodes) count(piece.run_by, node.op);
  if (pieces.empty())
    for (const Node& node : graph.nodes()) count(runner, name_of(node.op));
  Json::Object out;
  for (const auto& [who, n] : counts) out.push_back({who, n});
  return out;
}

// "forward " or "backward ", nothing for a graph that is whole.
std::string half_of(Stage stage) {
  if (stage == Stage::forward) return "forward";
  return stage == Stage::backward ? "backward" : "";
}

Json piece_facts(const std::vector<PlacedPiece>& pieces) {
  Json::Array out;
  for (const PlacedPiece& piece : pieces) {
    Json::Array nodes;
    for (const PlacedNode& node : piece.nodes)
      nodes.push_back({{"name", node.name}, {"op", node.op}, {"why", node.why}});
    out.push_back({{"backend", piece.backend},
                   {"run_by", piece.run_by},
                   {"region", piece.is_region},
                   {"half", half_of(piece.stage)},
                   {"nodes", std::move(nodes)}});
  }
  return out;
}

// What the cache on disk said, and what it has counted.
Json cache_facts(const std::string& said) {
  Json out{{"state", said.empty() ? "not asked" : said}};
  for (const char* name : {"hit", "miss", "bypass", "saved"})
    out[name] = report::counter(std::string("aot.cache_") + name).value();
  return out;
}

// What was kept does not tell who declined what and why, so after a hit the graph is compiled once
// more.
std::shared_ptr<Artifact> compile_to_explain(const std::shared_ptr<Graph>& graph,
                                             const std::string& backend, const std::string& mode,
                                             Stages& stages, Json& facts) {
  NoGradGuard as_calls_run;  // `tenon run` wants no gradients either
  report::CompileWatch watch("0/0", "explain");
  CompileGraphOptions options{.backend = backend, .mode = mode};
  options.dynamic = !graph->symbols.empty();
  auto artifact = stages.run("compile", [&] { return compile_graph(graph, options); });
  watch.finish("compiled");
  facts["cache"] = cache_facts(watch.record().cache);
  if (facts["cache"]["state"].text() != "hit") return artifact;
  options.use_cache = false;
  return stages.run("compile without cache", [&] { return compile_graph(graph, options); });
}

Json declined_facts(const DeclineObserver& observer) {
  Json::Array out;
  for (const DeclinedGraph& d : observer.declined())
    out.push_back({{"backend", d.backend},
                   {"nodes", d.n_nodes},
                   {"reason", d.reason},
                   {"half", half_of(d.stage)},
                   {"taken_by", d.fallback}});
  return out;
}

// What the code says of itself and who declined what: the figures of every verb that tells them.
void add_code_facts(const std::string& statistics, const DeclineObserver& observer, Json& facts) {
  facts["declined"] = declined_facts(observer);
  facts["pieces"] = piece_facts(observer.pieces());
  Json said = formats::json_or_null(statistics);
  if (said.is_object()) facts["artifact"] = std::move(said);  // a plugin may write anything
}

void compile(const std::shared_ptr<Graph>& graph, const BackendInfo& backend,
             const std::string& mode, bool with_assembly, Stages& stages, Json& facts) {
  std::shared_ptr<Graph> seen = graph;
  if (backend.stage != Stage::captured) {
    seen = stages.run("lower", [&] { return graph_for_backend(graph, backend.name); });
    facts["lowered"] = graph_facts(*seen);
  }
  DeclineObserver observer;
  auto artifact = compile_to_explain(graph, backend.name, mode, stages, facts);
  add_code_facts(artifact->describe(TN_DESC_STATS_JSON), observer, facts);
  std::string runner =
      observer.declined().empty() ? backend.name : observer.declined().back().fallback;
  bool node_by_node = !facts.find("artifact") || facts["artifact"]["kernels"].integer() == 0;
  facts["placement"] = placement(*seen, observer.pieces(), runner, node_by_node);
  facts["run_by"] = runners_of(*seen, backend.name, observer);
  facts["conditions"] = condition_facts(*graph, *artifact, backend.name);
  if (with_assembly) facts["texts"]["assembly"] = artifact->describe(TN_DESC_ASM);
}

// A training step, as `tenon run --grad` makes it: the backward is compiled when the first gradient
// arrives.
void compile_training(const ExplainOptions& options, const std::string& backend, Stages& stages,
                      Json& facts) {
  auto no_cache = config::patch({{"functorch.enable_autograd_cache", false}});
  LoadedModel model = load_model(options.model, options.archive, backend, /*training=*/true);
  std::vector<Tensor> leaves = make_leaves(model, or_recorded(options.inputs, options.model));
  DeclineObserver observer;
  NamedTensorMap gradients;
  stages.run("compile and call both halves",
             [&] { return model.runner->run_with_gradients(leaves, gradients); });
  add_code_facts(model.runner->describe(TN_DESC_STATS_JSON), observer, facts);
  facts["placement"] = Json::Object{};
  facts["conditions"] = Json::Array{};
  facts["cache"] = cache_facts("");
  if (options.assembly) facts["texts"]["assembly"] = model.runner->describe(TN_DESC_ASM);
}

Json facts_of(const ExplainOptions& options) {
  Stages stages;
  Json facts{{"schema", 1}, {"model", options.model}, {"texts", Json::Object{}}};
  std::shared_ptr<Graph> graph = load(options.model, options.archive, stages, facts);
  facts["captured"] = graph_facts(*graph);
  BackendInfo backend = backend_info(options.backend.empty() ? default_backend() : options.backend);
  facts["backend"] = backend_facts(backend);
  if (options.grad)
    compile_training(options, backend.name, stages, facts);
  else
    compile(graph, backend, options.archive.mode, options.assembly, stages, facts);
  facts["stages"] = Json::Array{};
  for (const auto& [name, ms] : stages.times())
    facts["stages"].items().push_back({{"stage", name}, {"ms", ms}});
  return facts;
}

void print_graph(std::string_view title, const Json& g) {
  print(message("{}: {} nodes, {} inputs, {} constants, {} outputs, {} symbols\n", title,
                g["nodes"].integer(), g["inputs"].integer(), g["constants"].integer(),
                g["outputs"].integer(), g["symbols"].integer()));
  for (const auto& [name, count] : g["ops"].members())
    print(message("  {} x {}\n", count.integer(), name));
}

std::string half_title(const Json& fact) {
  std::string half = fact["half"].text();
  return half.empty() ? "" : half + " ";
}

// Nodes of a region are counted by op; of each left one the reason is told.
void print_piece(size_t index, const Json& piece) {
  const Json& nodes = piece["nodes"];
  print(message("{}{} {}: {} nodes run by {}\n", half_title(piece),
                piece["region"].boolean() ? "region" : "piece", index, nodes.items().size(),
                piece["run_by"].text()));
  bool taken = piece["run_by"].text() == piece["backend"].text();
  std::map<std::string, int64_t> counts;
  for (const Json& node : nodes) {
    std::string op = node["op"].text();
    if (taken)
      ++counts[op];
    else
      print(message("  {} {}: {}\n", node["name"].text(), op, node["why"].text()));
  }
  for (const auto& [op, count] : counts) print(message("  {} x {}\n", count, op));
}

// Numbers on one line; lists of items and buffers have tables of their own.
void print_artifact(const Json& stats) {
  Json numbers = Json::Object{};
  for (const auto& [name, value] : stats.members())
    if (name != "items" && name != "buffers") numbers[name] = value;
  print("artifact: " + numbers.dump() + "\n");
  std::vector<std::vector<std::string>> rows = item_rows(stats);
  if (rows.empty()) return;
  Table table(item_header);
  for (std::vector<std::string>& row : rows) table.add(std::move(row));
  print(table.text());
  if (stats["peak_gbs"].number() > 0)
    print(message("peaks of this machine: {} GB/s, {} GF/s\n", rounded(stats["peak_gbs"].number()),
                  rounded(stats["peak_gfs"].number())));
}

// How loops became kernels, and those code, where --profile and --asm have asked for it.
void print_texts(const Json& facts) {
  for (const char* name : {"loops", "kernels", "fusion", "memory", "assembly"}) {
    const std::string& text = facts["texts"][name].text();
    if (!text.empty()) print(bold(name) + "\n" + text);
  }
}

void print_explanation(const Json& facts) {
  print(bold(facts["model"].text()) + "\n");
  print_graph("captured", facts["captured"]);
  for (const char* kind : {"ranges", "guards"})
    for (const Json& text : facts[kind]) print(message("{}: {}\n", kind, text.text()));
  const Json& backend = facts["backend"];
  print(message("backend {} of plugin {}, stage {}\n", backend["name"].text(),
                backend["plugin"].text(), backend["stage"].text()));
  if (facts.find("lowered")) print_graph("lowered", facts["lowered"]);
  print("breaks: none, a model file is one graph\n");
  print(message("cache: {}\n", facts["cache"]["state"].text()));
  for (const Json& d : facts["declined"])
    print(message("{} declined {}{} nodes: {}; {} took them\n", d["backend"].text(),
                  d["half"].text().empty() ? "" : message("the {}, ", d["half"].text()),
                  d["nodes"].integer(), d["reason"].text(), d["taken_by"].text()));
  size_t n_pieces = 0;
  for (const Json& piece : facts["pieces"]) print_piece(n_pieces++, piece);
  for (const auto& [who, count] : facts["placement"].members())
    print(message("{} nodes run by {}\n", count.integer(), who));
  for (const Json& c : facts["conditions"])
    print(message("condition: {}, asked for by {}\n", c["text"].text(), c["asked_by"].text()));
  if (facts.find("artifact")) print_artifact(facts["artifact"]);
  print_texts(facts);
  Table table({"STAGE", "MS"});
  for (const Json& s : facts["stages"]) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", s["ms"].number());
    table.add({s["stage"].text(), text});
  }
  print(table.text());
}

int explain(const ExplainOptions& options, const Globals& globals) {
  if (globals.json) leave_stdout_to_json();
  require(
      !options.grad || graph_file_kind(options.model) == GraphFileKind::archive,
      "{}: only an archive (.pt2) names the parameters that gradients are for; leave --grad out",
      options.model);
  require_no_device_for_graph(options.model, options.archive);
  Json facts = facts_of(options);
  if (options.profile) {
    constexpr double seconds = 0.5;
    MeasuredModel m = measure_model(options.model, options.archive, options.inputs,
                                    facts["backend"]["name"].text(), seconds);
    facts["artifact"] = m.stats;
    facts["latency_us"] = m.median_us;
    facts["texts"].update(Json{{"loops", m.loops_before},
                               {"kernels", m.loops},
                               {"fusion", m.fusion},
                               {"memory", m.memory}});
  }
  if (globals.json)
    print_json(facts);
  else
    print_explanation(facts);
  return 0;
}

Action build_explain(Options& app) {
  auto options = std::make_shared<ExplainOptions>();
  app.add_option("MODEL", options->model, "a model (.pt2) or a graph (.tng, .tng.json)").required();
  app.add_option("--backend", options->backend, "the backend to compile with");
  app.add_flag("--profile", options->profile,
               "also calls the model and shows what each kernel takes, how loops became kernels, "
               "and the memory plan, where the backend knows");
  app.add_flag("--asm", options->assembly, "also prints the code, where the backend can");
  app.add_flag(
      "--grad", options->grad,
      "a training step instead: forward and backward, as `tenon run --grad` compiles them");
  add_model_options(app, options->archive);
  add_input_options(app, options->inputs);
  return [options](const Globals& globals) { return explain(*options, globals); };
}

}  // namespace

Json explain_model(const std::string& model, const std::string& backend,
                   const ModelOptions& options, bool with_assembly) {
  ExplainOptions explained{.model = model, .backend = backend, .archive = options, .inputs = {}};
  explained.assembly = with_assembly;
  return facts_of(explained);
}

std::vector<std::vector<std::string>> item_rows(const Json& stats) {
  double sum = 0, peak_gbs = stats["peak_gbs"].number(), peak_gfs = stats["peak_gfs"].number();
  std::vector<Json> items;
  for (const Json& item : stats["items"])
    if (item.find("us") && !item["prepacked"].boolean()) items.push_back(item);
  for (const Json& item : items) sum += item["us"].number();
  std::stable_sort(items.begin(), items.end(), [](const Json& a, const Json& b) {
    return a["us"].number() > b["us"].number();
  });
  std::vector<std::vector<std::string>> rows;
  for (const Json& item : items) {
    double us = item["us"].number(), gfs = 0, part = 0;
    double gbs = us > 0 ? item["bytes"].number() / us / 1e3 : 0;
    if (us > 0) gfs = item["flops"].number() / us / 1e3;
    if (peak_gbs > 0 && peak_gfs > 0) part = std::max(gbs / peak_gbs, gfs / peak_gfs);
    rows.push_back({item["kind"].text() + " " + item["name"].text(), rounded(us),
                    rounded(100 * us / sum), rounded(gbs), rounded(gfs), rounded(100 * part)});
  }
  return rows;
}

extern constinit const Verb verb_explain{
    .name = "explain",
    .summary = "shows what becomes of a model on its way to code",
    .example = "tenon explain resnet18.pt2 --backend aot_eager",
    .build = build_explain};

}  // namespace tenon::cli
