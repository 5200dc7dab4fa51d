// Backends that fix facts about sizes for their code, as code generators do that unroll a loop or
// choose a tile. The graph itself runs in the host's interpreter.
#include <tenon/plugin.hpp>

using namespace tenon::plugin;

namespace {

uint32_t constant(const tn_graph* g, int64_t value) {
  uint32_t id = 0;
  check(host->sym->constant(g, value, &id));
  return id;
}

uint32_t made(const tn_graph* g, uint32_t op, uint32_t a, uint32_t b) {
  uint32_t operands[] = {a, b}, id = 0;
  check(host->sym->make(g, op, operands, 2, &id));
  return id;
}

void fix(const tn_compile_request& request, uint32_t expr) {
  int64_t value = 0;
  check(host->sym->guard(request.ctx, request.graph, expr, &value));
}

struct WantsMultiples : Backend {
  artifact compile(const tn_compile_request& request) {
    const tn_graph* g = request.graph;
    for (uint32_t s : graph(request).symbols())
      fix(request, made(g, TN_EX_EQ, made(g, TN_EX_MOD, s, constant(g, 8)), constant(g, 0)));
    return interpret(request.ctx, g);
  }
};

struct WantsAtMost : Backend {
  artifact compile(const tn_compile_request& request) {
    for (uint32_t s : graph(request).symbols())
      fix(request, made(request.graph, TN_EX_LE, s, constant(request.graph, 64)));
    return interpret(request.ctx, request.graph);
  }
};

struct WantsExact : Backend {
  artifact compile(const tn_compile_request& request) {
    for (uint32_t s : graph(request).symbols()) fix(request, s);
    return interpret(request.ctx, request.graph);
  }
};

}  // namespace

TENON_PLUGIN_BACKENDS((WantsMultiples, "wants_multiples_of_8"), (WantsAtMost, "wants_at_most_64"),
                      (WantsExact, "wants_exact_sizes"))
