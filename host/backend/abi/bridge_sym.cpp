// Symbolic expressions for plugins: facts, text, arithmetic and guards over the graph's engine.
#include "backend/abi/compile_context.h"
#include "backend/abi/graph_view.h"
#include "backend/abi/status.h"
#include "core/sym/cost_hint.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_simplify.h"
#include "core/sym/sym_text.h"

#include <algorithm>
#include <cstring>
#include <memory>

using namespace tenon;

/// Expressions that a plugin keeps. They are interned for the life of the process, so that only
/// the order of the symbols is the graph's.
struct tn_exprs {
  std::vector<const Expr*> exprs, symbols;
};

namespace {

const ShapeEnv& env_of(const tn_graph* g) {
  require(g->graph->shape_env != nullptr, "the graph has no symbols");
  return *g->graph->shape_env;
}

tn_status* info(const tn_graph* g, uint32_t id, tn_expr_info* inout) {
  return guarded([&] {
    const Expr* e = g->expr(id);
    const ShapeEnv& env = env_of(g);
    tn_expr_info full{};
    full.struct_size = inout->struct_size;
    full.op = static_cast<uint32_t>(e->op);
    full.n_operands = e->n_operands;
    full.value = e->is_constant() ? e->payload : 0;
    std::vector<uint32_t> operands;
    for (const Expr* o : e->operands()) operands.push_back(g->expr_id(o));
    {
      std::lock_guard lock(g->exprs_lock);
      full.operands = g->operand_lists.emplace_back(std::move(operands)).data();
    }
    if (auto hint = cost_hint(env, e)) {
      full.hint = hint->word;
      full.flags |= TN_DIM_HAS_HINT;
    } else {
      full.flags |= TN_DIM_UNBACKED;
    }
    full.flags |= kind_flags(e);
    Range range = e->kind == ExprKind::integer ? env.range(e) : Range{};
    full.lower = range.lo;
    full.upper = range.hi;
    if (e->is_symbol()) {
      const SymbolInfo& symbol = env.info(e);
      full.name = str_of(symbol.name);
      full.source = str_of(symbol.source_text);
    }
    std::memcpy(inout, &full, std::min<size_t>(inout->struct_size, sizeof full));
  });
}

tn_status* make(const tn_graph* g, uint32_t op, const uint32_t* operands, uint32_t n,
                uint32_t* out) {
  return guarded([&] {
    require(op >= TN_EX_ADD && op <= TN_EX_SELECT, "expression op {} is unknown to this host", op);
    std::vector<const Expr*> args;
    for (uint32_t i = 0; i < n; ++i) args.push_back(g->expr(operands[i]));
    *out = g->expr_id(make_expr(static_cast<SymOp>(op), args));
  });
}

tn_status* guard(tn_ctx* ctx, const tn_graph* g, uint32_t id, int64_t* value) {
  return guarded([&] {
    const Expr* e = g->expr(id);
    std::optional<SymValue> hint = env_of(g).hint(e);
    require(hint.has_value(), ErrorCode::data_dependent,
            "the expression depends on data and has no example value to guard");
    const Expr* fixed = e->kind == ExprKind::boolean
                            ? (hint->word ? e : make_expr(SymOp::not_, {e}))
                            : make_expr(SymOp::eq, {e, intern_integer(hint->word)});
    ctx->guards.push_back(fixed);
    *value = hint->word;
  });
}

std::vector<const Expr*> symbols_of(const tn_graph* g) {
  std::vector<const Expr*> out;
  for (const SymbolBinding& b : g->graph->symbols) out.push_back(b.symbol);
  return out;
}

int64_t value_of(const Expr* expr, std::span<const Expr* const> symbols, const int64_t* syms) {
  auto result = evaluate(expr, [&](const Expr* symbol) -> std::optional<SymValue> {
    for (size_t i = 0; i < symbols.size(); ++i)
      if (symbols[i] == symbol) return SymValue{symbol->kind, syms[i]};
    return std::nullopt;
  });
  require(result.has_value(),
          "the expression overflows, divides by zero, or has a symbol without value");
  return result->word;
}

tn_status* eval(const tn_graph* g, uint32_t id, const int64_t* syms, int64_t* value) {
  return guarded([&] { *value = value_of(g->expr(id), symbols_of(g), syms); });
}

tn_status* keep(const tn_graph* g, const uint32_t* ids, uint32_t n, tn_exprs** out) {
  return guarded([&] {
    auto kept = std::make_unique<tn_exprs>();
    for (uint32_t i = 0; i < n; ++i) kept->exprs.push_back(g->expr(ids[i]));
    kept->symbols = symbols_of(g);
    *out = kept.release();
  });
}

tn_status* eval_kept(const tn_exprs* kept, const int64_t* syms, int64_t* values) {
  return guarded([&] {
    for (size_t i = 0; i < kept->exprs.size(); ++i)
      values[i] = value_of(kept->exprs[i], kept->symbols, syms);
  });
}

int32_t known(const tn_graph* g, uint32_t id) {
  int32_t answer = -1;
  free_status(guarded([&] {
    if (auto fact = env_of(g).statically_known(g->expr(id))) answer = *fact;
  }));
  return answer;
}

}  // namespace

const tn_sym_api tenon::sym_api = {
    .struct_size = sizeof(tn_sym_api),
    .info = info,
    .text =
        [](const tn_graph* g, uint32_t id, const tn_sink* sink) {
          return guarded([&] {
            std::string text = env_of(g).text(g->expr(id));
            sink->write(sink->ctx, text.data(), text.size());
          });
        },
    .make = make,
    .constant =
        [](const tn_graph* g, int64_t v, uint32_t* out) {
          return guarded([&] { *out = g->expr_id(intern_integer(v)); });
        },
    .known = known,
    .guard = guard,
    .eval = eval,
    .keep = keep,
    .eval_kept = eval_kept,
    .free_kept = [](tn_exprs* kept) { delete kept; },
};
