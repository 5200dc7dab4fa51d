// Running folds along a dimension.
#include "loopir/lowering.h"

#include <limits>

namespace loopir {

using tenon::plugin::node;

Tensor Lowering::scanned(Fold fold, const Tensor& t, size_t dim, const char* name) {
  if (x.is(t.sizes[dim], 1)) return t;
  Loop loop;
  loop.name = name;
  loop.fold = fold;
  loop.is_scan = true;
  loop.value = t.value;
  loop.index = x.constant(0);
  Ids strides = contiguous(t.sizes);
  for (size_t d = 0; d < t.ndim(); ++d) {
    if (x.index_at(t.variables[d]).kind == IndexKind::variable)
      (d == dim ? loop.reduced : loop.outer).push_back(t.variables[d]);
    loop.index = x.add(loop.index, x.multiply(t.variables[d], strides[d]));
  }
  Id buffer = loop.buffer = new_buffer(t.dtype, t.sizes, strides, name);
  program.steps.push_back(std::move(loop));
  return over(buffer);
}

namespace {

/// The operand in `dtype` under variables of its own.
Tensor converted(Lowering& to, const tn_arg& a, int32_t dtype) {
  const Tensor t = to.tensor_arg(a);
  return to.make(dtype, t.sizes,
                 [&](std::span<const Id> i) { return to.x.cast(to.at(t, i), dtype); });
}

void give(Lowering& to, uint32_t value, const Tensor& t) {
  int32_t dtype = to.info(value).dtype;
  to.set(value, to.make(dtype, t.sizes,
                        [&](std::span<const Id> i) { return to.x.cast(to.at(t, i), dtype); }));
}

bool scan(Lowering& to, const node& n, Fold fold) {
  int32_t result = to.info(n.first_result).dtype;
  const Tensor& self = to.tensor_arg(n.args[0]);
  if (!is_computing(result) || !is_computing(self.dtype) || result == TN_BOOL) return false;
  size_t ndim = self.ndim();
  // As the host: an operand is brought to the result's dtype before anything is added up.
  Tensor t = converted(to, n.args[0], result);
  t = to.make(is_floating(result) ? compute_type(result) : int32_t{TN_I64}, t.sizes,
              [&](std::span<const Id> i) {
                return to.x.cast(to.at(t, i),
                                 is_floating(result) ? compute_type(result) : int32_t{TN_I64});
              });
  if (ndim == 0) {
    give(to, n.first_result, t);
    return true;
  }
  size_t dim = dimension(int_arg(n.args[1]), ndim);
  give(to, n.first_result, to.scanned(fold, t, dim, to.name_of(n.first_result).c_str()));
  return true;
}

bool cumsum(Lowering& to, const node& n) { return scan(to, n, Fold::sum); }
bool cumprod(Lowering& to, const node& n) { return scan(to, n, Fold::product); }
bool logcumsumexp(Lowering& to, const node& n) {
  return is_floating(to.info(n.first_result).dtype) && scan(to, n, Fold::log_sum_exp);
}

// The position of an extreme is the last one at which the element is it (or is NaN): the largest
// such position so far.
bool scan_extreme(Lowering& to, const node& n, Fold fold) {
  const Tensor& self = to.tensor_arg(n.args[0]);
  if (!is_computing(self.dtype)) return false;
  Expressions& x = to.x;
  std::string name = to.name_of(n.first_result);
  int32_t dtype = self.dtype == TN_BOOL ? int32_t{TN_U8} : compute_type(self.dtype);
  uint32_t positions = n.first_result + 1;
  Tensor t = converted(to, n.args[0], dtype);
  if (t.ndim() == 0) {
    give(to, n.first_result, t);
    to.set(positions, {TN_I64, {}, {}, x.number(int64_t{0}, TN_I64)});
    return true;
  }
  size_t dim = dimension(int_arg(n.args[1]), t.ndim());
  Tensor extreme = to.scanned(fold, to.cheap(t, name.c_str()), dim, name.c_str());
  give(to, n.first_result, extreme);
  if (!to.reads[positions] && !to.is_output[positions]) return true;
  Tensor hits = to.make(TN_I64, t.sizes, [&](std::span<const Id> i) {
    Id e = to.at(t, i);
    Id is_hit = x.apply(TN_F_BOR, TN_BOOL, x.apply(TN_F_EQ, TN_BOOL, e, to.at(extreme, i)),
                        x.apply(TN_F_NE, TN_BOOL, e, e));
    return x.apply(TN_F_SELECT, TN_I64, is_hit, x.index_value(i[dim]),
                   x.number(int64_t{0}, TN_I64));
  });
  to.set(positions, to.scanned(Fold::maximum, hits, dim, name.c_str()));
  return true;
}

bool cummax(Lowering& to, const node& n) { return scan_extreme(to, n, Fold::maximum); }
bool cummin(Lowering& to, const node& n) { return scan_extreme(to, n, Fold::minimum); }

constexpr Rule rules[] = {
    {"aten.cumsum.default", cumsum},
    {"aten.cumprod.default", cumprod},
    {"aten.logcumsumexp.default", logcumsumexp},
    {"aten.cummax.default", cummax},
    {"aten.cummin.default", cummin},
};

}  // namespace

std::span<const Rule> scan_rules() { return rules; }

}  // namespace loopir
