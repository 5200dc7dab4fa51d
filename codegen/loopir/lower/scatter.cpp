// Writing at positions that are data: a copy of what was there, then a scatter into it.
//
// Problem: several elements may go to one place, and threads must not meet there. Method: the
// dimensions in which an element's place is the element's own are the scatter's outer variables,
// which threads and lanes share out; the others run in order, one after the other. So results
// depend neither on threads nor on timing, and of elements that are set twice the last one stays.
#include "loopir/lower/scatter.h"

#include <algorithm>
#include <limits>

namespace loopir {

using tenon::plugin::node;
using tenon::plugin::sv;

Ids variables_for(Lowering& to, const Ids& sizes) {
  Ids out;
  for (Id size : sizes) out.push_back(to.x.variable(size));
  return out;
}

Target::Target(Lowering& to, uint32_t result, int32_t dtype, Ids sizes)
    : to(to),
      x(to.x),
      result(result),
      dtype(dtype),
      sizes(std::move(sizes)),
      name(to.name_of(result)) {}

Target::Target(Lowering& to, uint32_t result, Store store)
    : Target(to, result, to.info(result).dtype, to.sizes_of(result)) {
  if (store == Store::set) return;
  dtype = dtype == TN_BOOL ? int32_t{TN_U8} : compute_type(dtype);
}

bool Target::has_places(std::span<const Id> of) const {
  return std::all_of(of.begin(), of.end(), [&](Id size) { return x.range(size).lower > 0; });
}

void Target::fill(const ValueAt& value) {
  buffer = to.new_buffer(dtype, sizes, to.contiguous(sizes), name.c_str());
  to.stored(to.make(dtype, sizes, [&](std::span<const Id> i) { return x.cast(value(i), dtype); }),
            buffer, name.c_str());
}
void Target::fill_with(const Tensor& t) {
  fill([&](std::span<const Id> i) { return to.at(t, i); });
}
void Target::fill_with_zeros() {
  fill([&](std::span<const Id>) { return x.number(int64_t{0}, dtype); });
}

void Target::write(Store store, const Ids& outer, const Ids& reduced, Id value,
                   const Ids& element) {
  Loop loop;
  loop.name = name;
  loop.store = store;
  loop.buffer = buffer;
  loop.value = x.cast(value, dtype);
  Ids strides = to.contiguous(sizes);
  loop.index = x.constant(0);
  for (size_t d = 0; d < element.size(); ++d)
    loop.index = x.add(loop.index, x.multiply(element[d], strides[d]));
  auto is_variable = [&](Id i) { return x.index_at(i).kind == IndexKind::variable; };
  std::copy_if(outer.begin(), outer.end(), std::back_inserter(loop.outer), is_variable);
  std::copy_if(reduced.begin(), reduced.end(), std::back_inserter(loop.reduced), is_variable);
  to.program.steps.push_back(std::move(loop));
}

void Target::give(const ValueAt& value) {
  int32_t own = to.info(result).dtype;
  to.set(result, to.make(own, sizes, [&](std::span<const Id> i) { return x.cast(value(i), own); }));
}
void Target::give() {
  Tensor t = written();
  if (t.dtype == to.info(result).dtype) return to.set(result, t);
  give([&](std::span<const Id> i) { return to.at(t, i); });
}

Tensor uses_of_rows(Lowering& to, uint32_t result, Id n_rows, const Ids& points, Id row,
                    Id is_counted) {
  Target counts(to, result, TN_F32, {n_rows});
  counts.fill_with_zeros();
  counts.write(Store::add, {}, points, to.x.cast(is_counted, TN_F32), {row});
  return counts.written();
}

namespace {

/// How the elements of a node meet what is there.
struct Reduce {
  Store store = Store::set;
  bool is_mean = false;

  static std::optional<Reduce> named(std::string_view name, bool is_truth) {
    if (name == "sum" || name == "add") return Reduce{is_truth ? Store::maximum : Store::add};
    if (name == "prod" || name == "multiply")
      return Reduce{is_truth ? Store::minimum : Store::multiply};
    if (name == "amax") return Reduce{Store::maximum};
    if (name == "amin") return Reduce{Store::minimum};
    if (name == "mean" && !is_truth) return Reduce{Store::add, true};
    return std::nullopt;
  }
  /// What changes nothing.
  Id neutral(Expressions& x, int32_t dtype) const {
    double infinity = std::numeric_limits<double>::infinity();
    bool is_real = is_floating(dtype);
    if (store == Store::multiply) return x.number(int64_t{1}, dtype);
    if (store == Store::maximum && is_real) return x.number(-infinity, dtype);
    if (store == Store::minimum && is_real) return x.number(infinity, dtype);
    if (store != Store::maximum && store != Store::minimum) return x.number(int64_t{0}, dtype);
    int bits = static_cast<int>(item_size(dtype)) * 8;
    bool is_low = store == Store::maximum;
    if (dtype == TN_U8) return x.number(int64_t{is_low ? 0 : 255}, dtype);
    int64_t lowest = std::numeric_limits<int64_t>::min() >> (64 - bits);
    return x.number(is_low ? lowest : ~lowest, dtype);
  }
};

/// A scatter along one dimension by an index as large as what is read.
struct ScatterAlong {
  Target target;
  Tensor index;
  size_t dim;
  Ids points, outer, reduced, element;

  ScatterAlong(Lowering& to, const node& n, Store store)
      : target(to, n.first_result, store),
        index(index_tensor(to, n.args[2])),
        dim(dimension(int_arg(n.args[1]), target.sizes.size())) {
    points = variables_for(to, index.sizes);
    for (size_t d = 0; d < points.size(); ++d) (d == dim ? reduced : outer).push_back(points[d]);
    element = points;
    element[dim] = checked(to, to.at(index, points), target.sizes[dim]);
  }
  static bool is_plain(Lowering& to, const node& n) {
    const Tensor& self = to.tensor_arg(n.args[0]);
    return is_computing(self.dtype) && self.ndim() > 0 &&
           to.tensor_arg(n.args[2]).ndim() == self.ndim() && is_integer(index_type(to, n)) &&
           to.x.range(self.sizes[dimension(int_arg(n.args[1]), self.ndim())]).lower > 0;
  }
  static int32_t index_type(Lowering& to, const node& n) {
    return to.info(n.args[2].u.value).dtype;
  }
  void write(Store store, Id value) { target.write(store, outer, reduced, value, element); }
};

/// The node's elements: a tensor, read where the index is, or a number.
Id elements(Lowering& to, const tn_arg& a, std::span<const Id> points, int32_t dtype) {
  Expressions& x = to.x;
  if (to.is_tensor(a)) return x.cast(to.at(to.tensor_arg(a), points), dtype);
  return to.arguments.number(a, dtype);
}

bool scatter(Lowering& to, const node& n) {
  if (!ScatterAlong::is_plain(to, n)) return false;
  ScatterAlong s(to, n, Store::set);
  s.target.fill_with(to.tensor_arg(n.args[0]));
  s.write(Store::set, elements(to, n.args[3], s.points, s.target.dtype));
  s.target.give();
  return true;
}

// An element that something meets is its neutral one first, where itself does not count; a mean is
// the sum by how many have met.
bool scatter_reduce(Lowering& to, const node& n, std::string_view name, bool include_self) {
  bool is_truth = to.info(n.first_result).dtype == TN_BOOL;
  auto how = Reduce::named(name, is_truth);
  if (!how || !ScatterAlong::is_plain(to, n)) return false;
  Expressions& x = to.x;
  ScatterAlong s(to, n, how->store);
  s.target.fill_with(to.tensor_arg(n.args[0]));
  int32_t dtype = s.target.dtype;
  if (!include_self) s.write(Store::set, how->neutral(x, dtype));
  s.write(how->store, elements(to, n.args[3], s.points, dtype));
  if (!how->is_mean) {
    s.target.give();
    return true;
  }
  Tensor sums = s.target.written();
  ScatterAlong counting(to, n, how->store);
  counting.target.dtype = TN_I64;
  counting.target.fill(
      [&](std::span<const Id>) { return x.number(int64_t{include_self}, TN_I64); });
  counting.write(Store::add, x.number(int64_t{1}, TN_I64));
  Tensor counts = counting.target.written();
  s.target.give([&](std::span<const Id> i) {
    Id count = x.apply(TN_F_MAX, TN_I64, to.at(counts, i), x.number(int64_t{1}, TN_I64));
    uint16_t code = is_floating(dtype) ? TN_F_DIV : TN_F_FLOORDIV;
    return x.apply(code, dtype, to.at(sums, i), x.cast(count, dtype));
  });
  return true;
}

std::string_view name_arg(const tn_arg& a) {
  return a.kind == TN_ARG_STRING ? sv(a.u.str) : std::string_view();
}

bool scatter_add(Lowering& to, const node& n) { return scatter_reduce(to, n, "sum", true); }
bool scatter_by_name(Lowering& to, const node& n) {
  return scatter_reduce(to, n, name_arg(n.args[4]), true);
}
bool scatter_reduce_two(Lowering& to, const node& n) {
  return scatter_reduce(to, n, name_arg(n.args[4]), int_arg(n.args[5]) != 0);
}

/// self where a mask of its first dimensions is false, one value where it is true.
bool index_put_by_mask(Lowering& to, const node& n) {
  const Tensor self = to.tensor_arg(n.args[0]), values = to.tensor_arg(n.args[2]);
  bool is_one = n.args[1].count == 1 && n.args[1].u.values[0] != TN_NO_VALUE && !int_arg(n.args[3]);
  for (Id size : values.sizes) is_one &= to.x.is(size, 1);
  if (!is_one) return false;
  uint32_t mask_value = n.args[1].u.values[0];
  if (to.info(mask_value).dtype != TN_BOOL) return false;
  const Tensor mask = *to.tensors[mask_value];
  to.set(n.first_result, to.make(self.dtype, self.sizes, [&](std::span<const Id> i) {
    Id value = to.at(values, Ids(values.ndim(), to.x.constant(0)));
    return to.x.apply(TN_F_SELECT, self.dtype, to.at(mask, i.first(mask.ndim())), value,
                      to.at(self, i));
  }));
  return true;
}

bool index_put(Lowering& to, const node& n) {
  const Tensor self = to.tensor_arg(n.args[0]), values = to.tensor_arg(n.args[2]);
  if (!is_computing(self.dtype) || n.args[1].kind != TN_ARG_VALUES) return false;
  if (index_put_by_mask(to, n)) return true;
  auto how = AdvancedIndex::of(to, n.args[1], self.ndim());
  if (!how) return false;
  bool accumulates = int_arg(n.args[3]) != 0, is_truth = self.dtype == TN_BOOL;
  Store store = !accumulates ? Store::set : is_truth ? Store::maximum : Store::add;
  Target target(to, n.first_result, store);
  Ids indexed;
  for (size_t d = 0; d < self.ndim(); ++d)
    if (how->indices[d]) indexed.push_back(self.sizes[d]);
  Ids sizes = how->sizes(to, self.sizes);
  if (!target.has_places(indexed) || values.ndim() > sizes.size()) return false;
  target.fill_with(self);
  Ids points = variables_for(to, sizes), outer, reduced;
  for (size_t d = 0; d < points.size(); ++d) {
    bool is_common = d >= how->first && d < how->first + how->rank;
    (is_common ? reduced : outer).push_back(points[d]);
  }
  target.write(store, outer, reduced, to.broadcast_at(values, points, sizes),
               how->element(to, self.sizes, points, sizes));
  target.give();
  return true;
}

/// The element of a tensor at a place in the order of its dimensions.
Id at_place(Lowering& to, const Tensor& t, Id place) {
  Ids element(t.ndim());
  for (size_t d = t.ndim(); d-- > 0;) {
    element[d] = d == 0 ? place : to.x.mod(place, t.sizes[d]);
    place = to.x.floordiv(place, t.sizes[d]);
  }
  return to.at(t, element);
}

bool put(Lowering& to, const node& n) {
  const Tensor self = to.tensor_arg(n.args[0]), source = to.tensor_arg(n.args[2]);
  if (!is_computing(self.dtype) || self.ndim() == 0 ||
      !is_integer(to.info(n.args[1].u.value).dtype))
    return false;
  const Tensor index = index_tensor(to, n.args[1]);
  bool accumulates = int_arg(n.args[3]) != 0, is_truth = self.dtype == TN_BOOL;
  Store store = !accumulates ? Store::set : is_truth ? Store::maximum : Store::add;
  Target target(to, n.first_result, store);
  if (!target.has_places(self.sizes)) return false;
  target.fill_with(self);
  Id point = to.x.variable(to.x.product_of(index.sizes));
  Ids element(self.ndim(), to.x.constant(0));
  element.back() = checked(to, at_place(to, index, point), to.x.product_of(self.sizes));
  target.write(store, {}, {point}, at_place(to, source, point), element);
  target.give();
  return true;
}

// The gradient of a table: rows that were read are added up.
bool embedding_backward(Lowering& to, const node& n) {
  const Tensor gradient = to.tensor_arg(n.args[0]);
  if (!is_floating(gradient.dtype) || !is_integer(to.info(n.args[1].u.value).dtype)) return false;
  const Tensor index = index_tensor(to, n.args[1]);
  Expressions& x = to.x;
  Target target(to, n.first_result, Store::add);
  Id n_rows = target.sizes[0];
  if (!target.has_places(Ids{n_rows})) return false;
  target.fill_with_zeros();
  Ids points = variables_for(to, index.sizes);
  Id column = x.variable(target.sizes[1]);
  Id given = x.cast(to.at(index, points), TN_I64);
  Id is_padding =
      x.apply(TN_F_EQ, TN_BOOL, given, x.index_value(to.arguments.index_arg(n.args[3])));
  Id zero = x.number(int64_t{0}, TN_I64);
  Id row = strictly_checked(to, x.apply(TN_F_SELECT, TN_I64, is_padding, zero, given), n_rows);
  Ids all = points;
  all.push_back(column);
  Id value = x.cast(to.at(gradient, all), target.dtype);
  if (int_arg(n.args[4])) {
    Id is_counted = x.apply(TN_F_BNOT, TN_BOOL, is_padding);
    Tensor uses = uses_of_rows(to, n.first_result, n_rows, points, row, is_counted);
    value = x.apply(TN_F_DIV, target.dtype, value, x.cast(to.at(uses, Ids{row}), target.dtype));
  }
  Id nothing = x.number(0.0, target.dtype);
  value = x.apply(TN_F_SELECT, target.dtype, is_padding, nothing, value);
  target.write(Store::add, {column}, points, value, {row, column});
  target.give();
  return true;
}

constexpr Rule scatter_table[] = {
    {"aten.scatter.src", scatter},
    {"aten.scatter.value", scatter},
    {"aten.scatter.reduce", scatter_by_name},
    {"aten.scatter.value_reduce", scatter_by_name},
    {"aten.scatter_add.default", scatter_add},
    {"aten.scatter_reduce.two", scatter_reduce_two},
    {"aten.index_put.default", index_put},
    {"aten._unsafe_index_put.default", index_put},
    {"aten.put.default", put},
    {"aten.embedding_dense_backward.default", embedding_backward},
};

}  // namespace

std::span<const Rule> scatter_rules() { return scatter_table; }

}  // namespace loopir
