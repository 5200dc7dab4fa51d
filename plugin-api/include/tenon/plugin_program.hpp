// SPDX-License-Identifier: Apache-2.0
// tenon/plugin_program.hpp - a graph that outlives its compile and runs one node at a time, for
// backends that look at every step. Include it beside <tenon/plugin.hpp>.
//
//   struct Artifact {
//     program steps;                                    // program(request)
//     void call(tn_call& c) {
//       steps.run(c, [&](const step& s, auto&& run) {   // around each node
//         run();                                        // s.results() hold tensors from here on
//       });
//     }
//   };
//
// Sizes that depend on symbols are computed at each call from copies of the graph's expressions;
// symbols that depend on data are read from the results that have them as sizes. Graphs with
// sub-graphs, opaque arguments, or numbers that nodes compute throw `declined`.
#pragma once

#include <tenon/plugin.hpp>

#include <bit>
#include <cmath>
#include <set>

namespace tenon::plugin {

/// Expressions of a graph, copied so that they can be evaluated after the compile. Real numbers
/// stand as the bits of a double.
class kept_expressions {
 public:
  /// The position of an expression among the evaluated ones; operands are kept with it.
  uint32_t keep(const graph& g, uint32_t expr) {
    if (auto known = at_.find(expr); known != at_.end()) return known->second;
    expression e = g.expr(expr);
    entry made{e.op, (e.flags & TN_DIM_REAL) != 0, e.value, {}};
    if (e.op == TN_EX_SYMBOL) made.value = symbol_index(g, expr);
    if (e.op > TN_EX_SELECT) throw declined("a number is computed by an unknown operator");
    for (uint32_t operand : e.arguments()) made.operands.push_back(keep(g, operand));
    entries_.push_back(std::move(made));
    return at_[expr] = uint32_t(entries_.size() - 1);
  }
  /// All values, by position, from those of the graph's symbols (tn_call.syms). What depends on a
  /// symbol whose place in `unbound` is true is left 0.
  std::vector<int64_t> evaluate(const int64_t* syms, const std::vector<bool>& unbound = {}) const {
    std::vector<int64_t> values;
    std::vector<bool> is_unknown;
    for (const entry& e : entries_) {
      bool unknown = e.op == TN_EX_SYMBOL && size_t(e.value) < unbound.size() && unbound[e.value];
      for (uint32_t operand : e.operands) unknown = unknown || is_unknown[operand];
      values.push_back(unknown ? 0 : evaluate(e, values, syms));
      is_unknown.push_back(unknown);
    }
    return values;
  }
  /// The place of a symbol among those of the graph; declines what is none of them.
  static int64_t symbol_index(const graph& g, uint32_t expr) {
    std::span<const uint32_t> symbols = g.symbols();
    auto found = std::find(symbols.begin(), symbols.end(), expr);
    if (found == symbols.end()) throw declined("a size depends on data");
    return found - symbols.begin();
  }

 private:
  struct entry {
    uint32_t op;
    bool is_real;
    int64_t value;  // of a constant; the index of a symbol
    std::vector<uint32_t> operands;
  };

  static int64_t floor_div(int64_t a, int64_t b) {
    if (b == 0) throw error(TN_OUT_OF_RANGE, "a size is divided by zero");
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
  }
  static int64_t power(int64_t base, int64_t exponent) {
    int64_t out = 1;
    for (; exponent > 0; --exponent) out *= base;
    return out;
  }
  int64_t evaluate(const entry& e, std::span<const int64_t> values, const int64_t* syms) const {
    if (e.op == TN_EX_CONST) return e.value;
    if (e.op == TN_EX_SYMBOL) return syms[e.value];
    int64_t result = values[e.operands[0]];
    if (e.op == TN_EX_NOT) return !result;
    if (e.op == TN_EX_SELECT) return values[e.operands[result ? 1 : 2]];
    if (e.op == TN_EX_TO_FLOAT) return std::bit_cast<int64_t>(double(result));
    if (e.op == TN_EX_TRUNC) return truncated(std::bit_cast<double>(result));
    bool is_real = entries_[e.operands[0]].is_real;
    for (size_t i = 1; i < e.operands.size(); ++i)
      result = is_real ? combine_real(e.op, result, values[e.operands[i]])
                       : combine(e.op, result, values[e.operands[i]]);
    return result;
  }
  static int64_t truncated(double x) {
    if (!(x >= -0x1p63 && x < 0x1p63))
      throw error(TN_OUT_OF_RANGE, "a number is too large for an integer");
    return int64_t(x);
  }
  // As the host has it: NaN in either operand of min and max gives NaN.
  static int64_t combine_real(uint32_t op, int64_t p, int64_t q) {
    double a = std::bit_cast<double>(p), b = std::bit_cast<double>(q);
    auto bits = [](double x) { return std::bit_cast<int64_t>(x); };
    switch (op) {
      case TN_EX_ADD:
        return bits(a + b);
      case TN_EX_MUL:
        return bits(a * b);
      case TN_EX_TRUEDIV:
        return bits(a / b);
      case TN_EX_POW:
        return bits(std::pow(a, b));
      case TN_EX_MIN:
        return bits(b < a || std::isnan(b) ? b : a);
      case TN_EX_MAX:
        return bits(a < b || std::isnan(b) ? b : a);
      case TN_EX_EQ:
        return a == b;
      case TN_EX_NE:
        return a != b;
      case TN_EX_LT:
        return a < b;
      case TN_EX_LE:
        return a <= b;
      default:
        throw error(TN_UNIMPLEMENTED, text("operator {} of real numbers is unknown", op));
    }
  }
  static int64_t combine(uint32_t op, int64_t a, int64_t b) {
    switch (op) {
      case TN_EX_ADD:
        return a + b;
      case TN_EX_MUL:
        return a * b;
      case TN_EX_FLOORDIV:
        return floor_div(a, b);
      case TN_EX_CEILDIV:
        return -floor_div(-a, b);
      case TN_EX_MOD:
        return a - floor_div(a, b) * b;
      case TN_EX_MIN:
        return std::min(a, b);
      case TN_EX_MAX:
        return std::max(a, b);
      case TN_EX_POW:
        return power(a, b);
      case TN_EX_EQ:
        return a == b;
      case TN_EX_NE:
        return a != b;
      case TN_EX_LT:
        return a < b;
      case TN_EX_LE:
        return a <= b;
      case TN_EX_AND:
        return a && b;
      case TN_EX_OR:
        return a || b;
      default:
        throw error(TN_UNIMPLEMENTED, text("expression operator {} is unknown", op));
    }
  }

  std::vector<entry> entries_;  // operands before users
  std::unordered_map<uint32_t, uint32_t> at_;
};

/// One node of a running program: what it reads and, once it has run, what it gave.
struct step {
  const owned_node& node;
  std::string_view name;             ///< unique in the graph: "add_3"
  std::span<const tn_arg> args;      ///< symbols replaced by this call's values
  tn_tensor* const* values;          ///< what TN_ARG_VALUE and TN_ARG_VALUES index
  std::span<const int64_t> numbers;  ///< the kept expressions' values in this call
  uint32_t index;                    ///< of the node in the graph

  std::span<tn_tensor* const> results() const {
    return {values + node.first_result, node.n_results};
  }
};

class program {
  /// A symbol that is known once a result is there: its size in `dim`.
  struct binding {
    uint32_t value, dim;
    size_t symbol;
  };
  struct filled_args;

 public:
  explicit program(const tn_compile_request& request) {
    graph g(request);
    for (uint32_t i = 0; i < g.values(); ++i) keep_value(g, i);
    for (uint32_t i = 0; i < g.size(); ++i) keep_node(g, i);
    inputs_.assign(g.inputs().begin(), g.inputs().end());
    outputs_.assign(g.outputs().begin(), g.outputs().end());
    for (uint32_t id : outputs_)
      if (id != TN_NO_VALUE && numbers_.contains(id)) throw declined("an output is a number");
    find_last_uses();
  }

  /// Expressions kept here are evaluated at each call: see step::numbers.
  kept_expressions& expressions() { return expressions_; }

  /// Runs all nodes; around(step, run) must call run() once.
  template <class Around>
  void run(tn_call& c, Around&& around) const {
    pass now(*this, {c.syms, c.n_syms}, c.stream);
    for (size_t i = 0; i < inputs_.size(); ++i) now.lend(inputs_[i], c.inputs[i]);
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      now.run(i, around);
      now.drop_values_read_last_by(i);
    }
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (outputs_[i] != TN_NO_VALUE) c.outputs[i] = tensor::share(now.at(outputs_[i])).release();
  }

  std::span<const uint32_t> inputs() const { return inputs_; }    ///< values
  std::span<const uint32_t> outputs() const { return outputs_; }  ///< values, or TN_NO_VALUE

  /// One call whose caller says which node runs when, and gives values that others have computed.
  class pass {
   public:
    /// `syms` as in tn_call. The program must outlive it.
    pass(const program& p, std::span<const int64_t> syms, tn_stream* stream)
        : program_(p),
          stream_(stream),
          symbols_(syms.begin(), syms.end()),
          unbound_(p.unbound_at_start()),
          evaluated_(p.expressions_.evaluate(symbols_.data(), unbound_)),
          owned_(p.n_values_),
          values_(p.n_values_) {
      for (const auto& [id, constant] : p.constants_) values_[id] = constant.get();
    }
    pass(const pass&) = delete;

    /// A value that lives as long as the pass; NULL for numbers.
    void lend(uint32_t value, tn_tensor* t) { values_[value] = t; }
    void give(uint32_t value, tensor t) {
      owned_[value] = std::move(t);
      values_[value] = owned_[value].get();
    }
    /// NULL where it is not there yet.
    tn_tensor* at(uint32_t value) const { return values_[value]; }

    /// What the node reads must be there. around(step, run) must call run() once.
    template <class Around>
    void run(uint32_t i, Around&& around) {
      const owned_node& node = program_.nodes_[i];
      filled_args args(program_, node, evaluated_);
      around(step{node, program_.names_[i], args.list, values_.data(), evaluated_, i}, [&] {
        std::span<tn_tensor*> results(&values_[node.first_result], node.n_results);
        run_op(node, args.list, values_.data(), results, stream_);
        for (size_t r = 0; r < results.size(); ++r)
          owned_[node.first_result + r] = tensor(results[r]);
        bind(program_.bindings_[i]);
      });
    }
    void run(uint32_t i) {
      run(i, [](const step&, auto&& run) { run(); });
    }
    /// Outputs of the program are kept.
    void drop_values_read_last_by(uint32_t node) {
      for (uint32_t id : program_.last_uses_[node]) owned_[id] = tensor();
    }

   private:
    void bind(std::span<const binding> bindings) {
      for (const binding& b : bindings) {
        symbols_[b.symbol] = values_[b.value]->sizes[b.dim];
        unbound_[b.symbol] = false;
      }
      if (!bindings.empty())  // in place: the step looks at them
        std::ranges::copy(program_.expressions_.evaluate(symbols_.data(), unbound_),
                          evaluated_.begin());
    }

    const program& program_;
    tn_stream* stream_;
    std::vector<int64_t> symbols_;
    std::vector<bool> unbound_;
    std::vector<int64_t> evaluated_;
    std::vector<tensor> owned_;       // what nodes have made, or was given
    std::vector<tn_tensor*> values_;  // all
  };

 private:
  /// The arguments of a node in one call: symbols as numbers.
  struct filled_args {
    std::vector<tn_arg> list;
    std::vector<std::vector<int64_t>> lists;

    filled_args(const program& p, const owned_node& node, std::span<const int64_t> evaluated)
        : list(node.args().begin(), node.args().end()) {
      auto number = [&](const tn_dim& d) {
        return d.expr == TN_EXPR_STATIC ? d.value : evaluated[p.expression_at_.at(d.expr)];
      };
      for (tn_arg& a : list) {
        if (a.kind == TN_ARG_VALUE && p.numbers_.contains(a.u.value)) {
          const number_value& n = p.numbers_.at(a.u.value);
          set(a, n.kind, evaluated[n.at]);
        } else if (a.kind == TN_ARG_SYMINT) {
          set(a, TN_ARG_INT, number(a.u.sym));
        } else if (a.kind == TN_ARG_SYMFLOAT) {
          set(a, TN_ARG_FLOAT, number(a.u.sym));
        } else if (a.kind == TN_ARG_SYMBOOL) {
          set(a, TN_ARG_BOOL, number(a.u.sym));
        } else if (a.kind == TN_ARG_SYMINTS) {
          auto& ints = lists.emplace_back();
          for (uint32_t k = 0; k < a.count; ++k) ints.push_back(number(a.u.syms[k]));
          a.u.ints = ints.data();
          a.kind = TN_ARG_INTS;
        }
      }
    }
    static void set(tn_arg& a, uint32_t kind, int64_t word) {
      a.kind = kind;
      if (kind == TN_ARG_FLOAT)
        a.u.f = std::bit_cast<double>(word);
      else
        a.u.i = word;
    }
  };

  /// A number among the values: where it is evaluated, and what kind of argument it is.
  struct number_value {
    uint32_t at, kind;
  };

  void bind_results(const graph& g, const node& n) {
    auto& bound = bindings_.emplace_back();
    for (uint32_t id = n.first_result; id < n.first_result + n.n_results; ++id) {
      value v = g.value_at(id);
      for (uint32_t d = 0; d < v.dims().size(); ++d) {
        const tn_dim& dim = v.dims()[d];
        if (!(dim.flags & TN_DIM_UNBACKED) || g.expr(dim.expr).op != TN_EX_SYMBOL) continue;
        auto symbol = size_t(kept_expressions::symbol_index(g, dim.expr));
        if (bound_.insert(symbol).second) bound.push_back({id, d, symbol});
      }
    }
  }
  std::vector<bool> unbound_at_start() const {
    std::vector<bool> out(bound_.empty() ? 0 : *bound_.rbegin() + 1);
    for (size_t symbol : bound_) out[symbol] = true;
    return out;
  }

  void keep_value(const graph& g, uint32_t id) {
    value v = g.value_at(id);
    n_values_ = id + 1;
    if (v.source == TN_SRC_CONSTANT) constants_.emplace_back(id, g.constant(id));
    if (v.kind == TN_VAL_TENSOR || v.kind == TN_VAL_NONE) return;
    uint32_t kind = v.kind == TN_VAL_SYMINT     ? uint32_t{TN_ARG_INT}
                    : v.kind == TN_VAL_SYMFLOAT ? uint32_t{TN_ARG_FLOAT}
                    : v.kind == TN_VAL_SYMBOOL  ? uint32_t{TN_ARG_BOOL}
                                                : uint32_t{TN_ARG_NONE};
    if (kind == TN_ARG_NONE || v.source != TN_SRC_INPUT || v.expr == TN_EXPR_STATIC)
      throw declined(text("value {} is a number that nodes compute", sv(v.name)));
    numbers_[id] = {expressions_.keep(g, v.expr), kind};
  }
  void keep_node(const graph& g, uint32_t i) {
    node n = g.at(i);
    names_.emplace_back(sv(n.name));
    const owned_node& kept = nodes_.emplace_back(g, i);
    bind_results(g, n);
    for (const tn_arg& a : kept.args()) {
      if (a.kind == TN_ARG_SYMINT || a.kind == TN_ARG_SYMFLOAT || a.kind == TN_ARG_SYMBOOL)
        keep_dim(g, a.u.sym);
      for (uint32_t k = 0; a.kind == TN_ARG_SYMINTS && k < a.count; ++k) keep_dim(g, a.u.syms[k]);
    }
  }
  void keep_dim(const graph& g, const tn_dim& d) {
    if (d.expr != TN_EXPR_STATIC) expression_at_[d.expr] = expressions_.keep(g, d.expr);
  }
  // Results of nodes are released after the last node that reads them; outputs live to the end.
  void find_last_uses() {
    std::vector<uint32_t> last(n_values_, TN_NO_VALUE);
    auto use = [&](uint32_t id, uint32_t at) {
      if (id != TN_NO_VALUE) last[id] = at;
    };
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      for (uint32_t r = 0; r < nodes_[i].n_results; ++r) use(nodes_[i].first_result + r, i);
      for (const tn_arg& a : nodes_[i].args()) {
        if (a.kind == TN_ARG_VALUE) use(a.u.value, i);
        for (uint32_t k = 0; a.kind == TN_ARG_VALUES && k < a.count; ++k) use(a.u.values[k], i);
      }
    }
    for (uint32_t id : outputs_) use(id, TN_NO_VALUE);
    last_uses_.resize(nodes_.size());
    for (uint32_t id = 0; id < n_values_; ++id)
      if (last[id] != TN_NO_VALUE) last_uses_[last[id]].push_back(id);
  }

  std::vector<owned_node> nodes_;
  std::vector<std::string> names_;
  std::vector<std::pair<uint32_t, tensor>> constants_;
  std::vector<uint32_t> inputs_, outputs_;
  std::vector<std::vector<uint32_t>> last_uses_;  // by node
  std::vector<std::vector<binding>> bindings_;    // by node
  std::set<size_t> bound_;                        // the symbols of all of them
  kept_expressions expressions_;
  std::unordered_map<uint32_t, number_value> numbers_;    // by value
  std::unordered_map<uint32_t, uint32_t> expression_at_;  // expressions in arguments, likewise
  uint32_t n_values_ = 0;
};

}  // namespace tenon::plugin
