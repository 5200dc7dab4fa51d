// SPDX-License-Identifier: Apache-2.0
// tenon/custom_ops.hpp - ops that a plugin adds, in C++20, over <tenon/custom_ops.h>.
//
//   TENON_PLUGIN(p) {
//     p.backend<Mine>("mine");
//     add_op({.schema = "my::swiglu(Tensor x, Tensor gate) -> Tensor",
//             .formula = formula_of_elements<2>([](auto x, auto g) { return x * g * sigmoid(g);
//             })});
//     add_op({.schema = "my::count(Tensor x) -> Tensor", .like = 0,
//             .kernel = [](const kernel_call& c) { ... c.give(0, std::move(result)); }});
//   }
#pragma once

#include <tenon/custom_ops.h>
#include <tenon/formula.hpp>
#include <tenon/plugin.hpp>

#include <optional>

namespace tenon::plugin {

/// A meta function's call: the values it reads, and where its results go.
struct meta_call {
  tn_meta_call* abi;

  plugin::graph graph() const { return plugin::graph(abi->graph); }
  node call() const { return graph().at(0); }  ///< args are valid while this lives
  /// The tensor argument at `i`.
  value tensor_at(size_t i) const { return graph().value_at(call().arguments()[i].u.value); }
  tn_dim constant(int64_t number) const { return {number, TN_EXPR_STATIC, 0}; }
  /// A size computed from two others: combine(TN_EX_MUL, a, b).
  tn_dim combine(uint32_t op, const tn_dim& a, const tn_dim& b) const {
    uint32_t operands[] = {expression_of(a), expression_of(b)}, made = 0;
    check(host->sym->make(abi->graph, op, operands, 2, &made));
    expression e{};
    e.struct_size = sizeof(tn_expr_info);
    check(host->sym->info(abi->graph, made, &e));
    if (e.op == TN_EX_CONST) return constant(e.value);
    return {e.hint, made, e.flags};
  }
  /// Result `i`, contiguous.
  void give(uint32_t i, int32_t dtype, std::span<const tn_dim> sizes) const {
    check(abi->set_result(abi, i, dtype, sizes.data(), nullptr, int32_t(sizes.size())));
  }

 private:
  uint32_t expression_of(const tn_dim& d) const {
    if (d.expr != TN_EXPR_STATIC) return d.expr;
    uint32_t made = 0;
    check(host->sym->constant(abi->graph, d.value, &made));
    return made;
  }
};

/// A derivative's call.
struct vjp_call {
  tn_vjp_call* abi;

  std::span<const tn_arg> args() const { return {abi->args, abi->n_args}; }
  tn_tensor* tensor_at(size_t i) const { return abi->values[args()[i].u.value]; }
  tn_tensor* result(size_t i) const { return abi->results[i]; }
  tn_tensor* grad(size_t i) const { return abi->grads[i]; }
  /// The gradient of the i-th tensor among the arguments, where elements of lists count, too.
  void give(size_t i, tensor t) const { abi->out[i] = t.release(); }
};

namespace detail {

/// Arguments of one call, with what they point to.
class call_arguments {
 public:
  void add(const tensor& t) { add(t.get()); }
  void add(const tn_tensor* t) { add(const_cast<tn_tensor*>(t)); }
  void add(tn_tensor* t) {
    tn_arg& a = next(t ? TN_ARG_VALUE : TN_ARG_NONE);
    if (!t) return;
    a.u.value = uint32_t(values_.size());
    values_.push_back(t);
  }
  void add(std::nullopt_t) { next(TN_ARG_NONE); }
  void add(bool v) { next(TN_ARG_BOOL).u.i = v; }
  void add(double v) { next(TN_ARG_FLOAT).u.f = v; }
  template <std::integral T>
  void add(T v) {
    next(TN_ARG_INT).u.i = int64_t(v);
  }
  void add(std::string_view v) { next(TN_ARG_STRING).u.str = str(v); }
  void add(const char* v) { add(std::string_view(v)); }
  void add(std::span<const int64_t> v) {
    tn_arg& a = next(TN_ARG_INTS);
    a.count = uint32_t(v.size());
    a.u.ints = v.data();
  }
  void add(const std::vector<int64_t>& v) { add(std::span(v)); }
  void add(const tn_arg& a) { args_.push_back(a); }

  void run(uint32_t op, std::span<tn_tensor*> out) const { run_op(op, args_, values_.data(), out); }

 private:
  tn_arg& next(uint32_t kind) {
    tn_arg& a = args_.emplace_back();
    a.kind = kind;
    return a;
  }
  std::vector<tn_arg> args_;
  std::vector<tn_tensor*> values_;
};

}  // namespace detail

/// Calls an op of the host, as a derivative or a decomposition does: call("aten.mul.Tensor", a, b).
/// Arguments in schema order: tensors (`tensor`, `tn_tensor*`), bool, numbers, texts, lists of
/// int64_t, std::nullopt for none, a tn_arg for what else there is (a dtype). What is left out at
/// the end has its default. A floating argument is written as one: 2.0. Throws `error`.
template <class... A>
std::vector<tensor> call_for(size_t n_results, std::string_view name, const A&... args) {
  uint32_t id = op(name);
  if (id == TN_NO_VALUE) throw error(TN_NOT_FOUND, text("there is no op {}", name));
  detail::call_arguments packed;
  (packed.add(args), ...);
  std::vector<tn_tensor*> out(n_results);
  std::vector<tensor> results;
  results.reserve(n_results);  // nothing can fail once there are tensors to own
  packed.run(id, out);
  for (tn_tensor* t : out) results.emplace_back(t);
  return results;
}
template <class... A>
tensor call(std::string_view name, const A&... args) {
  return std::move(call_for(1, name, args...)[0]);
}

/// An op; what is left out the op does not have. The functions must not capture.
struct op_row {
  std::string_view schema;
  uint64_t tags = 0;
  bool pt2_compliant = false;
  std::optional<formula_program> formula = {};
  uint32_t formula_types = TN_TYPES_FLOAT;
  std::optional<uint32_t> like = {};  ///< results are like this argument
  void (*meta)(const meta_call&) = nullptr;
  void (*kernel)(const kernel_call&) = nullptr;
  void (*decompose)(const kernel_call&) = nullptr;
  void (*vjp)(const vjp_call&) = nullptr;
};

namespace detail {

struct op_functions {
  void (*meta)(const meta_call&);
  void (*kernel)(const kernel_call&);
  void (*decompose)(const kernel_call&);
  void (*vjp)(const vjp_call&);
};

inline tn_status* run_op_function(void (*f)(const kernel_call&), tn_op_call* c) noexcept {
  std::fill_n(c->out, c->n_out, nullptr);
  kernel_call call{{c->args, c->n_args}, c->values, {c->out, c->n_out}, c->stream};
  tn_status* status = barrier([&] { f(call); });
  if (status) take_back(call.out);
  return status;
}

inline tn_op_def op_def(const op_row& row, op_functions* self) {
  tn_op_def def{};
  def.struct_size = sizeof def;
  def.flags = (row.pt2_compliant ? TN_OP_PT2_COMPLIANT : 0) | (row.like ? TN_OP_LIKE : 0);
  def.schema = str(row.schema);
  def.tags = row.tags;
  def.self = self;
  def.formula_types = row.formula_types;
  def.like_arg = row.like.value_or(0);
  if (row.meta)
    def.meta = [](void* s, tn_meta_call* c) {
      return barrier([&] { static_cast<op_functions*>(s)->meta(meta_call{c}); });
    };
  if (row.kernel)
    def.kernel = [](void* s, tn_op_call* c) {
      return run_op_function(static_cast<op_functions*>(s)->kernel, c);
    };
  if (row.decompose)
    def.decompose = [](void* s, tn_op_call* c) {
      return run_op_function(static_cast<op_functions*>(s)->decompose, c);
    };
  if (row.vjp)
    def.vjp = [](void* s, tn_vjp_call* c) {
      std::fill_n(c->out, c->n_out, nullptr);
      tn_status* status = barrier([&] { static_cast<op_functions*>(s)->vjp(vjp_call{c}); });
      if (status) take_back({c->out, c->n_out});
      return status;
    };
  return def;
}

}  // namespace detail

/// Adds an op and gives its id; in the plugin's entry, for ops that the manifest names. Throws
/// `error` when the host refuses it or does not know such ops.
inline uint32_t add_op(const op_row& row) {
  const auto* api = extension<tn_custom_ops_api>(TN_CUSTOM_OPS_ID, TN_CUSTOM_OPS_VERSION);
  if (!TN_HAS(api, add)) throw error(TN_UNIMPLEMENTED, "this host takes no ops from plugins");
  // Kept for good: the host calls the functions until the process ends.
  auto* self = new detail::op_functions{row.meta, row.kernel, row.decompose, row.vjp};
  tn_op_def def = detail::op_def(row, self);
  tn_formula formula{};
  if (row.formula) {
    formula = row.formula->abi();
    def.formula = &formula;
  }
  uint32_t id = 0;
  check(api->add(&def, &id));
  return id;
}

}  // namespace tenon::plugin
