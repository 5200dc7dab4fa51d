// Random numbers: each element is made of the seed, the draw's first block and its place.
//
// The numbers, and how they become those of a distribution, are the host's to the bit
// (ops/create/random.cpp there): uniform ones are f64, and so is what is made of them. Products keep
// their own rounding. Of normal numbers the last bits of an f64 may differ.
#include "loopir/lowering.h"

namespace loopir {

using tenon::plugin::node;

namespace {

/// One random op.
struct Drawing {
  Lowering& to;
  const node& n;
  Expressions& x = to.x;
  uint32_t result = n.first_result;
  int32_t dtype = to.info(result).dtype;
  Ids sizes = to.sizes_of(result);

  bool is_possible() const {
    auto v = to.info(result);
    return to.options.draws && is_computing(v.dtype) && v.device_type == to.options.device_type;
  }

  Id real(double number) { return x.number(number, TN_F64); }
  Id real(uint32_t arg) { return to.arguments.number(n.args[arg], TN_F64); }
  Id apply(uint16_t code, Id a, Id b) { return x.apply(code, TN_F64, a, b); }
  Id product(Id a, Id b) { return x.value({value_exact, TN_F64, apply(TN_F_MUL, a, b)}); }

  using Of = std::function<Id(Id drawn, std::span<const Id> indices)>;
  /// A tensor of `of` the numbers that are drawn for its elements, in row-major order.
  Tensor drawn(int32_t as, Draw draw, const Of& of) {
    uint32_t place = to.arguments.place_of_draw(x.product_of(sizes));
    return to.make(as, sizes, [&](std::span<const Id> indices) {
      Id element = x.constant(0);
      for (size_t d = 0; d < indices.size(); ++d)
        element = x.add(x.multiply(element, sizes[d]), indices[d]);
      return x.cast(of(x.drawn(place, element, draw), indices), as);
    });
  }
  bool give(Draw draw, const Of& of) {
    to.set(result, drawn(dtype, draw, of));
    return true;
  }
};

// Rounding may lift a number of [0, 1) to 1 in a short dtype: it is moved below.
Id below_one(Drawing& d, Id u) {
  double largest = d.dtype == TN_F32    ? 1 - 0x1p-24
                   : d.dtype == TN_F16  ? 1 - 0x1p-11
                   : d.dtype == TN_BF16 ? 1 - 0x1p-8
                                        : 1;
  if (largest == 1) return u;
  Id fits = d.x.apply(TN_F_LT, TN_BOOL, u, d.real(largest));
  return d.x.apply(TN_F_SELECT, TN_F64, fits, u, d.apply(TN_F_SUB, u, d.real(0x1p-7)));
}

bool uniform(Drawing d) {
  return d.is_possible() && d.give(Draw::uniform, [&](Id u, auto) { return below_one(d, u); });
}

bool uniform_between(Drawing d, uint32_t first_arg) {
  if (!d.is_possible()) return false;
  Id from = d.real(first_arg), width = d.apply(TN_F_SUB, d.real(first_arg + 1), from);
  return d.give(Draw::uniform, [&](Id u, auto) {
    return d.apply(TN_F_ADD, from, d.product(width, below_one(d, u)));
  });
}

bool normal(Drawing d) {
  return is_floating(d.dtype) && d.is_possible() &&
         d.give(Draw::normal, [](Id z, auto) { return z; });
}

bool normal_with(Drawing d, uint32_t first_arg) {
  if (!is_floating(d.dtype) || !d.is_possible()) return false;
  Id mean = d.real(first_arg), deviation = d.real(first_arg + 1);
  return d.give(Draw::normal,
                [&](Id z, auto) { return d.apply(TN_F_ADD, mean, d.product(deviation, z)); });
}

// low + the whole part of u (high - low)
bool integers(Drawing d, int64_t low, int64_t high) {
  if (!d.is_possible() || low >= high) return false;
  uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (span > uint64_t{INT64_MAX}) return false;  // i64 does not hold the steps
  Expressions& x = d.x;
  Id most = x.number(static_cast<int64_t>(span - 1), TN_I64), begin = x.number(low, TN_I64);
  return d.give(Draw::uniform, [&](Id u, auto) {
    Id step = x.cast(d.product(u, d.real(static_cast<double>(span))), TN_I64);
    return x.apply(TN_F_ADD, TN_I64, begin, x.apply(TN_F_MIN, TN_I64, step, most));
  });
}

bool truths(Drawing d, double p) {
  if (!d.is_possible() || !(p >= 0 && p <= 1)) return false;  // the host tells of a wrong one
  return d.give(Draw::uniform,
                [&](Id u, auto) { return d.x.apply(TN_F_LT, TN_BOOL, u, d.real(p)); });
}

bool truths_of(Drawing d, uint32_t arg) {
  if (!d.is_possible()) return false;
  const Tensor p = d.to.tensor_arg(d.n.args[arg]);
  if (!is_computing(p.dtype)) return false;
  return d.give(Draw::uniform, [&](Id u, std::span<const Id> indices) {
    Id odds = d.x.cast(d.to.broadcast_at(p, indices, d.sizes), TN_F64);
    return d.x.apply(TN_F_LT, TN_BOOL, u, odds);
  });
}

/// Which elements stay.
Tensor mask_of(Drawing& d, double p, uint32_t result) {
  bool drops = p != 0 && (d.n.args[2].kind == TN_ARG_NONE || int_arg(d.n.args[2]));
  if (!drops)
    return d.to.make(TN_BOOL, d.sizes, [&](auto) { return d.x.number(int64_t{1}, TN_BOOL); });
  Tensor mask = d.drawn(TN_BOOL, Draw::uniform,
                        [&](Id u, auto) { return d.x.apply(TN_F_LT, TN_BOOL, u, d.real(1 - p)); });
  bool is_read = d.to.reads[result] || d.to.is_output[result];
  return is_read ? d.to.realised(mask, d.to.name_of(result).c_str()) : mask;
}

// native_dropout(input, p, train)
bool dropout(Lowering& to, const node& n) {
  Drawing d{to, n};
  double p = number_arg(n.args[1]);
  if (!d.is_possible() || !is_floating(d.dtype) || !(p >= 0 && p <= 1)) return false;
  const Tensor self = to.tensor_arg(n.args[0]);
  if (!is_computing(self.dtype)) return false;
  Tensor mask = mask_of(d, p, n.first_result + 1);
  to.tensors[n.first_result + 1] = mask;
  double scale = p == 1 ? 0 : 1 / (1 - p);
  bool keeps_all = to.x.value_at(mask.value).code == value_constant;
  to.set(n.first_result, to.make(d.dtype, d.sizes, [&](std::span<const Id> indices) {
    Id input = to.at(self, indices);
    if (keeps_all) return to.x.cast(input, d.dtype);
    Id scaled = d.apply(TN_F_MUL, to.x.cast(input, TN_F64), d.real(scale));
    return to.x.apply(TN_F_SELECT, d.dtype, to.at(mask, indices), to.x.cast(scaled, d.dtype),
                      to.x.number(0.0, d.dtype));
  }));
  return true;
}

bool uniform_row(Lowering& to, const node& n) { return uniform({to, n}); }
bool uniform_from_1(Lowering& to, const node& n) { return uniform_between({to, n}, 1); }
bool normal_row(Lowering& to, const node& n) { return normal({to, n}); }
bool normal_from_0(Lowering& to, const node& n) { return normal_with({to, n}, 0); }
bool normal_from_1(Lowering& to, const node& n) { return normal_with({to, n}, 1); }
bool truths_by_number(Lowering& to, const node& n) {
  return truths({to, n}, number_arg(n.args[1]));
}
bool truths_by_self(Lowering& to, const node& n) { return truths_of({to, n}, 0); }
bool truths_by_tensor(Lowering& to, const node& n) { return truths_of({to, n}, 1); }
/// The end of the range is argument `end`, its begin the one before or 0.
template <uint32_t end, bool has_begin>
bool integers_row(Lowering& to, const node& n) {
  return integers({to, n}, has_begin ? int_arg(n.args[end - 1]) : 0, int_arg(n.args[end]));
}

constexpr Rule random_table[] = {
    {"aten.rand.default", uniform_row},
    {"aten.rand_like.default", uniform_row},
    {"aten.uniform.default", uniform_from_1},
    {"tenon.functional_aten_uniform_.default", uniform_from_1},
    {"aten.randn.default", normal_row},
    {"aten.randn_like.default", normal_row},
    {"aten.normal.float_float", normal_from_0},
    {"tenon.functional_aten_normal_.default", normal_from_1},
    {"aten.randint.default", integers_row<0, false>},
    {"aten.randint.low", integers_row<1, true>},
    {"aten.randint_like.default", integers_row<1, false>},
    {"aten.randint_like.low_dtype", integers_row<2, true>},
    {"aten.bernoulli.default", truths_by_self},
    {"aten.bernoulli.p", truths_by_number},
    {"tenon.functional_aten_bernoulli_.float", truths_by_number},
    {"tenon.functional_aten_bernoulli_.Tensor", truths_by_tensor},
    {"aten.native_dropout.default", dropout},
};

}  // namespace

std::span<const Rule> random_rules() { return random_table; }

}  // namespace loopir
