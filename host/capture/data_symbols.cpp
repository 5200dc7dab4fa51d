// Numbers that depend on data as symbols of the graph: reading them, asserting, and learning their
// values where the body is cut.
//
// Model: under dynamo.capture_scalar_outputs, capture_dynamic_output_shape_ops or fullgraph an op
// whose result only run time knows is recorded, and what is unknown of it is an unbacked symbol.
// What the recording takes for granted about such a symbol becomes an assertion node before the
// first node that may rely on it. When the body asks for its value (a branch, a plain number) the
// segment ends there; the symbols of the segment are among its results, and from then on an
// ordinary symbol with that value as its example stands for each of them, which is an input of the
// segments that follow.
#include "capture/trace.h"

#include "capture/body_scope.h"

#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "graph/symbol_use.h"
#include "ops/op_table.h"

#include <tenon/ops.h>

#include <algorithm>

namespace tenon {

namespace {

Dtype dtype_of_symbol(const Expr* symbol) {
  return symbol->kind == ExprKind::integer ? Dtype::i64
         : symbol->kind == ExprKind::real  ? Dtype::f64
                                           : Dtype::bool_;
}

SymValue value_in(const Tensor& t, ExprKind kind) {
  if (kind == ExprKind::real) return SymValue::of_real(*t.data_ptr<double>());
  return {kind, kind == ExprKind::integer ? *t.data_ptr<int64_t>() : *t.data_ptr<bool>()};
}

// An integer of `from` has the same value when it is read as `to`.
bool keeps_integers(Dtype from, Dtype to) {
  bool integers =
      is_integral(from) && is_integral(to) && from != Dtype::bool_ && to != Dtype::bool_;
  return integers && (from == to || (itemsize(from) < itemsize(to) && to != Dtype::u8));
}

}  // namespace

void Trace::take_rules() {
  const config::Flags& flags = config::flags();
  shape_env->set_rules({flags.shapes.backed_size_oblivious,
                        flags.dynamo.prefer_deferred_runtime_asserts_over_guards,
                        /*ask_when_open=*/true});
  n_seen_asserts_ = shape_env->runtime_asserts().size();
}

bool Trace::captures(const OpEntry& op) const {
  bool number = op.n_returns == 1 && !op.schema.returns_list() &&
                op.schema.returns[0].type.base != BaseType::tensor;
  return number ? captures_scalars_ : captures_shapes_;
}

// A number argument of the user whose value is there before the call: a guard may decide about it.
std::optional<SymInt> Trace::item_of_argument(const Tensor& fake, Dtype wanted) {
  if (was_cut() || has_mutated_) return std::nullopt;
  for (size_t i = 0; i < leaf_fakes_.size(); ++i) {
    const Tensor& real = *leaves_.tensors[i];
    if (!leaf_fakes_[i].defined() || !leaf_fakes_[i].is_same(fake)) continue;
    if (real.dim() != 0 || real.device() != kCPU || !keeps_integers(real.dtype(), wanted)) break;
    auto [known, is_new] = argument_items_.try_emplace(i);
    if (!is_new) return known->second;
    PauseRecording pause;
    SymbolSource source{SymbolSource::Kind::input_item, static_cast<uint32_t>(i), 0};
    known->second =
        shape_env->create_symbol(detail::item_int(real, std::source_location::current()), source,
                                 message("arg{}.item()", i), SymbolOptions::for_number());
    return known->second;
  }
  return std::nullopt;
}

Number Trace::item_symbol(const Tensor& t, Dtype wanted) {
  BodyScope::check("a number read from a tensor, by item(), is used as a symbol");
  if (auto known = item_of_argument(t, wanted)) return *known;
  return item(t.dtype() == wanted ? t : t.to(wanted));
}

// ---- assertions

// Whether the nodes so far, or the arguments, tell every number in the condition.
bool Trace::is_bound(const Expr* condition) {
  std::vector<const Expr*> symbols = free_symbols(condition);
  return std::ranges::all_of(symbols, [&](const Expr* symbol) {
    if (shape_env->info(symbol).is_known_before_run()) return true;
    const auto& bindings = recorder_.graph().symbols;
    return std::ranges::any_of(bindings, [&](auto& b) { return b.symbol == symbol; });
  });
}

void Trace::emit_asserts() {
  for (; n_seen_asserts_ < shape_env->runtime_asserts().size(); ++n_seen_asserts_)
    waiting_asserts_.push_back(n_seen_asserts_);
  if (waiting_asserts_.empty()) return;
  for (size_t index : std::exchange(waiting_asserts_, {})) {
    RuntimeAssert check = shape_env->runtime_asserts()[index];
    const Expr* condition = shape_env->renewed(check.condition);
    if (condition->is_constant() || config::flags().dynamo.do_not_emit_runtime_asserts) continue;
    if (!is_bound(condition)) {
      waiting_asserts_.push_back(index);
      continue;
    }
    std::string text = shape_env->text(check.condition);
    if (!check.message.empty()) text += ": " + check.message;
    _assert_scalar(SymBool::from_expr(condition), text);
  }
}

// ---- values

// What the nodes of the segment bind, as tensors among its results.
std::vector<const Expr*> Trace::show_symbols(std::vector<Tensor>& results) {
  std::vector<const Expr*> symbols;
  for (const SymbolBinding& b : recorder_.graph().symbols) symbols.push_back(b.symbol);
  for (const Expr* symbol : symbols)
    results.push_back(scalar_tensor(number_over(symbol), dtype_of_symbol(symbol)));
  return symbols;
}

void Trace::learn_symbols(std::span<const Expr* const> symbols, std::span<const Tensor> values) {
  for (size_t i = 0; i < symbols.size(); ++i)
    shape_env->give_value(symbols[i], value_in(values[i], symbols[i]->kind));
}

// The sizes of a fake of an earlier segment, over the symbols that stand for them by now.
void Trace::renew_sizes(const Tensor& fake) const {
  if (!shape_env->has_given_values()) return;
  TensorMeta meta = meta_of(fake);
  auto renew = [&](SymInt v) {
    return v.is_symbolic() ? as_sym_int(shape_env->renewed(v.expr())) : v;
  };
  for (SymInt& s : meta.sizes) s = renew(s);
  for (SymInt& s : meta.strides) s = renew(s);
  SymInt offset = renew(sym_offset_of(fake));
  impl_of(fake)->ensure_extra().sym_offset = offset;
  replace_metadata(fake, list_of(meta.sizes), list_of(meta.strides), offset);
}

int64_t Trace::word_of(const SymbolInfo& symbol) const {
  if (symbol.hint) return symbol.hint->word;
  const detail::TensorHead* head = leaves_.tensors[symbol.source.index]->head();
  bool size = symbol.source.kind == SymbolSource::Kind::input_size;
  return (size ? head->sizes : head->strides)[symbol.source.dim];
}

bool Trace::may_look() const {
  return !fullgraph_ && !config::flags().shapes.no_data_dependent_graph_break;
}

// Somebody asks for a number that depends on data: the segment ends, which shows it.
std::optional<SymValue> Trace::look_at(const Expr* expr) {
  bool is_recording = thread_modes.tracer == &recorder_ && !recorder_.is_in_meta();
  if (!is_recording || !may_look()) return std::nullopt;
  cut_because(message("the value of {} is asked for", shape_env->text(expr)));
  for (const Expr* symbol : free_symbols(shape_env->simplify(expr)))
    if (SymbolInfo known = shape_env->info(symbol); known.unbacked && known.is_from_input())
      shape_env->give_value(symbol, {known.kind, word_of(known)});
  return shape_env->hint(expr);
}

// A number of an argument list as plain as the kernels want it.
Number Trace::plain(Number n) const {
  if (!n.is_symbolic()) return n;
  std::optional<SymValue> value = shape_env->hint(expression_of(n));
  if (!value) return n;
  if (n.is_integer()) return value->integer();
  return n.is_floating() ? Number(value->real()) : Number(value->word != 0);
}

// The numbers among the results that nodes compute are results of the graph, too.
void Trace::show_output_numbers(std::vector<Tensor>& from_graph) {
  for (Number n : output_numbers) {
    bool computed = n.is_symbolic() &&
                    std::ranges::any_of(free_symbols(expression_of(n)), [&](const Expr* symbol) {
                      return !shape_env->info(symbol).is_known_before_run();
                    });
    number_outputs.push_back(computed ? static_cast<int32_t>(from_graph.size()) : -1);
    if (!computed) continue;
    Dtype dtype = n.is_integer() ? Dtype::i64 : n.is_floating() ? Dtype::f64 : Dtype::bool_;
    from_graph.push_back(scalar_tensor(n, dtype));
  }
}

}  // namespace tenon
