// A call whose floating tensors can be exchanged: by others in f64, by those of a difference.
#pragma once

#include "debug/op_compare.h"

#include <tenon/ops.h>

#include <utility>
#include <vector>

namespace tenon::testing {

class WideCall {
 public:
  WideCall(const OpEntry& op, CallValues call) : op_(op), call_(std::move(call)) {
    for (Tensor& t : call_.tensors) collect(t);
    for (std::vector<Tensor>& list : call_.tensor_lists)
      for (Tensor& t : list) collect(t);
  }
  std::vector<Tensor> inputs() const {
    std::vector<Tensor> wide;
    for (const Tensor* t : places_) wide.push_back(t->to(Dtype::f64));
    return wide;
  }
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    std::vector<Tensor> before;
    for (size_t i = 0; i < places_.size(); ++i) {
      before.push_back(*places_[i]);
      *places_[i] = inputs[i];
    }
    OpResults results(op_.n_returns);
    run_op(op_, call_, results);
    for (size_t i = 0; i < places_.size(); ++i) *places_[i] = before[i];
    std::vector<Tensor> out;
    for (const Value& v : flattened(results))
      if (Tensor t = tensor_in(v); t.defined()) out.push_back(t);
    return out;
  }

 private:
  void collect(Tensor& t) {
    if (t.defined() && is_floating(t.dtype())) places_.push_back(&t);
  }
  const OpEntry& op_;
  CallValues call_;
  std::vector<Tensor*> places_;
};

}  // namespace tenon::testing
