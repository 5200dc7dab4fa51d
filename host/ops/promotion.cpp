// Type promotion: the lattice and the three classes of inputs.
#include "ops/promotion.h"

#include <algorithm>

namespace tenon {

namespace {

// 0 bool, 1 integer, 2 floating, 3 complex.
int category(Dtype d) {
  if (d == Dtype::bool_) return 0;
  if (is_complex(d)) return 3;
  return is_floating(d) ? 2 : 1;
}

Dtype promote_integers(Dtype a, Dtype b) {
  if (a == Dtype::u8 || b == Dtype::u8) {
    Dtype other = a == Dtype::u8 ? b : a;
    return other == Dtype::i8 ? Dtype::i16 : other;  // no 8-bit type holds both
  }
  return std::max(a, b);  // i8 < i16 < i32 < i64 in ATen's numbering
}

Dtype promote_floats(Dtype a, Dtype b) {
  auto is_half = [](Dtype d) { return d == Dtype::f16 || d == Dtype::bf16; };
  if (is_half(a) && is_half(b)) return Dtype::f32;
  if (is_half(a)) return b;
  if (is_half(b)) return a;
  return std::max(a, b);
}

Dtype to_complex(Dtype d) {
  if (is_complex(d)) return d;
  if (d == Dtype::f64) return Dtype::c128;
  return d == Dtype::f16 ? Dtype::c32 : Dtype::c64;
}

}  // namespace

Dtype promote_types(Dtype a, Dtype b) {
  if (a == b) return a;
  int ca = category(a), cb = category(b);
  if (ca == 3 || cb == 3) {
    if (ca == 3 && cb < 2) return a;
    if (cb == 3 && ca < 2) return b;
    return std::max(to_complex(a), to_complex(b));
  }
  if (ca != cb) return ca > cb ? a : b;
  require(a != Dtype::f8e5m2 && a != Dtype::f8e4m3fn && b != Dtype::f8e5m2 && b != Dtype::f8e4m3fn,
          ErrorCode::unsupported, "dtypes {} and {} cannot be promoted; cast one of them", a, b);
  return ca == 1 ? promote_integers(a, b) : promote_floats(a, b);
}

void Promotion::join(int tier, Dtype dtype) {
  tiers_[tier] = present_[tier] ? promote_types(tiers_[tier], dtype) : dtype;
  present_[tier] = true;
}

void Promotion::add(const Tensor& t) {
  Dtype dtype = t.dtype();
  if (!is_wrapped_number(t)) return join(t.dim() > 0 ? 0 : 1, dtype);
  join(2, is_floating(dtype) ? Dtype::f32 : dtype);
}

void Promotion::add(Number n) {
  join(2, n.is_floating() ? Dtype::f32 : n.is_boolean() ? Dtype::bool_ : Dtype::i64);
}

void Promotion::add_all(const Value* args, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    if (args[i].tag == Tag::tensor)
      add(*args[i].as<Tensor>());
    else if (args[i].tag == Tag::tensors)
      add(TensorList(args[i].as<Tensor>(), args[i].count));
    else if (args[i].is_number())
      add(args[i].number());
  }
}

Dtype Promotion::result() const {
  ensure(present_[0] || present_[1] || present_[2], "promotion without inputs");
  Dtype result = Dtype::bool_;
  bool decided = false;
  for (int tier = 0; tier < 3; ++tier) {
    if (!present_[tier]) continue;
    if (!decided)
      result = tiers_[tier];
    else if (category(tiers_[tier]) > category(result))
      result = promote_types(result, tiers_[tier]);
    decided = true;
  }
  return result;
}

bool can_cast(Dtype from, Dtype to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating(from) && !is_floating(to) && !is_complex(to)) return false;
  return from == Dtype::bool_ || to != Dtype::bool_;
}

}  // namespace tenon
