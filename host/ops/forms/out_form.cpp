// Out forms: the functional op, then a copy that casts.
#include "ops/forms/out_form.h"

#include "core/sym/sym_int.h"
#include "ops/promotion.h"
#include "ops/shapes.h"

#include <tenon/ops/copy.h>

namespace tenon {

std::vector<std::string> functional_names(std::string_view out_name) {
  size_t dot = out_name.rfind('.');
  if (dot == out_name.npos || !out_name.ends_with("out")) return {};
  std::string base(out_name.substr(0, dot + 1));
  std::string_view overload = out_name.substr(dot + 1);
  if (overload == "out") return {base + "Tensor", base + "default"};
  if (!overload.ends_with("_out")) return {};
  return {base + std::string(overload.substr(0, overload.size() - 4))};
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
  dispatch(functional, call.args, functional.n_args, results, functional.n_returns);
  for (uint32_t r = 0; r < functional.n_returns; ++r) {
    Tensor result = take<Tensor>(results[r]);
    const Tensor& out = *call.args[functional.n_args + r].as<Tensor>();
    store(call, out, result);
    call.results[r] = Value::own(out);
  }
}

}  // namespace tenon
