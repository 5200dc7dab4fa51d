// One walk over the nodes; expressions are looked through once.
//
// A size that only a node's result shows (how many elements are not zero) is known once that node
// has run: the host runs it, and to the pieces behind it the size is that of an input.
#include "supported.h"

#include "program.h"

#include <algorithm>
#include <map>
#include <set>

namespace loopir {

namespace {

using tenon::plugin::graph;
using tenon::plugin::node;
using tenon::plugin::value;

class Support {
 public:
  explicit Support(const tn_compile_request& request) : graph_(request) {
    for (uint32_t id : graph_.inputs()) see_symbols(graph_, id, seen_);
  }

  /// To be asked for each node, in order.
  bool takes(const node& n) {
    bool gives_sizes = false;
    for (uint32_t r = 0; r < n.n_results; ++r)
      gives_sizes |= see_symbols(graph_, n.first_result + r, seen_);
    if (gives_sizes || (n.tags & TN_TAG_HIGHER_ORDER)) return false;
    for (uint32_t i = 0; i < n.n_args; ++i)
      if (!takes(n.args[i])) return false;
    for (uint32_t r = 0; r < n.n_results; ++r)
      if (!takes_value(n.first_result + r)) return false;
    return true;
  }

 private:
  bool takes(const tn_arg& a) {
    switch (a.kind) {
      case TN_ARG_VALUE:
        return takes_value(a.u.value);
      case TN_ARG_VALUES:
        return std::all_of(a.u.values, a.u.values + a.count,
                           [&](uint32_t v) { return v == TN_NO_VALUE || takes_value(v); });
      case TN_ARG_SYMINT:
        return is_index(a.u.sym);
      case TN_ARG_SYMINTS:
        return std::all_of(a.u.syms, a.u.syms + a.count,
                           [&](const tn_dim& d) { return is_index(d); });
      case TN_ARG_SYMFLOAT:
        return is_real(a.u.sym.expr);
      default:
        return a.kind < TN_ARG_GRAPH || a.kind == TN_ARG_OPAQUE;
    }
  }

  bool takes_value(uint32_t id) {
    auto [known, is_new] = values_.try_emplace(id, false);
    if (is_new) known->second = is_compiled(graph_.value_at(id));
    return known->second;
  }

  bool is_compiled(const value& v) {
    if (v.kind == TN_VAL_SYMINT) return is_index({0, v.expr, 0});
    if (v.kind == TN_VAL_SYMFLOAT) return is_real(v.expr);
    if (v.kind == TN_VAL_NONE) return true;
    if (!v.is_tensor()) return false;
    auto all = [&](std::span<const tn_dim> dims) {
      return std::all_of(dims.begin(), dims.end(), [&](const tn_dim& d) { return is_index(d); });
    };
    return all(v.dims()) && all(v.stride_dims()) && is_index(v.storage_offset);
  }

  // An integer made by operations that code has, and that never divides by zero: a size that
  // depends on data may be that.
  bool is_index(const tn_dim& d) {
    if (d.expr == TN_EXPR_STATIC) return true;
    auto [known, is_new] = indices_.try_emplace(d.expr, false);
    if (!is_new) return known->second;
    auto e = graph_.expr(d.expr);
    bool compiled = e.op <= TN_EX_POW && !(e.flags & TN_DIM_REAL);
    for (uint32_t operand : e.arguments()) compiled = compiled && is_index({0, operand, 0});
    bool divides = e.op == TN_EX_FLOORDIV || e.op == TN_EX_CEILDIV || e.op == TN_EX_MOD;
    if (divides && (e.flags & TN_DIM_UNBACKED)) {
      auto divisor = graph_.expr(e.arguments()[1]);
      compiled = compiled && (divisor.lower > 0 || divisor.upper < 0);
    }
    return indices_[d.expr] = compiled;
  }

  // A real number made of others and of indices by operations that a call computes.
  bool is_real(uint32_t expr) {
    if (expr == TN_EXPR_STATIC) return false;
    auto [known, is_new] = reals_.try_emplace(expr, false);
    if (!is_new) return known->second;
    auto e = graph_.expr(expr);
    if (!(e.flags & TN_DIM_REAL)) return false;
    if (e.op == TN_EX_TO_FLOAT) return reals_[expr] = is_index({0, e.arguments()[0], 0});
    bool compiled = e.op <= TN_EX_MUL || e.op == TN_EX_TRUEDIV || e.op == TN_EX_POW ||
                    e.op == TN_EX_MIN || e.op == TN_EX_MAX;
    for (uint32_t operand : e.arguments()) compiled = compiled && is_real(operand);
    return reals_[expr] = compiled;
  }

  graph graph_;
  std::map<uint32_t, bool> values_, indices_, reals_;
  std::set<uint32_t> seen_;  // symbols
};

}  // namespace

void support_nodes(const tn_compile_request& request, bool takes_all, std::span<uint8_t> verdicts) {
  graph g(request);
  Support support(request);
  for (uint32_t i = 0; i < g.size(); ++i)
    verdicts[i] = support.takes(g.at(i)) || takes_all ? TN_SUPPORTED : TN_NOT_SUPPORTED;
}

}  // namespace loopir
