#include "extern_call.h"

#include <algorithm>

namespace inductor {

using tenon::plugin::tensor;

ExternCall::ExternCall(loopir::Extern op) : op_(std::move(op)) {
  std::map<loopir::Id, uint32_t> positions;
  for (const auto& [value, view] : op_.tensors) {
    positions[value] = uint32_t(views_.size());
    views_.push_back(view);
  }
  args_.assign(op_.node->args().begin(), op_.node->args().end());
  for (size_t i = 0; i < args_.size(); ++i) {
    tn_arg& a = args_[i];
    if (a.kind == TN_ARG_VALUE) {
      if (auto number = op_.numbers.find(a.u.value); number != op_.numbers.end())
        numbers_.emplace_back(i, number->second);
      else
        a.u.value = positions.at(a.u.value);
    } else if (a.kind == TN_ARG_VALUES) {
      std::vector<uint32_t> list(a.u.values, a.u.values + a.count);
      for (uint32_t& v : list)
        if (v != TN_NO_VALUE) v = positions.at(v);
      lists_.push_back(std::move(list));
      a.u.values = lists_.back().data();  // a vector's memory stays when the outer one grows
    }
  }
}

std::vector<tensor> ExternCall::run(const loopir::Expressions& x, std::span<const int64_t> symbols,
                                    const TensorOf& tensor_of) const {
  std::vector<tensor> operands;
  std::vector<tn_tensor*> values;
  for (const loopir::View& view : views_) {
    operands.push_back(tensor_of(view));
    values.push_back(operands.back().get());
  }
  std::vector<tn_arg> args = args_;
  std::vector<std::vector<int64_t>> sizes(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    for (loopir::Id id : op_.symbolic[i]) sizes[i].push_back(x.evaluate(id, symbols));
    if (args[i].kind == TN_ARG_SYMINT) {
      args[i].kind = TN_ARG_INT;
      args[i].u.i = sizes[i][0];
    } else if (args[i].kind == TN_ARG_SYMINTS) {
      args[i].kind = TN_ARG_INTS;
      args[i].u.ints = sizes[i].data();
    }
  }
  for (auto [i, id] : numbers_) {
    args[i].kind = TN_ARG_INT;
    args[i].u.i = x.evaluate(id, symbols);
  }
  std::vector<tn_tensor*> out(op_.results.size(), nullptr);
  tenon::plugin::run_op(op_.op, args, values.data(), out);
  std::vector<tensor> results;
  for (tn_tensor* t : out) results.emplace_back(t);
  return results;
}

}  // namespace inductor
