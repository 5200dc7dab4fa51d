// Running folds along a dimension.
#include "loopir/lowering.h"

#include <limits>

namespace loopir {

using tenon::plugin::node;

namespace {

/// What two neighbours give, or nothing where that is not one operation.
std::optional<uint16_t> joining(Fold fold) {
  switch (fold) {
    case Fold::sum:
      return TN_F_ADD;
    case Fold::product:
      return TN_F_MUL;
    case Fold::maximum:
      return TN_F_MAX;
    case Fold::minimum:
      return TN_F_MIN;
    default:
      return std::nullopt;
  }
}

/// A long scan of few rows on a device of many threads: parts of the dimension are folded, what they
/// give is scanned, and each part is scanned from there. The operand is read twice, the result written
/// once.
class ScanInParts {
 public:
  ScanInParts(Lowering& to, Fold fold, const Tensor& t, size_t dim, const char* name)
      : to_(to), x_(to.x), fold_(fold), t_(t), dim_(dim), name_(name) {}

  // A block scans a row together, but a thread a column.
  bool is_worth_it() {
    constexpr int64_t long_row = 32768, long_column = 2048, rows_of_block = 64;
    int64_t n = x_.hint(t_.sizes[dim_]), all = x_.hint(x_.product_of(t_.sizes));
    bool is_variable = x_.index_at(t_.variables[dim_]).kind == IndexKind::variable;
    if (!to_.options.fold_blocks || !joining(fold_) || !is_variable) return false;
    if (is_row()) return n >= long_row && all / n < to_.options.fold_blocks;
    return n >= long_column && all / n < to_.options.fold_blocks * rows_of_block;
  }

  Tensor run() {
    choose_parts();
    return scan_parts(to_.scanned(fold_, whole_parts(), dim_, name_));
  }

 private:
  /// The operand at an element of a part, in variables of its own.
  struct Element {
    Ids variables;  // by dimension of the operand; part in the place of the one that is cut
    Id part, within, at, value;
  };
  Element element() {
    Element out;
    out.part = x_.variable(parts_);
    Id begin = x_.multiply(out.part, length_);
    out.within = x_.variable(x_.minimum(length_, x_.subtract(t_.sizes[dim_], begin)));
    out.at = x_.add(begin, out.within);
    Substitution by{{t_.variables[dim_], out.at}};
    for (size_t d = 0; d < t_.ndim(); ++d) {
      Id v = t_.variables[d];
      bool is_kept = d == dim_ || x_.index_at(v).kind != IndexKind::variable;
      out.variables.push_back(d == dim_ ? out.part : is_kept ? v : x_.variable(x_.extent_of(v)));
      if (!is_kept) by.emplace_back(v, out.variables[d]);
    }
    out.value = x_.substitute(t_.value, by);
    return out;
  }

  bool is_row() const {
    for (size_t d = dim_ + 1; d < t_.ndim(); ++d)
      if (!x_.is(t_.sizes[d], 1)) return false;
    return true;
  }

  void choose_parts() {
    constexpr int64_t much = int64_t{1} << 23, short_part = 64, long_part = 256, part_of_row = 4096;
    bool is_much = x_.hint(x_.product_of(t_.sizes)) > much;
    length_ = x_.constant(is_row() ? part_of_row : is_much ? long_part : short_part);
    Id n = t_.sizes[dim_];
    parts_ = x_.floordiv(x_.subtract(x_.add(n, length_), x_.constant(1)), length_);
  }

  Tensor whole_parts() {
    Element e = element();
    Ids sizes = t_.sizes;
    sizes[dim_] = parts_;
    return to_.fold_over(e.variables, {e.within}, fold_, t_.dtype, sizes, e.value, name_);
  }

  /// What stands before a part is joined to its first element.
  Id joined(const Element& e, const Tensor& whole) {
    Ids before = e.variables;
    before[dim_] = x_.maximum(x_.subtract(e.part, x_.constant(1)), x_.constant(0));
    Id zero = x_.number(int64_t{0}, TN_I64);
    Id is_first = x_.apply(TN_F_EQ, TN_BOOL, x_.index_value(e.within), zero);
    Id is_later = x_.apply(TN_F_GT, TN_BOOL, x_.index_value(e.part), zero);
    Id both = x_.apply(*joining(fold_), t_.dtype, to_.at(whole, before), e.value);
    return x_.apply(TN_F_SELECT, t_.dtype, x_.apply(TN_F_BAND, TN_BOOL, is_first, is_later), both,
                    e.value);
  }

  Tensor scan_parts(const Tensor& whole) {
    Element e = element();
    Loop loop;
    loop.name = name_;
    loop.fold = fold_;
    loop.is_scan = true;
    loop.value = joined(e, whole);
    loop.index = x_.constant(0);
    Ids strides = to_.contiguous(t_.sizes);
    for (size_t d = 0; d < t_.ndim(); ++d) {
      Id v = e.variables[d];
      if (x_.index_at(v).kind == IndexKind::variable) loop.outer.push_back(v);
      loop.index = x_.add(loop.index, x_.multiply(d == dim_ ? e.at : v, strides[d]));
    }
    loop.reduced = {e.within};
    Id buffer = loop.buffer = to_.new_buffer(t_.dtype, t_.sizes, strides, name_);
    to_.program.steps.push_back(std::move(loop));
    return to_.over(buffer);
  }

  Lowering& to_;
  Expressions& x_;
  Fold fold_;
  const Tensor& t_;
  size_t dim_;
  const char* name_;
  Id length_ = none, parts_ = none;
};

}  // namespace

Tensor Lowering::scanned(Fold fold, const Tensor& t, size_t dim, const char* name) {
  if (x.is(t.sizes[dim], 1)) return t;
  if (ScanInParts(*this, fold, t, dim, name).is_worth_it()) {
    const Tensor read_twice = cheap(t, name);
    return ScanInParts(*this, fold, read_twice, dim, name).run();
  }
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

constexpr Rule scan_table[] = {
    {"aten.cumsum.default", cumsum},
    {"aten.cumprod.default", cumprod},
    {"aten.logcumsumexp.default", logcumsumexp},
    {"aten.cummax.default", cummax},
    {"aten.cummin.default", cummin},
};

}  // namespace

std::span<const Rule> scan_rules() { return scan_table; }

}  // namespace loopir
