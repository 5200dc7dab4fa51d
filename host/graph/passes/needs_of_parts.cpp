// Parts of ops on fakes, recorded into a graph that is thrown away.
#include "graph/passes/needs_of_parts.h"

#include "core/arguments.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/stand_in.h"
#include "core/tensor/tensor_impl.h"
#include "graph/control_flow.h"
#include "graph/meta_cache.h"
#include "graph/record.h"
#include "ops/custom_op.h"
#include "ops/decompose.h"
#include "ops/foreign_results.h"
#include "ops/op_kernels.h"
#include "ops/op_table.h"

#include <bit>
#include <utility>

namespace tenon {

static const OpEntry& row_of(const OpEntry& op) { return op.functional ? *op.functional : op; }

// Functions of the program are asked as their own rows say.
bool has_needs_of_parts(const OpEntry& op) {
  const OpDef& def = *row_of(op).def;
  return def.decomp && !def.formula && def.vjp.kind == Vjp::Kind::automatic && !custom_op_of(op) &&
         !is_control_flow(op);
}

namespace {

/// Numbers in the place of symbols, and fakes of such sizes, one for each tensor, whose memory is shared as
/// theirs is.
class Examples {
 public:
  explicit Examples(const ShapeEnv* env) : env_(env) {}
  /// False when only data tells one of them. No error says so: a body would take it for its own.
  bool are_known() const { return known_; }

  SymInt of(SymInt v) {
    if (!v.is_symbolic()) return v;
    std::optional<int64_t> hint = env_ ? env_->int_hint(v) : std::nullopt;
    known_ = known_ && hint;
    return hint.value_or(1);
  }

  Number of(Number n) {
    if (!n.is_symbolic()) return n;
    if (n.is_integer()) return of(n.sym_int());
    const auto* expr = std::bit_cast<const Expr*>(n.word());
    std::optional<SymValue> hint = env_ ? env_->hint(expr) : std::nullopt;
    known_ = known_ && hint;
    if (!hint) return n.is_floating() ? Number(1.0) : Number(true);
    return n.is_floating() ? Number(hint->real()) : Number(hint->integer() != 0);
  }

  const Tensor& of(const Tensor& t) {
    StorageRef storage;
    for (const auto& [given, made] : made_) {
      if (same_head(given, t)) return made;
      if (shares_storage(given, t)) storage = impl_of(made)->storage_ref;
    }
    TensorMeta meta = meta_of(t);
    for (Dims* dims : {&meta.sizes, &meta.strides})
      for (SymInt& v : *dims) v = of(v);
    Tensor made = make_fake(meta, of(sym_offset_of(t)), std::move(storage));
    if (t.requires_grad()) mark_requires_grad(made, true);
    if (is_wrapped_number(t)) impl_of(made)->ensure_extra().wrapped_number = true;
    return made_.emplace_back(t, std::move(made)).second;
  }

 private:
  const ShapeEnv* env_;
  bool known_ = true;
  std::vector<std::pair<Tensor, Tensor>> made_;
};

void run_parts(const CallArgs& call) {
  GraphRecorder recorder(nullptr);
  recorder.for_metas = true;
  recorder.opens = has_needs_of_parts;
  for (uint32_t i = 0; i < call.n_args; ++i)
    each_tensor(call.args[i], [&](const Tensor& t) {
      if (t.defined() && !recorder.owns(t)) recorder.adopt_input(t);
    });
  RecordScope scope(recorder);
  BelowAutocast as_given;
  decompose(call);
  return_mutated(call);
}

NeedsOfParts needs_after(const CallArgs& call) {
  NeedsOfParts needs;
  each_result(call, [&](const Tensor& t, uint32_t) {
    needs.results.push_back(t.defined() && t.requires_grad());
  });
  for (uint32_t i = 0; i < call.n_args; ++i) {
    bool any = false;
    if (call.op->mutated_args >> i & 1)
      each_tensor(call.args[i], [&](const Tensor& t) { any = any || t.requires_grad(); });
    needs.written.push_back(any);
  }
  return needs;
}

}  // namespace

std::optional<NeedsOfParts> needs_of_parts(const OpEntry& op, std::span<const Value> args,
                                           uint32_t n_results, const ShapeEnv* env) {
  const uint32_t n_slots = op.schema.returns_list() ? 1 : n_results;
  std::vector<Value> like(args.begin(), args.end()), results(n_slots);
  ArgumentLists lists;
  Examples examples(env);
  const CallArgs call{&row_of(op), like.data(), results.data(), static_cast<uint32_t>(like.size()),
                      n_slots};
  map_arguments(
      like, lists, [&](const Tensor& t) { return Tensor(examples.of(t)); },
      [&](Number n) { return examples.of(n); });
  if (!examples.are_known()) return std::nullopt;
  try {
    run_meta_cached(call, run_parts);
  } catch (const Error&) {  // also what the call itself will throw
    return std::nullopt;
  }
  NeedsOfParts needs = needs_after(call);
  drop_results(call);
  if (needs.results.size() != n_results) return std::nullopt;
  if (!op.functional) return needs;
  // The result is copied into the argument.
  needs.results[0] = needs.results[0] || args[0].as<Tensor>()->requires_grad();
  needs.written[0] = needs.results[0];
  return needs;
}

}  // namespace tenon
