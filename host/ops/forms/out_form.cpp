// Out forms: the functional op, then a copy that casts.
#include "ops/forms/out_form.h"

#include "core/sym/sym_int.h"
#include "ops/promotion.h"
#include "ops/shapes.h"

#include <tenon/ops/copy.h>

#include <algorithm>
#include <array>
#include <span>

namespace tenon {

namespace {

/// PyTorch's names that follow no rule.
struct IrregularName {
  std::string_view name, overload;            // without "aten."
  std::array<std::string_view, 3> outs = {};  // empty: by rule
};

constexpr IrregularName irregular_names[] = {
    {"_softmax_backward_data.out", "default", {"grad_input"}},
    {"adaptive_max_pool2d.out", "default", {"out", "indices"}},
    {"adaptive_max_pool3d.out", "default", {"out", "indices"}},
    {"all.all_out", "default"},
    {"all.out", "dim"},
    {"any.all_out", "default"},
    {"any.out", "dim"},
    {"arange.start_out", "start_step"},
    {"bernoulli.float_out", "p"},
    {"div.out_mode", "Tensor_mode"},
    {"divide.out_mode", "Tensor_mode"},
    {"empty.out", "memory_format"},
    {"fake_quantize_per_channel_affine_cachemask.out", "default", {"out0", "out1"}},
    {"fake_quantize_per_tensor_affine_cachemask.out", "default", {"out0", "out1"}},
    {"_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.out", "default", {"out0", "out1"}},
    {"fractional_max_pool2d.output", "default", {"output", "indices"}},
    {"fractional_max_pool3d.output", "default", {"output", "indices"}},
    {"frobenius_norm.out", "dim"},
    {"huber_loss_backward.out", "default", {"grad_input"}},
    {"linalg_eigh.eigvals", "default", {"eigvals", "eigvecs"}},
    {"max.dim_max", "dim", {"max", "max_values"}},
    {"max.out", "other"},
    {"max.unary_out", "default"},
    {"max_pool2d_with_indices.out", "default", {"out", "indices"}},
    {"max_pool3d_with_indices.out", "default", {"out", "indices"}},
    {"mean.dtype_out", "default"},
    {"mean.out", "dim"},
    {"median.dim_values", "dim"},
    {"min.dim_min", "dim", {"min", "min_indices"}},
    {"min.out", "other"},
    {"min.unary_out", "default"},
    {"nanmedian.dim_values", "dim"},
    {"native_batch_norm.out", "default", {"out", "save_mean", "save_invstd"}},
    {"norm.dtype_out", "ScalarOpt_dim_dtype"},
    {"norm.out", "ScalarOpt_dim"},
    {"prod.int_out", "dim_int"},
    {"sort.values_stable", "stable"},
    {"std.out", "dim"},
    {"sum.IntList_out", "dim_IntList"},
    {"triangular_solve.X", "default", {"X", "M"}},
    {"var.out", "dim"},
    {"xlogy.OutScalar_Other", "Scalar_Other"},
    {"xlogy.OutScalar_Self", "Scalar_Self"},
    {"xlogy.OutTensor", "Tensor"},
};

std::vector<std::string_view> given_names(const IrregularName& row) {
  std::vector<std::string_view> names;
  for (std::string_view name : row.outs)
    if (!name.empty()) names.push_back(name);
  return names;
}

std::string_view overload_of(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// What the out arguments of `row` are called where all of its results have names.
std::vector<std::string_view> result_names(const OpEntry& row) {
  std::vector<std::string_view> names;
  for (const SchemaReturn& result : row.schema.returns) names.push_back(result.name);
  bool all = names.size() > 1 && std::ranges::none_of(names, &std::string_view::empty);
  return all ? names : std::vector<std::string_view>();
}

// Overloads that are called neither out nor x_out are called after the first out argument.
bool is_named_after(std::string_view overload, std::span<const std::string_view> outs) {
  return overload.ends_with("out") || (!outs.empty() && outs[0] == overload);
}

}  // namespace

std::vector<OutFormOf> functional_names(std::string_view out_name) {
  size_t dot = out_name.rfind('.');
  if (dot == out_name.npos || !out_name.starts_with("aten.")) return {};
  std::string base(out_name.substr(0, dot + 1));
  for (const IrregularName& row : irregular_names)
    if (out_name.substr(5) == row.name)
      return {{base + std::string(row.overload), given_names(row), true}};
  std::string_view overload = overload_of(out_name);
  if (overload == "out") return {{base + "default", {}}, {base + "Tensor", {}}};
  if (overload == "grad_input") return {{base + "default", {"grad_input"}}};
  if (!overload.ends_with("_out")) return {{base + "default", {}}};
  return {{base + std::string(overload.substr(0, overload.size() - 4)), {}}};
}

std::optional<Schema> out_form_schema(std::string_view out_name, const OpEntry& row,
                                      const OutFormOf& of) {
  std::vector<std::string_view> outs = of.outs.empty() ? result_names(row) : of.outs;
  if (!of.is_listed && !is_named_after(overload_of(out_name), outs)) return std::nullopt;
  try {
    Schema schema = out_schema(row.schema);
    schema.overload = overload_of(out_name);
    size_t first = schema.args.size() - row.n_returns;
    for (size_t i = 0; i < outs.size(); ++i) schema.args[first + i].name = outs[i];
    return schema;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::vector<Value> functional_args(const OpEntry& out_form, const Value* args, const Tensor& out) {
  std::vector<Value> all;
  for (const SchemaArg& arg : out_form.functional->schema.args) {
    int at = out_form.schema.find_arg(arg.name);
    all.push_back(at >= 0                ? args[at]
                  : arg.name == "dtype"  ? Value::of(out.dtype())
                  : arg.name == "device" ? Value::of(out.device())
                                         : Value());
  }
  return all;
}

namespace {

bool same_shape(const Tensor& a, const Tensor& b) {
  bool same = a.dim() == b.dim();
  for (size_t d = 0; same && d < a.sizes().size(); ++d)
    same = sizes_match(a.sizes()[d], b.sizes()[d]);
  return same;
}

void store(const CallArgs& call, const Tensor& out, const Tensor& result) {
  require(can_cast(result.dtype(), out.dtype()),
          "{}: a result of dtype {} cannot be stored in an out argument of dtype {}", call.op->name,
          result.dtype(), out.dtype());
  if (!same_shape(out, result)) {
    require(guard_or_false(out.numel() == 0),
            "{}: the result has shape {}, the out argument {}; pass an empty tensor to have it "
            "resized",
            call.op->name, result.sizes(), out.sizes());
    resize_(const_cast<Tensor&>(out), result.sizes());
  }
  copy_(const_cast<Tensor&>(out), result);
}

}  // namespace

void run_out_form(const CallArgs& call) {
  const OpEntry& functional = *call.op->functional;
  Value results[8];
  ensure(functional.n_returns <= 8, "an op has at most eight results");
  const Value* outs = call.args + call.n_args - functional.n_returns;
  std::vector<Value> args;
  if (out_gives_options(*call.op)) args = functional_args(*call.op, call.args, *outs->as<Tensor>());
  dispatch(functional, args.empty() ? call.args : args.data(), functional.n_args, results,
           functional.n_returns);
  for (uint32_t r = 0; r < functional.n_returns; ++r) {
    Tensor result = take<Tensor>(results[r]);
    const Tensor& out = *outs[r].as<Tensor>();
    store(call, out, result);
    call.results[r] = Value::own(out);
  }
}

}  // namespace tenon
