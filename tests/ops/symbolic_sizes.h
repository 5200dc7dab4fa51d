// What the shape function of an op takes for granted about sizes when all of them are symbols.
#pragma once

#include "core/sym/shape_env.h"
#include "core/tensor/tensor_impl.h"
#include "debug/op_compare.h"

#include <memory>
#include <vector>

namespace tenon::testing {

/// Compiled code serves a call with other sizes where the conditions hold that its recording has
/// left. Whoever is served must have been asked for all that the shape function refuses.
class SymbolicSizes {
 public:
  /// Runs the shape function on fakes of the tensors of `call`; each size is a symbol of its own.
  SymbolicSizes(const OpEntry& op, CallValues call);
  /// Whether the conditions hold for a call with the same plain arguments and other tensors. False
  /// where the shape function wants plain sizes.
  bool serve(const CallValues& call) const;

 private:
  struct Argument {
    bool defined = false;
    Dtype dtype = Dtype::f32;
    Dims sizes;
  };
  Tensor add(const Tensor& t);
  static std::vector<Tensor> tensors_of(const CallValues& call);

  std::shared_ptr<ShapeEnv> env_ = ShapeEnv::make();
  std::vector<Argument> arguments_;
  bool is_recorded_ = false;
};

}  // namespace tenon::testing
