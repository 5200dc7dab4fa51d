// Padding by reflection and replication: other positions of what is padded. The gradient of an
// element is what the positions that read it got.
#include "loopir/lower/scatter.h"

namespace loopir {

using tenon::plugin::node;
using tenon::plugin::sv;

namespace {

enum class Border { reflect, replicate };

/// The padded dimensions are the last ones; paddings begin with the last of those.
struct Padding {
  Expressions& x;
  Border border;
  Ids pad, sizes;  // sizes of what is padded

  size_t first() const { return sizes.size() - pad.size() / 2; }
  Id left(size_t d) const { return pad[2 * (sizes.size() - 1 - d)]; }
  Id right(size_t d) const { return pad[2 * (sizes.size() - 1 - d) + 1]; }
  Id last(size_t d) const { return x.subtract(sizes[d], x.constant(1)); }
  Id padded(size_t d) const { return x.add(sizes[d], x.add(left(d), right(d))); }

  /// The position that is read in the place of `i`.
  Id source(size_t d, Id i) const {
    Id p = x.subtract(i, left(d));
    if (border == Border::replicate) return x.minimum(x.maximum(p, x.constant(0)), last(d));
    Id distance = x.maximum(p, x.subtract(x.constant(0), p));
    return x.minimum(distance, x.subtract(x.multiply(last(d), x.constant(2)), distance));
  }

  /// A padded position that may read `j`, and the condition for it.
  struct Reader {
    Id position, condition;
  };
  std::vector<Reader> readers(size_t d, Id j) const {
    Id at = x.add(left(d), j), end = x.multiply(last(d), x.constant(2));
    std::vector<Reader> out{{at, none}};
    if (border == Border::reflect) {
      Id mirrored = x.subtract(left(d), j);
      out.push_back({mirrored, compare(TN_F_GT, j, x.constant(0))});
      out.push_back({x.subtract(x.add(left(d), end), j), compare(TN_F_LT, j, last(d))});
    } else {
      for (int64_t k = 1; k <= x.number_of(left(d)).value_or(0); ++k)
        out.push_back({x.subtract(at, x.constant(k)), compare(TN_F_EQ, j, x.constant(0))});
      for (int64_t k = 1; k <= x.number_of(right(d)).value_or(0); ++k)
        out.push_back({x.add(at, x.constant(k)), compare(TN_F_EQ, j, last(d))});
    }
    for (Reader& r : out) {
      r.condition = both(r.condition, compare(TN_F_GE, r.position, x.constant(0)));
      r.condition = both(r.condition, compare(TN_F_LT, r.position, padded(d)));
    }
    return out;
  }
  Id compare(uint16_t code, Id a, Id b) const {
    return x.apply(code, TN_BOOL, x.index_value(a), x.index_value(b));
  }
  Id both(Id a, Id b) const { return a == none ? b : x.apply(TN_F_BAND, TN_BOOL, a, b); }
};

bool has_elements(const Padding& p) {
  for (size_t d = p.first(); d < p.sizes.size(); ++d)
    if (p.x.range(p.sizes[d]).lower < 1) return false;
  return true;
}

bool pad(Lowering& to, const node& n, Border border) {
  const Tensor from = to.tensor_arg(n.args[0]);
  Padding p{to.x, border, to.arguments.index_list(n.args[1]), from.sizes};
  if (!is_computing(from.dtype) || !has_elements(p)) return false;
  Ids sizes = to.sizes_of(n.first_result);
  to.set(n.first_result, to.make(from.dtype, sizes, [&](std::span<const Id> i) {
    Ids inner(i.begin(), i.end());
    for (size_t d = p.first(); d < inner.size(); ++d) inner[d] = p.source(d, i[d]);
    return to.at(from, inner);
  }));
  return true;
}

/// The sum over readers of dimensions from `d` on.
Id sum_of_readers(Lowering& to, const Padding& p, const Tensor& gradient, Ids& element, size_t d,
                  Id condition) {
  Expressions& x = to.x;
  int32_t dtype = compute_type(gradient.dtype);
  if (d == element.size()) {
    Id value = x.cast(x.masked(to.at(gradient, element), condition), dtype);
    return x.apply(TN_F_SELECT, dtype, condition, value, x.number(0.0, dtype));
  }
  Id j = element[d], sum = none;
  for (const Padding::Reader& r : p.readers(d, j)) {
    element[d] = r.position;
    Id part = sum_of_readers(to, p, gradient, element, d + 1,
                             condition == none ? r.condition : p.both(condition, r.condition));
    sum = sum == none ? part : x.apply(TN_F_ADD, dtype, sum, part);
  }
  element[d] = j;
  return sum;
}

// Where an element has too many readers, each of them adds to it, a plane at a time.
void scatter_gradient(Lowering& to, const node& n, const Padding& p, const Tensor& gradient) {
  Target target(to, n.first_result, Store::add);
  target.fill_with_zeros();
  Ids points = variables_for(to, gradient.sizes), element = points, outer, reduced;
  for (size_t d = 0; d < points.size(); ++d) {
    bool is_padded = d >= p.first();
    (is_padded ? reduced : outer).push_back(points[d]);
    if (is_padded) element[d] = p.source(d, points[d]);
  }
  target.write(Store::add, outer, reduced, to.at(gradient, points), element);
  target.give();
}

bool pad_backward(Lowering& to, const node& n, Border border) {
  constexpr size_t most_readers = 27;
  Tensor gradient = to.tensor_arg(n.args[0]);
  auto v = to.info(n.first_result);
  Expressions& x = to.x;
  Padding p{x, border, to.arguments.index_list(n.args[2]), to.arguments.indices_of(v.dims())};
  if (!is_floating(gradient.dtype) || !has_elements(p)) return false;
  gradient = to.cheap(gradient, std::string(sv(v.name)).c_str());
  size_t readers = 1;
  bool is_known = true;
  for (size_t d = p.first(); d < p.sizes.size(); ++d) {
    readers *= p.readers(d, x.constant(0)).size();
    is_known &= border == Border::reflect || (x.number_of(p.left(d)) && x.number_of(p.right(d)));
  }
  if (!is_known || readers > most_readers) {
    scatter_gradient(to, n, p, gradient);
    return true;
  }
  to.set(n.first_result, to.make(v.dtype, p.sizes, [&](std::span<const Id> i) {
    Ids element(i.begin(), i.end());
    return x.cast(sum_of_readers(to, p, gradient, element, p.first(), none), v.dtype);
  }));
  return true;
}

bool reflection_pad(Lowering& to, const node& n) { return pad(to, n, Border::reflect); }
bool replication_pad(Lowering& to, const node& n) { return pad(to, n, Border::replicate); }
bool reflection_backward(Lowering& to, const node& n) {
  return pad_backward(to, n, Border::reflect);
}
bool replication_backward(Lowering& to, const node& n) {
  return pad_backward(to, n, Border::replicate);
}

constexpr Rule pad_table[] = {
    {"aten.reflection_pad1d.default", reflection_pad},
    {"aten.reflection_pad2d.default", reflection_pad},
    {"aten.reflection_pad3d.default", reflection_pad},
    {"aten.replication_pad1d.default", replication_pad},
    {"aten.replication_pad2d.default", replication_pad},
    {"aten.replication_pad3d.default", replication_pad},
    {"aten.reflection_pad1d_backward.default", reflection_backward},
    {"aten.reflection_pad2d_backward.default", reflection_backward},
    {"aten.reflection_pad3d_backward.default", reflection_backward},
    {"aten.replication_pad1d_backward.default", replication_backward},
    {"aten.replication_pad2d_backward.default", replication_backward},
    {"aten.replication_pad3d_backward.default", replication_backward},
};

}  // namespace

std::span<const Rule> pad_rules() { return pad_table; }

}  // namespace loopir
