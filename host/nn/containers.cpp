// Sequential.
#include <tenon/nn/containers.h>

namespace tenon::nn {

Tensor Sequential::forward(Tensor x) const {
  for (const Step& step : steps_) x = step.module(x);
  return x;
}

Module& Sequential::operator[](size_t i) {
  require(i < steps_.size(), "Sequential: expected an index below {}, found {}", steps_.size(), i);
  return *steps_[i].module;
}

void Sequential::visit_members(MemberVisitor& visitor) {
  for (Step& step : steps_) visitor.module(step.name, *step.module);
}

}  // namespace tenon::nn
