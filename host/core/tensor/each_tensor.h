// The tensors of a call: arguments and results, themselves or the elements of lists.
#pragma once

#include "core/dispatch.h"

namespace tenon {

/// Calls f(tensor) for each defined one.
template <class F>
void each_tensor(const Value& value, F&& f) {
  if (value.tag == Tag::tensor)
    f(*value.as<Tensor>());
  else if (value.tag == Tag::tensors)
    for (const Tensor& t : TensorList(value.as<Tensor>(), value.count))
      if (t.defined()) f(t);
}

/// Calls f(tensor, number) for each result that is a tensor, and for each element of a list;
/// results that are none are counted, too, and are given as undefined tensors.
template <class F>
void each_result(const CallArgs& call, F&& f) {
  uint32_t number = 0;
  for (uint32_t r = 0; r < call.n_results; ++r) {
    const Value& value = call.results[r];
    if (value.tag == Tag::tensors_owned) {
      for (const Tensor& t : *value.as<std::vector<Tensor>>()) f(t, number++);
    } else if (value.tag == Tag::tensor_owned) {
      Tensor t = Tensor::adopt(reinterpret_cast<tenon::detail::TensorHead*>(value.payload));
      f(t, number++);
      t.release();  // the slot goes on owning it
    } else {
      f(Tensor(), number++);
    }
  }
}

}  // namespace tenon
