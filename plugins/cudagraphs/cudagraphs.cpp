// cudagraphs: eager kernels of a GPU, recorded and replayed by the plugin cuda.
#include <cudagraphs_options.h>
#include <recordings/compile.h>

using namespace tenon::plugin;

namespace cudagraphs {
namespace {

using recordings::Piece;

// Runs the nodes of a piece by the host's kernels.
void launch(const program& steps, const Piece& piece, tn_call& c) {
  program::pass now(steps, {c.syms, c.n_syms}, c.stream);
  for (size_t i = 0; i < piece.inputs.size(); ++i) now.lend(piece.inputs[i], c.inputs[i]);
  for (uint32_t n : piece.nodes) {
    now.run(n);
    now.drop_values_read_last_by(n);
  }
  for (size_t i = 0; i < piece.outputs.size(); ++i)
    c.outputs[i] = tensor::share(now.at(piece.outputs[i])).release();
}

// Eager ops of the device are compiled by its code generator, and so is this node alone: does that
// leave the drawing to the host?
bool draws_there(const tn_compile_request& request, uint32_t node) try {
  const tn_graph* alone = nullptr;
  const uint32_t *inputs = nullptr, *outputs = nullptr;
  check(host->run->extract(request.ctx, request.graph, &node, 1, &alone, &inputs, &outputs));
  artifact code = compile_with(request.ctx, alone, "inductor");
  if (!TN_HAS(code.get()->api, describe)) return false;
  std::string told = collect([&](const tn_sink* sink) {
    return code.get()->api->describe(code.get(), TN_DESC_STATS_JSON, sink);
  });
  std::erase(told, ' ');
  return told.find("\"extern_ops\":[]") != told.npos;
} catch (const error&) {
  return false;  // nobody compiles it
}

/// What runs a graph: at least one recording, or the host's interpreter.
struct Code {
  std::unique_ptr<recordings::Recorded> recorded;
  artifact steps;
  std::string told;

  void call(tn_call& c) { recorded ? recorded->call(c) : steps.call(c); }
  std::string describe(int32_t what) {
    if (what != TN_DESC_STATS_JSON) return "";
    // Of graphs that only pass inputs, constants and numbers on, nobody is told.
    std::vector<std::string> lines{
        told.empty() ? "not recorded: it has nothing to record (too_small)" : told};
    return recordings::with_lists(
        "{\"kernels\": 0, \"extern_calls\": 0, \"extern_ops\": [], \"fused_nodes\": 0, "
        "\"planned_bytes\": 0, \"naive_bytes\": 0, \"compile_ms\": 0.0, \"codegen_ms\": 0.0, "
        "\"from_cache\": false}",
        recorded ? recorded->told() : lines,
        recorded ? recorded->recorded() : std::vector<std::string>());
  }
};

recordings::Compiling how_to_record(const tn_compile_request& request) {
  bool managed_writes =
      options(request).config<bool>("dynamo.cudagraph_backend_support_input_mutation");
  auto code = [](const Piece& piece, const program& steps) {
    return recordings::PieceCode{[&steps, piece](tn_call& c) { launch(steps, piece, c); }};
  };
  return {.settings = recordings::settings_of(cudagraphs_options::read(request), "cudagraphs",
                                              managed_writes, request),
          .maker = {.code = code},
          .draws_there = [&request](uint32_t node) { return draws_there(request, node); }};
}

struct CudaGraphs : Backend {
  std::unique_ptr<Code> compile(const tn_compile_request& request) {
    recordings::Outcome made = recordings::compile(request, how_to_record(request));
    auto out = std::make_unique<Code>(Code{std::move(made.recorded), {}, std::move(made.told)});
    if (!out->recorded) out->steps = interpret(request.ctx, request.graph);
    return out;
  }
};

}  // namespace
}  // namespace cudagraphs

TENON_PLUGIN_BACKENDS((cudagraphs::CudaGraphs, "cudagraphs"))
