// PyTorch's type promotion: which dtype an op computes in when its inputs differ.
//
// Inputs fall into three classes: tensors with dimensions, 0-dim tensors, and numbers. A lower
// class raises the result only when its category (bool < integer < floating < complex) is higher
// than that of the classes above it; within the deciding class dtypes combine by the lattice of
// promote_types.
#pragma once

#include "core/value.h"

namespace tenon {

/// The smallest dtype of the lattice that both fit (i8 with u8 gives i16, any integer with f16
/// gives f16, f16 with bf16 gives f32).
Dtype promote_types(Dtype a, Dtype b);

/// The dtype that a floating function of `dtype` computes in: itself, or f32 for integers and bool.
inline Dtype to_float_type(Dtype dtype) {
  return is_floating(dtype) || is_complex(dtype) ? dtype : Dtype::f32;
}

/// Collects the inputs of a call; `result()` is the promoted dtype.
class Promotion {
 public:
  void add(const Tensor& t);
  void add(Number n);
  void add(TensorList list) {
    for (const Tensor& t : list)
      if (t.defined()) add(t);
  }
  /// Adds every tensor and number among the values.
  void add_all(const Value* args, uint32_t n);
  Dtype result() const;

 private:
  void join(int tier, Dtype dtype);
  Dtype tiers_[3] = {};  // with dims, 0-dim, numbers
  bool present_[3] = {};
};

/// Whether a result of one dtype may be stored in a tensor of another: never down a category.
bool can_cast(Dtype from, Dtype to);

}  // namespace tenon
