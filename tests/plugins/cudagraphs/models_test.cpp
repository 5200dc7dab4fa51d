// Every golden graph of the kit, and archives, moved to the device and recorded, against the CPU.
//
// Run with kernels that are the host's own (test_cuda_ops), whose results have the CPU's bits.
#include "graphs.h"

#include "backend/backend.h"
#include "config/config.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/tensor/tensor_impl.h"
#include "graph/interpret.h"
#include "graph/text/parse.h"
#include "ops/op_table.h"

#include <tenon/load_model.h>
#include <tenon/plugin.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tenon::graphs {
namespace {

namespace fs = std::filesystem;

class Models : public Graphs {};

std::string text_of(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// All tensors on the device. What makes tensors is told where; graphs that name devices otherwise
// stay on the CPU in part, which the backend has to notice.
void move_to_device(Graph& graph) {
  for (ValueId v = 0; v < graph.values().size(); ++v) {
    GraphValue& value = graph.value(v);
    if (value.kind == ValueKind::tensor && value.meta.defined) value.meta.device = gpu;
    if (value.source == ValueSource::constant) graph.replace_constant(v, there(graph.constant(v)));
  }
}

bool makes_tensors(const Graph& graph) {
  return std::ranges::any_of(
      graph.nodes(), [](const Node& n) { return (entry_of(n.op).tags & TN_TAG_CREATION) != 0; });
}

// Golden graphs have their sizes' examples as hints.
int64_t example(const Graph& graph, SymInt size) {
  return size.is_symbolic() ? graph.shape_env->int_hint(size).value_or(0) : size.guard_int();
}

// Positive numbers; integers are 0 and 1, since they may be indices.
Tensor numbers_for(const TensorMeta& meta) {
  Tensor t = make_tensor(meta);
  if (is_floating(meta.dtype))
    t.copy_(rand(t.sizes()) + 0.25);
  else
    t.copy_((rand(t.sizes()) * 2.0).floor());
  return t;
}

std::vector<Tensor> inputs_of(const Graph& graph) {
  std::vector<Tensor> out;
  for (ValueId id : graph.inputs()) {
    const GraphValue& v = graph.value(id);
    if (v.kind != ValueKind::tensor) {
      out.emplace_back();
      continue;
    }
    TensorMeta meta = v.meta;
    meta.device = kCPU;
    for (SymInt& s : meta.sizes) s = example(graph, s);
    for (SymInt& s : meta.strides) s = example(graph, s);
    out.push_back(numbers_for(meta));
  }
  return out;
}

std::vector<Tensor> run(Artifact& code, const Graph& graph, std::vector<Tensor>& inputs) {
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : inputs) heads.push_back(t.defined() ? t.head() : nullptr);
  std::vector<int64_t> syms;
  for (const SymbolBinding& b : graph.symbols) {
    auto hint = graph.shape_env->hint(b.symbol);
    syms.push_back(hint ? hint->word : 0);
  }
  std::vector<Tensor> outputs(graph.outputs().size());
  code.call(heads, syms, outputs);
  return outputs;
}

void expect_as_on_the_cpu(const fs::path& file, size_t& n_recorded) {
  SCOPED_TRACE(file.stem().string());
  std::shared_ptr<Graph> here = parse_graph(text_of(file)),
                         moved_graph = parse_graph(text_of(file));
  if (makes_tensors(*here)) return;  // their device stands among the arguments
  move_to_device(*moved_graph);
  CompileRequest request;
  request.graph = moved_graph;
  request.stage = Stage::inference;
  auto code = compile_with_backend("cudagraphs", request_for_piece(request, moved_graph));
  auto plain = interpreter_artifact(here);
  for (int i = 0; i < 4; ++i) {
    std::vector<Tensor> inputs = inputs_of(*here), on_gpu;
    for (const Tensor& t : inputs) on_gpu.push_back(t.defined() ? there(t) : Tensor());
    manual_seed(static_cast<uint64_t>(i));
    std::vector<Tensor> expected = run(*plain, *here, inputs);
    manual_seed(static_cast<uint64_t>(i));
    std::vector<Tensor> found = run(*code, *moved_graph, on_gpu);
    for (size_t k = 0; k < found.size(); ++k)
      if (expected[k].defined()) expect_equal(found[k], expected[k], "output");
    for (size_t k = 0; k < inputs.size(); ++k)
      if (inputs[k].defined()) expect_equal(on_gpu[k], inputs[k], "input");
  }
  n_recorded += code->describe(TN_DESC_STATS_JSON).find("\"nodes\": ") != std::string::npos;
}

TEST_F(Models, GoldenGraphsAreAsOnTheCpu) {
  TENON_NEEDS_THE_DOUBLE();
  size_t n = 0, n_recorded = 0;
  for (const auto& entry : fs::directory_iterator(TENON_GOLDEN_GRAPHS)) {
    if (entry.path().extension() != ".tng") continue;
    ++n;
    try {
      expect_as_on_the_cpu(entry.path(), n_recorded);
    } catch (const Error& error) {
      ADD_FAILURE() << entry.path().stem() << ": " << error.what();
    }
  }
  EXPECT_GT(n, 80u);
  EXPECT_GT(n_recorded, 60u);
}

TEST_F(Models, ArchivesAreAsOnTheCpu) {
  for (const char* name : {"mlp_digits", "cnn_digits"}) {
    std::string path = std::string(TENON_TEST_MODELS) + "/" + name + ".pt2";
    Model here = load(path, {.backend = "eager"});
    LoadOptions options;
    options.backend = "cudagraphs";
    options.device = gpu;
    Model recorded_model = load(path, options);
    for (int64_t n : {3, 3, 5, 3, 5, 5, 3}) {
      Tensor x = rand({n, 64});
      if (std::string(name) == "cnn_digits") x = x.reshape({n, 1, 8, 8});
      Tensor expected = here(x), found = recorded_model(there(x));
      expect_equal(found, expected, name);
    }
    EXPECT_GE(n_replays(), 2) << name;
  }
}

}  // namespace
}  // namespace tenon::graphs
