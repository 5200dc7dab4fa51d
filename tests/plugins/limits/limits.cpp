// Backends that their manifests limit, and backends that judge nodes with reasons and groups.
#include <tenon/plugin.hpp>

using namespace tenon::plugin;

namespace {

/// What the manifest leaves out must never get here.
struct NeverCalled : Backend {
  artifact compile(const tn_compile_request&) {
    throw error(TN_INTERNAL, "compile was called although the manifest does not admit the graph");
  }
};

artifact interpreted(const tn_compile_request& request, int32_t dtype) {
  graph g(request);
  for (uint32_t i = 0; i < g.values(); ++i) {
    value v = g.value_at(i);
    if (v.source == TN_SRC_NODE && v.is_tensor() && v.dtype != dtype)
      throw error(TN_INTERNAL, "a node of another dtype arrived");
  }
  return interpret(request.ctx, request.graph);
}

struct OnlyF64 : Backend {
  artifact compile(const tn_compile_request& request) { return interpreted(request, TN_F64); }
};

struct OnlyBackward : Backend {
  artifact compile(const tn_compile_request& request) {
    if (request.stage != TN_STAGE_BACKWARD) throw error(TN_INTERNAL, "another stage arrived");
    return interpret(request.ctx, request.graph);
  }
};

struct TakesF32 : Backend {
  void supports(const tn_compile_request&, std::span<uint8_t> verdicts) {
    std::ranges::fill(verdicts, uint8_t{TN_SUPPORTED});
  }
  artifact compile(const tn_compile_request& request) { return interpreted(request, TN_F32); }
};

struct Reasons : Backend {
  void judge(const tn_compile_request& request, verdicts v) {
    graph g(request);
    for (uint32_t i = 0; i < v.size(); ++i)
      if (g.at(i).op == op("aten.sin.default") || sv(g.at(i).op_name).starts_with("aten.gelu"))
        v.leave(i, "sines and such are not worth the way");
      else
        v.take(i);
  }
  artifact compile(const tn_compile_request& request) {
    return interpret(request.ctx, request.graph);
  }
};

struct Groups : Reasons {
  void judge(const tn_compile_request& request, verdicts v) {
    Reasons::judge(request, v);
    v.group(0, 1);
    v.group(v.size() - 1, 1);
  }
};

}  // namespace

TENON_PLUGIN_BACKENDS((NeverCalled, "only_fakenpu"), (NeverCalled, "no_fallback"),
                      (OnlyF64, "only_f64"), (OnlyBackward, "only_backward"),
                      (TakesF32, "f32_nodes"), (Reasons, "reasons"), (Groups, "groups"))
