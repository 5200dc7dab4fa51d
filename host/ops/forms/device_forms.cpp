// Masks as positions; conjugates by parts.
#include "ops/forms/device_forms.h"

#include "ops/index/mask.h"
#include "ops/op_ids.h"

#include <tenon/ops.h>

#include <algorithm>

namespace tenon {

namespace {

// How many there are waits for the device.
bool run_by_positions(const CallArgs& call) {
  uint32_t at = 0;
  while (at < call.n_args && call.args[at].tag != Tag::tensors) ++at;
  if (at == call.n_args || call.op->schema.args[at].name != "indices") return false;
  TensorList given(call.args[at].as<Tensor>(), call.args[at].count);
  if (std::ranges::none_of(given, is_mask)) return false;
  std::vector<Tensor> positions;
  for (const Tensor& t : given) {
    if (!is_mask(t)) {
      positions.push_back(t);
      continue;
    }
    Tensor found = nonzero(t);
    for (int64_t d = 0; d < t.dim(); ++d) positions.push_back(select(found, 1, d));
  }
  std::vector<Value> args(call.args, call.args + call.n_args);
  args[at] = Value::of(TensorList(positions));
  dispatch(*call.op, args.data(), call.n_args, call.results, call.n_results);
  return true;
}

bool run_conjugate(const CallArgs& call) {
  bool is_one = call.op == &entry_of(OpId::aten_conj_physical_default) ||
                call.op == &entry_of(OpId::aten__conj_physical_default);
  if (!is_one || !is_complex(call.args[0].as<Tensor>()->dtype())) return false;
  const Tensor& self = *call.args[0].as<Tensor>();
  Tensor out = empty_like(self);
  real(out).copy_(real(self));
  imag(out).copy_(neg(imag(self)));
  call.results[0] = Value::own(std::move(out));
  return true;
}

}  // namespace

bool run_as_others(const CallArgs& call) { return run_by_positions(call) || run_conjugate(call); }

}  // namespace tenon
