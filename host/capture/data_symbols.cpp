// Values and bindings of symbols.
#include "capture/data_symbols.h"

#include "config/flags.h"
#include "core/sym/shape_env.h"
#include "core/sym/symbol_numbers.h"
#include "graph/symbol_use.h"
#include "ops/op_ids.h"
#include "ops/op_table.h"

#include <algorithm>
#include <optional>
#include <set>

namespace tenon {

DataSymbols::DataSymbols(const detail::Leaves& leaves, GraphRecorder& recorder,
                         const TracePolicy& policy)
    : leaves_(leaves),
      recorder_(recorder),
      env_(*recorder.shape_env()),
      asserts_(recorder),
      captures_scalars_(policy.captures_scalars),
      captures_shapes_(policy.captures_shapes) {}

void DataSymbols::take_rules() {
  const config::Flags& flags = config::flags();
  env_.set_rules({flags.shapes.backed_size_oblivious,
                  flags.dynamo.prefer_deferred_runtime_asserts_over_guards,
                  /*ask_when_open=*/true});
  asserts_.skip_new();
}

bool DataSymbols::captures(const OpEntry& op) const {
  bool number = op.n_returns == 1 && !op.schema.returns_list() &&
                op.schema.returns[0].type.base != BaseType::tensor;
  return number ? captures_scalars_ : captures_shapes_;
}

bool DataSymbols::takes_as_guard(const CallArgs& call) {
  if (call.op->id != OpId::aten__assert_scalar_default) return false;
  if (call.args[0].number().is_symbolic()) {
    const Expr* condition = expression_of(call.args[0].number());
    auto is_it = [&](const RuntimeAssert& kept) {
      return env_.renewed(kept.condition) == condition;
    };
    auto is_known = [&](const Expr* symbol) { return env_.info(symbol).is_known_before_run(); };
    if (std::ranges::any_of(env_.runtime_asserts(), is_it) ||
        !std::ranges::all_of(free_symbols(condition), is_known))
      return false;
  }
  run_meta(call);
  emit_asserts();
  return true;
}

// ---- values

std::vector<const Expr*> DataSymbols::show(std::vector<Tensor>& results) const {
  std::vector<const Expr*> symbols;
  for (const SymbolBinding& b : recorder_.graph().symbols) symbols.push_back(b.symbol);
  for (const Expr* symbol : symbols) results.push_back(tensor_of_number(number_over(symbol)));
  return symbols;
}

void DataSymbols::learn(std::span<const Expr* const> symbols, std::span<const Tensor> values) {
  PauseRecording pause;
  for (size_t i = 0; i < symbols.size(); ++i) {
    SymValue value = value_in(values[i], symbols[i]->kind);
    env_.give_value(symbols[i], value);
    keep_value(symbols[i], value, /*is_over=*/false);
  }
}

void DataSymbols::learn_from_arguments(const Expr* expr) {
  for (const Expr* symbol : free_symbols(env_.simplify(expr)))
    if (SymbolInfo known = env_.info(symbol); known.unbacked && known.is_from_input())
      env_.give_value(symbol, {known.kind, word_of(known)});
}

void DataSymbols::renew_sizes(const Tensor& fake) const {
  if (!env_.has_given_values()) return;
  TensorMeta meta = meta_of(fake);
  auto renew = [&](SymInt v) { return v.is_symbolic() ? as_sym_int(env_.renewed(v.expr())) : v; };
  for (SymInt& s : meta.sizes) s = renew(s);
  for (SymInt& s : meta.strides) s = renew(s);
  SymInt offset = renew(sym_offset_of(fake));
  impl_of(fake)->ensure_extra().sym_offset = offset;
  replace_metadata(fake, list_of(meta.sizes), list_of(meta.strides), offset);
}

void DataSymbols::keep_values() const {
  using Kind = SymbolSource::Kind;
  for (const SymbolInfo& symbol : env_.symbols()) {
    std::optional<SymValue> value = env_.hint(symbol.expr);
    Kind kind = symbol.source.kind;
    if (!value && (kind == Kind::input_size || kind == Kind::input_stride))
      value = SymValue::of_int(word_of(symbol));
    keep_value(symbol.expr, value, /*is_over=*/true);
  }
}

int64_t DataSymbols::word_of(const SymbolInfo& symbol) const {
  if (symbol.hint) return symbol.hint->word;
  const detail::TensorHead* head = leaves_.tensors[symbol.source.index]->head();
  bool size = symbol.source.kind == SymbolSource::Kind::input_size;
  return (size ? head->sizes : head->strides)[symbol.source.dim];
}

Number DataSymbols::plain(Number n) const {
  if (!n.is_symbolic()) return n;
  std::optional<SymValue> value = env_.hint(expression_of(n));
  if (!value) return n;
  if (n.is_integer()) return value->integer();
  return n.is_floating() ? Number(value->real()) : Number(value->word != 0);
}

std::vector<int32_t> DataSymbols::show_numbers(std::span<const Number> numbers,
                                               std::vector<Tensor>& results) const {
  std::vector<int32_t> places;
  for (Number n : numbers) {
    bool computed = n.is_symbolic() &&
                    std::ranges::any_of(free_symbols(expression_of(n)), [&](const Expr* symbol) {
                      return !env_.info(symbol).is_known_before_run();
                    });
    places.push_back(computed ? static_cast<int32_t>(results.size()) : -1);
    if (!computed) continue;
    results.push_back(tensor_of_number(n));
  }
  return places;
}

// ---- bindings

namespace {

// The first size of an input that is the symbol itself.
std::optional<SymbolBinding> size_that_is(const Graph& graph, const Expr* symbol) {
  for (ValueId in : graph.inputs()) {
    const GraphValue& v = graph.value(in);
    for (size_t d = 0; v.kind == ValueKind::tensor && d < v.meta.sizes.size(); ++d)
      if (v.meta.sizes[d].is_symbolic() && v.meta.sizes[d].expr() == symbol)
        return SymbolBinding{symbol, in, static_cast<int32_t>(d)};
  }
  return std::nullopt;
}

}  // namespace

void DataSymbols::bind(Graph& graph, Bound which) {
  std::set<const Expr*> mentioned;
  // What lowering asks about a symbol is answered over the one that is known to be equal.
  if (which == Bound::mentioned)
    for (const Expr* symbol : mentioned_symbols(graph)) {
      mentioned.insert(symbol);
      for (const Expr* equal : free_symbols(env_.simplify(symbol))) mentioned.insert(equal);
    }
  auto is_bound = [&](const SymbolInfo& symbol) {
    return symbol.is_known_before_run() && (which == Bound::all || mentioned.contains(symbol.expr));
  };
  for (const SymbolInfo& symbol : env_.symbols()) {
    if (!is_bound(symbol)) continue;
    std::optional<SymbolBinding> binding = size_that_is(graph, symbol.expr);
    if (!binding) {
      Number scalar = symbol.kind == ExprKind::real ? Number(SymFloat::from_expr(symbol.expr))
                                                    : Number(SymInt::from_expr(symbol.expr));
      binding = {symbol.expr, recorder_.add_scalar_input(scalar, symbol.name), -1};
    }
    graph.symbols.push_back(*binding);
  }
  // The callers pass words in the order of graph.symbols: those that they know first.
  std::stable_partition(graph.symbols.begin(), graph.symbols.end(), [&](const SymbolBinding& b) {
    return env_.info(b.symbol).is_known_before_run();
  });
}

std::vector<int64_t> DataSymbols::words(const Graph& graph) const {
  std::vector<int64_t> words;
  for (const SymbolBinding& b : graph.symbols)
    if (const SymbolInfo& info = env_.info(b.symbol); info.is_known_before_run())
      words.push_back(word_of(info));
  return words;
}

}  // namespace tenon
