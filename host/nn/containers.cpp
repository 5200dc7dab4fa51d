// Sequential.
#include <tenon/nn/containers.h>

namespace tenon::nn {

Tensor Sequential::forward(Tensor x) const {
  for (const AnyModule& module : modules_) x = module(x);
  return x;
}

Module& Sequential::operator[](size_t i) {
  require(i < modules_.size(), "Sequential: expected an index below {}, found {}", modules_.size(),
          i);
  return *modules_[i];
}

void Sequential::visit_members(MemberVisitor& visitor) {
  for (size_t i = 0; i < modules_.size(); ++i) visitor.module(names_[i], *modules_[i]);
}

}  // namespace tenon::nn
