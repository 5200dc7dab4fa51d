// Entries of the cache on disk, and what their graphs give. An input is the sections of an entry as
// records, beside one "recorded": the graph that is being compiled. Digests are right, so that what
// an entry says is met and not its seal.
#include "compile/ask_backend.h"
#include "compile/graph_cache_entry.h"
#include "debug/graph_runner.h"
#include "graph/artifact.h"
#include "harness/graph_checks.h"
#include "harness/run_checks.h"

#include <tenon/ops.h>

using namespace tenon;

namespace {

// As GraphCache does where an entry holds no code: the backend compiles the graphs anew.
void run_entry(CacheEntry entry, const std::shared_ptr<Graph>& recorded,
               const std::string& backend) {
  GraphRunner runner(recorded, {.backend = "eager"});
  std::vector<Tensor> inputs = runner.random_inputs(7), outputs(recorded->outputs().size());
  std::vector<detail::TensorHead*> heads;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const GraphValue& value = recorded->value(recorded->inputs()[i]);
    if (value.flags.requires_grad && is_floating(inputs[i].dtype())) inputs[i].requires_grad_();
    heads.push_back(value.kind == ValueKind::tensor ? inputs[i].head() : nullptr);
  }
  CompileRequest request;
  request.grad_enabled = true;
  request.backend = backend;
  auto make = [&](const CompileRequest& half) { return ask_backend(backend, half); };
  auto artifact = assemble(std::move(entry.staged), recorded, request, make);
  artifact->call(heads, {}, outputs);
  for (const Tensor& out : outputs)
    if (out.defined() && out.requires_grad()) sum(out).backward();
}

}  // namespace

TENON_FUZZ_TARGET(cache_entry) {
  formats::TenonSections sections;
  std::shared_ptr<Graph> recorded;
  auto records = fuzz::records_of(input);
  for (const auto& [name, content] : records)
    if (name != "recorded")
      sections.emplace_back(name, formats::as_byte_span(content));
    else if (!fuzz::accepts(fuzz::file_errors, [&] { recorded = parse_graph(content); }))
      return;
  CacheEntry entry;
  bool is_read = recorded && fuzz::accepts(fuzz::file_errors, [&] {
                   entry = read_entry(formats::tenon_file_bytes(sections), *recorded);
                 });
  if (!is_read) return;
  fuzz::count("accepted");
  const Graph& graph = *entry.staged.lowered.graph;
  fuzz::check_graph(graph);
  if (!fuzz::is_worth_running(*recorded) || !fuzz::is_worth_running(graph)) return;
  for (std::string backend : {"eager", "inductor"}) {
    if (!fuzz::has_backend(backend)) continue;
    bool runs = fuzz::refusal_of("an entry of the cache", [&] {
                  run_entry(entry, parse_graph(to_text(*recorded)), backend);
                }).empty();
    fuzz::count(backend + (runs ? " ran" : " refused"));
  }
}
