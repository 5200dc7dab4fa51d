// Runs on every backend that is there, beside the interpreter.
#include "harness/run_checks.h"

#include "backend/backend.h"
#include "core/sym/shape_env.h"
#include "core/tensor/tensor_impl.h"
#include "debug/compare.h"
#include "debug/graph_runner.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "harness/fuzz.h"
#include "ops/kernel_loops.h"
#include "ops/op_table.h"

#include <tenon/ops.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace tenon::fuzz {

namespace {

constexpr int64_t most_elements = 1 << 14;
constexpr size_t most_nodes = 40;
constexpr int64_t most_steps = 64;

int64_t plain(const Graph& graph, SymInt v) {
  if (!v.is_symbolic()) return v.word();
  return graph.shape_env ? graph.shape_env->int_hint(v).value_or(0) : 0;
}

bool is_small(const Graph& graph, const GraphValue& value) {
  if (value.kind != ValueKind::tensor || !value.meta.defined) return true;
  if (!(value.meta.device == kCPU)) return false;
  int64_t n = 1, reach = plain(graph, value.offset);
  if (reach > most_elements) return false;
  for (size_t d = 0; d < value.meta.sizes.size(); ++d) {
    int64_t size = plain(graph, value.meta.sizes[d]), stride = plain(graph, value.meta.strides[d]);
    if (size > most_elements || std::abs(stride) > most_elements) return false;
    n *= std::max<int64_t>(size, 1);
    reach += std::abs(stride) * size;
    if (n > most_elements || reach > most_elements * 64) return false;
  }
  return true;
}

// Whether two runs must agree: nothing random, nothing that acts outside, no memory without values,
// no loop that a file may have go on for ever.
bool is_determined(const Node& node) {
  if (name_of(node.op) == "higher_order.while_loop.default") return false;
  constexpr OpTags open =
      OpTags::nondeterministic | OpTags::side_effect | OpTags::by_place | OpTags::random;
  return !(entry_of(node.op).def->tags & open);
}

// Training compiles each step of a recurrent layer: they count like nodes.
bool has_few_steps(const Graph& graph, const Node& node) {
  static constexpr std::string_view layers[] = {"aten.lstm.", "aten.gru.", "aten.rnn_"};
  bool is_layer = std::ranges::any_of(
      layers, [&](std::string_view prefix) { return name_of(node.op).starts_with(prefix); });
  if (!is_layer || node.args.empty() || node.args[0].tag != Tag::ref) return true;
  const Dims& sizes = graph.value(static_cast<ValueId>(node.args[0].payload)).meta.sizes;
  for (size_t d = 0; d < std::min<size_t>(sizes.size(), 2); ++d)
    if (plain(graph, sizes[d]) > most_steps) return false;
  return true;
}

}  // namespace

bool is_worth_running(const Graph& graph) {
  return graph.nodes().size() <= most_nodes &&
         std::ranges::all_of(graph.values(),
                             [&](const GraphValue& v) { return is_small(graph, v); }) &&
         std::ranges::all_of(
             graph.nodes(),
             [&](const Node& node) { return is_determined(node) && has_few_steps(graph, node); }) &&
         std::ranges::all_of(graph.subgraphs,
                             [](const auto& sub) { return is_worth_running(*sub); });
}

static std::string error_of(std::string_view what, const std::function<void()>& body) {
  try {
    body();
  } catch (const InternalError& error) {
    check(false, message("{}: {}", what, error.what()));
  } catch (const Error& error) {
    check_shown(error.what());
    return error.what();
  } catch (const std::bad_alloc&) {
    return "out of memory";
  }
  return "";
}

std::string refusal_of(std::string_view what, const std::function<void()>& body) {
  std::string error = error_of(what, body);
  if (std::getenv("TENON_FUZZ_PRINT"))
    std::fprintf(stderr, "%s: %s\n", std::string(what).c_str(),
                 error.empty() ? "runs" : error.c_str());
  return error;
}

namespace {

struct Outcome {
  std::vector<Tensor> outputs;
  std::string error;
};

using MakeInputs = std::function<std::vector<Tensor>(const GraphRunner& runner)>;

// A graph of its own for each backend: lowering adds to what is known about its symbols.
Outcome run(std::string_view input, const std::string& backend, const MakeInputs& inputs) {
  Outcome out;
  out.error = refusal_of(backend, [&] {
    GraphRunner runner(parse_graph(input), {.backend = backend});
    out.outputs = runner.run(inputs(runner));
  });
  count(backend + (out.error.empty() ? " ran" : " refused"));
  return out;
}

// Sums of huge numbers and what is near a jump differ without being wrong.
bool is_tame(const Tensor& t) {
  if (!is_floating(t.dtype())) return true;
  for (double v : t.detach().to(Dtype::f64).contiguous().to_vector<double>())
    if (!(std::abs(v) < 1e3)) return false;
  return true;
}

void check_same(const Tensor& found, const Tensor& expected, bool by_value,
                const std::string& what) {
  check(found.defined() == expected.defined(), what + ": one result is undefined");
  if (!found.defined()) return;
  check(found.dtype() == expected.dtype() && to_text(found.sizes()) == to_text(expected.sizes()),
        what + ": " + to_text(found) + " and " + to_text(expected));
  if (!by_value || !is_tame(expected)) return;
  Comparison c = compare_tensors(found, expected, {.slack = 100});
  check(c.ok, message("{}: results differ by {}", what, c.max_abs));
}

bool is_of_floats(const GraphValue& v) {
  return v.kind == ValueKind::tensor && v.meta.defined && is_differentiable(v.meta.dtype);
}

// Positions, masks, numbers: what a node makes of floats and is not floating itself.
bool makes_integers_of_floats(const Graph& graph, const Node& node) {
  bool reads = false, gives = false;
  Graph::for_each_use(node, [&](ValueId id) { reads |= is_of_floats(graph.value(id)); });
  for (uint32_t r = 0; r < node.n_results; ++r) {
    const GraphValue& v = graph.value(node.first_result + r);
    bool is_there = v.kind == ValueKind::tensor ? v.meta.defined : v.kind != ValueKind::none;
    gives |= is_there && !is_of_floats(v);
  }
  return reads && gives;
}

bool has_integers_of_floats(const Graph& graph) {
  return std::ranges::any_of(
             graph.nodes(),
             [&](const Node& node) { return makes_integers_of_floats(graph, node); }) ||
         std::ranges::any_of(graph.subgraphs,
                             [](const auto& sub) { return has_integers_of_floats(*sub); });
}

// What nobody reads is computed by some backends only.
bool computes_in_vain(const Graph& graph) {
  std::vector<std::vector<NodeId>> users = graph.users();
  for (ValueId output : graph.outputs())
    if (output != no_value) users[output].push_back(0);
  return std::ranges::any_of(graph.values(), [&](const GraphValue& v) {
    return v.source == ValueSource::node &&
           users[graph.node(v.source_index).first_result + v.result_index].empty();
  });
}

// Whether one run may end in an error and the other in none, or in another one. Code that takes two
// sizes of data for equal refuses one that happens to be 1, which eager ops broadcast.
bool may_differ(const std::string& a, const std::string& b, const Graph& graph) {
  std::string both = a + b;
  return (!a.empty() && !b.empty()) || both.find("memory") != std::string::npos ||
         both.find("for granted") != std::string::npos || computes_in_vain(graph);
}

void compare(std::string_view input, const Graph& graph, const std::string& backend,
             const MakeInputs& inputs, const Outcome& expected) {
  Outcome found = run(input, backend, inputs);
  std::string what = backend + ":\n" + to_text(graph);
  if (!expected.error.empty() || !found.error.empty()) {
    check(may_differ(expected.error, found.error, graph),
          message("{}\neager: {}\nfound: {}", what, expected.error, found.error));
    return;
  }
  check(found.outputs.size() == expected.outputs.size(), what);
  // A comparison of rounded numbers may go either way.
  bool by_value = !has_integers_of_floats(graph);
  for (size_t i = 0; i < found.outputs.size(); ++i)
    check_same(found.outputs[i], expected.outputs[i], by_value, what);
}

void check_runs(std::string_view text, const MakeInputs& inputs) {
  std::shared_ptr<Graph> graph;
  if (!accepts(file_errors, [&] { graph = parse_graph(text); })) return;
  count("accepted");
  if (!is_worth_running(*graph)) return;
  if (std::getenv("TENON_FUZZ_PRINT")) std::fprintf(stderr, "%s\n", to_text(*graph).c_str());
  Outcome expected = run(text, "eager", inputs);
  for (std::string backend : {"aot_eager", "inductor"})
    if (has_backend(backend)) compare(text, *graph, backend, inputs, expected);
}

}  // namespace

bool has_backend(const std::string& name) {
  return std::ranges::any_of(all_backends(), [&](const BackendInfo& b) { return b.name == name; });
}

void check_runs(std::string_view text) {
  check_runs(text, [](const GraphRunner& runner) { return runner.random_inputs(7); });
}

void check_runs_with(std::string_view text, const std::vector<Tensor>& inputs) {
  check_runs(text, [&](const GraphRunner&) { return inputs; });
}

}  // namespace tenon::fuzz
