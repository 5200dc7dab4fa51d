// Integrals by the trapezoidal rule, and gradients by finite differences.
#include "core/sym/sym_int.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

// ---- integrals

// The sums of neighbours along a dimension.
Tensor pair_sums(const Tensor& y, int64_t dim) {
  return add(slice(y, dim, SymInt(0), SymInt(-1)), slice(y, dim, SymInt(1)));
}

// Distances of neighbouring points, with as many dimensions as y.
Tensor steps_of(const Tensor& y, const Tensor& x, int64_t dim) {
  require(x.dim() >= 1, "trapezoid: x needs a dimension");
  Tensor points = x;
  if (x.dim() == 1) {
    require(sizes_match(x.size(0), y.size(dim)),
            "trapezoid: one x for each of {} values is expected, found shape {}", y.size(dim),
            x.sizes());
    Dims sizes(static_cast<size_t>(y.dim()), SymInt(1));
    sizes[static_cast<size_t>(wrap_dim(dim, y.dim()))] = x.size(0);
    points = view(x, list_of(sizes));
  }
  return sub(slice(points, dim, SymInt(1)), slice(points, dim, SymInt(0), SymInt(-1)));
}

bool has_no_points(const Tensor& y, int64_t dim) { return guard_or_false(y.size(dim) == 0); }

Tensor empty_integral(const Tensor& y, int64_t dim) { return zeros_like(sum(y, {dim})); }

Tensor trapezoid_dx(const Tensor& y, Number dx, int64_t dim) {
  if (has_no_points(y, dim)) return empty_integral(y, dim);
  return mul(sum(pair_sums(y, dim), {dim}), dx.to_double() / 2);
}

Tensor trapezoid_x(const Tensor& y, const Tensor& x, int64_t dim) {
  if (has_no_points(y, dim)) return empty_integral(y, dim);
  return div(sum(mul(pair_sums(y, dim), steps_of(y, x, dim)), {dim}), 2.0);
}

Tensor cumulative_dx(const Tensor& y, Number dx, int64_t dim) {
  return mul(cumsum(pair_sums(y, dim), dim), dx.to_double() / 2);
}

Tensor cumulative_x(const Tensor& y, const Tensor& x, int64_t dim) {
  return div(cumsum(mul(pair_sums(y, dim), steps_of(y, x, dim)), dim), 2.0);
}

// ---- gradient

// Central differences inside, one-sided ones of the given order at both ends, for spacing h.
Tensor gradient_even(const Tensor& self, int64_t dim, double h, int64_t edge_order) {
  auto at = [&](int64_t from, int64_t n) { return narrow(self, dim, SymInt(from), SymInt(n)); };
  SymInt size = self.size(dim);
  Tensor inner = div(
      sub(narrow(self, dim, SymInt(2), size - 2), narrow(self, dim, SymInt(0), size - 2)), 2 * h);
  Tensor first, last;
  Tensor end = narrow(self, dim, size - 1, 1), before = narrow(self, dim, size - 2, 1);
  if (edge_order == 1) {
    first = div(sub(at(1, 1), at(0, 1)), h);
    last = div(sub(end, before), h);
  } else {
    Tensor third = narrow(self, dim, size - 3, 1);
    first = div(sub(add(mul(at(0, 1), -1.5), mul(at(1, 1), 2.0)), mul(at(2, 1), 0.5)), h);
    last = div(add(sub(mul(end, 1.5), mul(before, 2.0)), mul(third, 0.5)), h);
  }
  return cat({first, inner, last}, dim);
}

// The same for points at any distances.
Tensor gradient_uneven(const Tensor& self, int64_t dim, const Tensor& points, int64_t edge_order) {
  SymInt size = self.size(dim);
  Tensor h = steps_of(self, points, dim);
  Tensor rise = sub(narrow(self, dim, 1, size - 1), narrow(self, dim, 0, size - 1));
  Tensor slope = div(rise, h);
  auto slopes = [&](SymInt from, SymInt n) { return narrow(slope, dim, from, n); };
  auto steps = [&](SymInt from, SymInt n) { return narrow(h, dim, from, n); };
  Tensor h1 = steps(0, size - 2), h2 = steps(1, size - 2), both = add(h1, h2);
  Tensor inner = div(add(mul(slopes(0, size - 2), h2), mul(slopes(1, size - 2), h1)), both);
  Tensor first = slopes(0, 1), last = slopes(size - 2, 1);
  if (edge_order == 2) {
    auto bent = [](const Tensor& s1, const Tensor& s2, const Tensor& d1, const Tensor& d2) {
      return add(s1, mul(sub(s1, s2), div(d1, add(d1, d2))));
    };
    first = bent(first, slopes(1, 1), steps(0, 1), steps(1, 1));
    last = bent(last, slopes(size - 3, 1), steps(size - 2, 1), steps(size - 3, 1));
  }
  return cat({first, inner, last}, dim);
}

std::vector<int64_t> all_dimensions(const Tensor& self, std::optional<int64_t> dim) {
  if (dim) return {*dim};
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < self.dim(); ++d) dims.push_back(d);
  return dims;
}

std::vector<int64_t> listed(IntList dims) { return {dims.begin(), dims.end()}; }

void check_gradient(const Tensor& self, int64_t dim, int64_t edge_order) {
  require(edge_order == 1 || edge_order == 2, "gradient: edge_order must be 1 or 2, found {}",
          edge_order);
  require(bool(self.size(dim) >= edge_order + 1),
          "gradient: dimension {} of shape {} needs at least {} elements", dim, self.sizes(),
          edge_order + 1);
}

template <class F>
std::vector<Tensor> gradients(const Tensor& self, const std::vector<int64_t>& dims,
                              int64_t edge_order, const F& one) {
  std::vector<Tensor> results;
  for (size_t i = 0; i < dims.size(); ++i) {
    check_gradient(self, dims[i], edge_order);
    results.push_back(one(i, dims[i]));
  }
  return results;
}

template <class Spacing>
std::vector<Tensor> even_gradients(const Tensor& self, const std::vector<int64_t>& dims,
                                   int64_t edge_order, const Spacing& spacing) {
  return gradients(self, dims, edge_order, [&](size_t i, int64_t dim) {
    return gradient_even(self, dim, spacing(i), edge_order);
  });
}

std::vector<Tensor> spaced_gradients(const Tensor& self, const std::vector<int64_t>& dims,
                                     int64_t edge_order, DoubleList spacing) {
  require(spacing.size() == dims.size(),
          "gradient: one spacing for each of {} dimensions is expected, found {}", dims.size(),
          spacing.size());
  return even_gradients(self, dims, edge_order, [&](size_t i) { return spacing[i]; });
}

std::vector<Tensor> uneven_gradients(const Tensor& self, const std::vector<int64_t>& dims,
                                     int64_t edge_order, TensorList spacing) {
  require(spacing.size() == dims.size(),
          "gradient: one tensor of positions for each of {} dimensions is expected, found {}",
          dims.size(), spacing.size());
  return gradients(self, dims, edge_order, [&](size_t i, int64_t dim) {
    return gradient_uneven(self, dim, spacing[i], edge_order);
  });
}

}  // namespace

static constexpr OpDef reduce_calculus_rows[] = {
    {.schema = "trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
     .decomp = fn<trapezoid_dx>},
    {.schema = "trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
     .decomp = fn<trapezoid_x>},
    {.schema = "trapz.dx(Tensor y, *, float dx=1., int dim=-1) -> Tensor",
     .decomp = [](const Tensor& y, double dx, int64_t dim) { return trapezoid_dx(y, dx, dim); }},
    {.schema = "trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", .decomp = fn<trapezoid_x>},
    {.schema = "cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
     .decomp = fn<cumulative_dx>},
    {.schema = "cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
     .decomp = fn<cumulative_x>},
    {.schema = "gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int "
               "edge_order=1) -> Tensor[]",
     .decomp =
         [](const Tensor& self, std::optional<Number> spacing, std::optional<int64_t> dim,
            int64_t edge_order) {
           double h = spacing ? spacing->to_double() : 1.0;
           return even_gradients(self, all_dimensions(self, dim), edge_order,
                                 [h](size_t) { return h; });
         }},
    {.schema = "gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, int edge_order=1) "
               "-> Tensor[]",
     .decomp =
         [](const Tensor& self, Number spacing, IntList dims, int64_t edge_order) {
           double h = spacing.to_double();
           return even_gradients(self, listed(dims), edge_order, [h](size_t) { return h; });
         }},
    {.schema = "gradient.array(Tensor self, *, int[] dim, int edge_order=1) -> Tensor[]",
     .decomp =
         [](const Tensor& self, IntList dims, int64_t edge_order) {
           return even_gradients(self, listed(dims), edge_order, [](size_t) { return 1.0; });
         }},
    {.schema = "gradient.scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None, int "
               "edge_order=1) -> Tensor[]",
     .decomp =
         [](const Tensor& self, DoubleList spacing, std::optional<int64_t> dim,
            int64_t edge_order) {
           return spaced_gradients(self, all_dimensions(self, dim), edge_order, spacing);
         }},
    {.schema = "gradient.scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim, int "
               "edge_order=1) -> Tensor[]",
     .decomp =
         [](const Tensor& self, DoubleList spacing, IntList dims, int64_t edge_order) {
           return spaced_gradients(self, listed(dims), edge_order, spacing);
         }},
    {.schema = "gradient.tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None, int "
               "edge_order=1) -> Tensor[]",
     .decomp =
         [](const Tensor& self, TensorList spacing, std::optional<int64_t> dim,
            int64_t edge_order) {
           return uneven_gradients(self, all_dimensions(self, dim), edge_order, spacing);
         }},
    {.schema = "gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[] dim, int "
               "edge_order=1) -> Tensor[]",
     .decomp =
         [](const Tensor& self, TensorList spacing, IntList dims, int64_t edge_order) {
           return uneven_gradients(self, listed(dims), edge_order, spacing);
         }},
};

extern constinit const OpFamily op_family_reduce_calculus{reduce_calculus_rows};

}  // namespace tenon::ops
