// In-place forms that no row implies: their name, overload or order of arguments is another one.
#include "ops/op.h"
#include "ops/promotion.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/pointwise.h>

namespace tenon::ops {

namespace {

Tensor stored(std::string_view op, const Tensor& self, const Tensor& result) {
  require(can_cast(result.dtype(), self.dtype()),
          "{}: a result of dtype {} cannot be stored in self of dtype {}", op, result.dtype(),
          self.dtype());
  return copy_(self, result);
}

// The derivative reads what self was before the write.
Tensor kept(const Tensor& self, bool is_recorded) {
  return is_recorded && thread_modes.grad_enabled ? clone(self) : self;
}

Tensor raised_to_tensor(const Tensor& self, const Tensor& exponent) {
  bool is_recorded = self.requires_grad() || exponent.requires_grad();
  return stored("pow_", self, pow(kept(self, is_recorded), exponent));
}

Tensor raised_to_number(const Tensor& self, Number exponent) {
  return stored("pow_", self, pow(kept(self, self.requires_grad()), exponent));
}

void require_double(const Tensor& self) {
  require(self.dtype() == Dtype::f64,
          "float_power_: results have dtype f64, self has {}; float_power makes a new tensor",
          self.dtype());
}

Tensor polygamma_stored(const Tensor& self, int64_t n) {
  return stored("polygamma_", self, polygamma(n, kept(self, self.requires_grad())));
}

}  // namespace

static constexpr OpDef pointwise_in_place_rows[] = {
    {.schema = "pow_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)",
     .decomp = fn<raised_to_tensor>},
    {.schema = "pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)",
     .decomp = fn<raised_to_number>},
    {.schema = "float_power_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)",
     .decomp =
         [](const Tensor& self, const Tensor& exponent) {
           require_double(self);
           return raised_to_tensor(self, to(exponent, Dtype::f64));
         }},
    {.schema = "float_power_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)",
     .decomp =
         [](const Tensor& self, Number exponent) {
           require_double(self);
           return raised_to_number(self, exponent);
         }},
    {.schema = "polygamma_(Tensor(a!) self, int n) -> Tensor(a!)", .decomp = fn<polygamma_stored>},
    {.schema = "floor_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     .decomp = [](const Tensor& self, const Tensor& other) { return div_(self, other, "floor"); }},
    {.schema = "ldexp_(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     .decomp = [](const Tensor& self,
                  const Tensor& other) { return mul_(self, pow(Number(2.0), other)); }},
    {.schema = "__iand__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     .decomp = [](const Tensor& self, const Tensor& other) { return bitwise_and_(self, other); }},
    {.schema = "__iand__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     .decomp = [](const Tensor& self, Number other) { return bitwise_and_(self, other); }},
    {.schema = "__ior__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     .decomp = [](const Tensor& self, const Tensor& other) { return bitwise_or_(self, other); }},
    {.schema = "__ior__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     .decomp = [](const Tensor& self, Number other) { return bitwise_or_(self, other); }},
    {.schema = "__ixor__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     .decomp = [](const Tensor& self, const Tensor& other) { return bitwise_xor_(self, other); }},
    {.schema = "__ixor__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     .decomp = [](const Tensor& self, Number other) { return bitwise_xor_(self, other); }},
    {.schema = "__ilshift__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     .decomp = [](const Tensor& self,
                  const Tensor& other) { return bitwise_left_shift_(self, other); }},
    {.schema = "__ilshift__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     .decomp = [](const Tensor& self, Number other) { return bitwise_left_shift_(self, other); }},
    {.schema = "__irshift__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     .decomp = [](const Tensor& self,
                  const Tensor& other) { return bitwise_right_shift_(self, other); }},
    {.schema = "__irshift__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     .decomp = [](const Tensor& self, Number other) { return bitwise_right_shift_(self, other); }},
};

extern constinit const OpFamily op_family_pointwise_in_place{pointwise_in_place_rows};

}  // namespace tenon::ops
