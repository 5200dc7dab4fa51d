// Tensors whose elements follow from their index: ranges, and triangles cut out of matrices.
#include "ops/create/options.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include "core/sym/sym_int.h"

#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <cmath>

namespace tenon::ops {

namespace {

// ---- arange

SymInt arange_length(Number start, Number end, Number step) {
  if (start.is_integer() && end.is_integer() && step.is_integer()) {
    SymInt by = step.sym_int(), from = start.sym_int(), to = end.sym_int();
    require(expect_true(by != 0), "arange: the step must not be 0");
    bool up = guard_or_true(by > 0);
    require(expect_true(up ? to >= from : to <= from),
            "arange: the step {} leads away from the end: start {}, end {}", step, start, end);
    return up ? sym_ceildiv(to - from, by) : sym_ceildiv(from - to, -by);
  }
  double from = start.to_double(), to = end.to_double(), by = step.to_double();
  require(by != 0 && std::isfinite(from) && std::isfinite(to) && (by > 0 ? to >= from : to <= from),
          "arange: start {}, end {} and step {} make no range", start, end, step);
  return static_cast<int64_t>(std::ceil((to - from) / by));
}

// Bounds of an i64 range count without their fractions, as in ATen.
Number whole_part(Number n) {
  return n.is_floating() ? Number(static_cast<int64_t>(n.to_double())) : n;
}

TensorMeta arange_meta(Number start, Number end, Number step, Type dtype, Lay, Dev device, Pin) {
  if (dtype == Dtype::i64)
    start = whole_part(start), end = whole_part(end), step = whole_part(step);
  bool whole = !start.is_floating() && !end.is_floating() && !step.is_floating();
  return contiguous_meta({arange_length(start, end, step)},
                         dtype.value_or(whole ? Dtype::i64 : Dtype::f32), device.value_or(kCPU));
}

void arange_kernel(Tensor& out, Number start, Number step) {
  int64_t n = numel_of(out);
  dispatch_dtype(out.dtype(), "arange", [&]<class T>() {
    T* to = data_of<T>(out);
    if constexpr (std::is_integral_v<T>) {
      auto from = static_cast<uint64_t>(
          start.is_floating() ? static_cast<int64_t>(start.to_double()) : start.to_int());
      auto by = static_cast<uint64_t>(step.is_floating() ? static_cast<int64_t>(step.to_double())
                                                         : step.to_int());
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from + by * static_cast<uint64_t>(i));
    } else {
      double from = start.to_double(), by = step.to_double();
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from + by * static_cast<double>(i));
    }
  });
}

// ---- linspace

// Counted from the nearer end, so that both ends are exact.
double spaced(double start, double end, int64_t steps, int64_t i) {
  if (steps == 1) return start;
  double step = (end - start) / static_cast<double>(steps - 1);
  return i < steps / 2 ? start + step * static_cast<double>(i)
                       : end - step * static_cast<double>(steps - 1 - i);
}

TensorMeta linspace_meta(int64_t steps, Type dtype, Dev device) {
  require(steps >= 0, "linspace: the number of steps must not be negative, found {}", steps);
  return contiguous_meta({steps}, dtype.value_or(Dtype::f32), device.value_or(kCPU));
}

// `base` 0: linear.
void linspace_kernel(Tensor& out, double start, double end, double base) {
  int64_t n = numel_of(out);
  if (!is_floating(out.dtype())) start = std::trunc(start), end = std::trunc(end);
  dispatch_dtype(out.dtype(), "linspace", [&]<class T>() {
    for (int64_t i = 0; i < n; ++i) {
      double v = spaced(start, end, n, i);
      if (base != 0) v = std::pow(base, v);
      if constexpr (std::is_integral_v<T>)
        data_of<T>(out)[i] = static_cast<T>(static_cast<int64_t>(v));
      else
        data_of<T>(out)[i] = static_cast<T>(v);
    }
  });
}

// A bound may be a number or a tensor without dimensions.
void check_bound(Number) {}
void check_bound(const Tensor& t) {
  require(t.dim() == 0, "linspace: a bound must be a tensor without dimensions, found shape {}",
          t.sizes());
}
double bound(Number n) { return n.to_double(); }
double bound(const Tensor& t) { return load_number(impl_of(t)->data, t.dtype()).to_double(); }

template <class A, class B>
constexpr auto linspace_shape =
    [](A start, B end, int64_t steps, Type dtype, Lay, Dev device, Pin) {
      check_bound(start);
      check_bound(end);
      return linspace_meta(steps, dtype, device);
    };
template <class A, class B>
constexpr auto linspace_fill = [](Tensor& out, A start, B end, int64_t, Type, Lay, Dev, Pin) {
  linspace_kernel(out, bound(start), bound(end), 0);
};
template <class A, class B>
constexpr auto logspace_shape =
    [](A start, B end, int64_t steps, double, Type dtype, Lay, Dev device, Pin) {
      check_bound(start);
      check_bound(end);
      return linspace_meta(steps, dtype, device);
    };
template <class A, class B>
constexpr auto logspace_fill = [](Tensor& out, A start, B end, int64_t, double base, Type, Lay, Dev,
                                  Pin) { linspace_kernel(out, bound(start), bound(end), base); };
using Ref = const Tensor&;

// ---- triangles

TensorMeta triangle_meta(const Tensor& self, SymInt) {
  require(self.dim() >= 2, "tril, triu: a matrix is expected, found shape {}", self.sizes());
  return contiguous_meta(self.sizes(), self.dtype(), self.device());
}

template <bool upper>
void triangle_kernel(Tensor& out, const Tensor& self, int64_t diagonal) {
  Tensor from = contiguous_of(self);
  int64_t rows = sizes_of(self)[sizes_of(self).size() - 2], columns = sizes_of(self).back();
  if (numel_of(self) == 0) return;
  diagonal = std::clamp(diagonal, -rows, columns);
  dispatch_itemsize(self.dtype(), [&]<class T>() {
    for (int64_t r = 0; r < numel_of(self) / columns; ++r) {
      const T* in = data_of<T>(from) + r * columns;
      T* to = data_of<T>(out) + r * columns;
      int64_t cut = std::clamp<int64_t>(r % rows + diagonal + (upper ? 0 : 1), 0, columns);
      std::memset(static_cast<void*>(upper ? to : to + cut), 0,
                  sizeof(T) * static_cast<size_t>(upper ? cut : columns - cut));
      if (upper)
        std::copy(in + cut, in + columns, to + cut);
      else
        std::copy(in, in + cut, to);
    }
  });
}

template <bool upper>
std::pair<int64_t, int64_t> columns_of_row(int64_t row, int64_t columns, int64_t offset) {
  if (upper) return {std::clamp<int64_t>(row + offset, 0, columns), columns};
  return {0, std::clamp<int64_t>(row + offset + 1, 0, columns)};
}

// How many elements of a matrix lie on or below a diagonal: none in the first rows, one more in
// each that follows, all of the last rows. Sizes may be as large as their type.
SymInt size_below(int64_t rows, int64_t columns, int64_t offset) {
  int64_t first = std::clamp<int64_t>(-offset, 0, rows);
  int64_t full = std::clamp<int64_t>(SymInt(columns) - offset - 1, first, rows);
  SymInt ramp = full - first;
  return ramp * (SymInt(first) + offset + 1) + ramp * (ramp - 1) / 2 +
         SymInt(rows - full) * columns;
}

template <bool upper>
TensorMeta triangle_indices_meta(int64_t rows, int64_t columns, int64_t offset, Type dtype, Lay,
                                 Dev device, Pin) {
  require(rows >= 0 && columns >= 0,
          "{}: the numbers of rows and columns must not be negative, found {} and {}",
          upper ? "triu_indices" : "tril_indices", rows, columns);
  // Diagonals beyond the corners cut off nothing, or all, as those at the corners do.
  offset = std::clamp(offset, -rows, columns);
  SymInt n = upper ? SymInt(rows) * columns - size_below(rows, columns, std::max(offset - 1, -rows))
                   : size_below(rows, columns, offset);
  return contiguous_meta({2, n}, dtype.value_or(Dtype::i64), device.value_or(kCPU));
}

template <bool upper>
void triangle_indices_kernel(Tensor& out, int64_t rows, int64_t columns, int64_t offset, Type, Lay,
                             Dev, Pin) {
  int64_t n = sizes_of(out)[1], at = 0;
  if (n == 0) return;
  offset = std::clamp(offset, -rows, columns);
  dispatch_dtype(out.dtype(), "tril_indices", [&]<class T>() {
    T* to = data_of<T>(out);
    // Rows that hold nothing come first below a diagonal and last above it.
    for (int64_t r = upper ? 0 : std::max<int64_t>(0, -offset); at < n; ++r) {
      auto [from, end] = columns_of_row<upper>(r, columns, offset);
      for (int64_t c = from; c < end; ++c, ++at) {
        to[at] = static_cast<T>(r);
        to[n + at] = static_cast<T>(c);
      }
    }
  });
}

// Which diagonal each place of the last two dimensions is on.
Tensor diagonals_of(const Tensor& self) {
  auto count = [&](int64_t dim) {
    return arange(0, Number(self.size(dim)), 1, Dtype::i64, Layout::strided, self.device());
  };
  return sub(count(-1), unsqueeze(count(-2), 1));
}

}  // namespace

static constexpr OpDef create_range_rows[] = {
    {.schema =
         "arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
         "bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = [](Number end, Type dtype, Lay layout, Dev device,
                Pin pin) { return arange_meta(0, end, 1, dtype, layout, device, pin); },
     .eager = [](Tensor& out, Number, Type, Lay, Dev, Pin) { arange_kernel(out, 0, 1); },
     .decomp =
         [](Number end, std::optional<Dtype> dtype, std::optional<Layout> layout,
            std::optional<Device> device,
            std::optional<bool> pin) { return arange(0, end, 1, dtype, layout, device, pin); }},
    {.schema =
         "arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = [](Number start, Number end, Type dtype, Lay layout, Dev device,
                Pin pin) { return arange_meta(start, end, 1, dtype, layout, device, pin); },
     .eager = [](Tensor& out, Number start, Number, Type, Lay, Dev,
                 Pin) { arange_kernel(out, start, 1); },
     .decomp =
         [](Number start, Number end, std::optional<Dtype> dtype, std::optional<Layout> layout,
            std::optional<Device> device,
            std::optional<bool> pin) { return arange(start, end, 1, dtype, layout, device, pin); }},
    {.schema =
         "arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, "
         "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .core = true,
     .meta = fn<arange_meta>,
     .eager = [](Tensor& out, Number start, Number, Number step, Type, Lay, Dev,
                 Pin) { arange_kernel(out, start, step); }},
    {.schema = "linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, "
               "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = linspace_shape<Number, Number>,
     .eager = linspace_fill<Number, Number>},
    {.schema =
         "linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType? dtype=None, "
         "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = linspace_shape<Ref, Ref>,
     .eager = linspace_fill<Ref, Ref>},
    {.schema =
         "linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, ScalarType? dtype=None, "
         "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = linspace_shape<Ref, Number>,
     .eager = linspace_fill<Ref, Number>},
    {.schema =
         "linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, *, ScalarType? dtype=None, "
         "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = linspace_shape<Number, Ref>,
     .eager = linspace_fill<Number, Ref>},
    {.schema = "logspace(Scalar start, Scalar end, int steps, float base=10.0, *, ScalarType? "
               "dtype=None, "
               "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = logspace_shape<Number, Number>,
     .eager = logspace_fill<Number, Number>},
    {.schema = "logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10.0, *, "
               "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = logspace_shape<Ref, Ref>,
     .eager = logspace_fill<Ref, Ref>},
    {.schema = "logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10.0, *, "
               "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = logspace_shape<Ref, Number>,
     .eager = logspace_fill<Ref, Number>},
    {.schema = "logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10.0, *, "
               "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = logspace_shape<Number, Ref>,
     .eager = logspace_fill<Number, Ref>},
    {.schema = "tril(Tensor self, SymInt diagonal=0) -> Tensor",
     .variants = in_place,
     .meta = fn<triangle_meta>,
     .eager = fn<triangle_kernel<false>>,
     .decomp =
         [](const Tensor& self, SymInt diagonal) {
           return where(le(diagonals_of(self), Number(diagonal)), self,
                        full({}, 0, self.dtype(), Layout::strided, self.device()));
         },
     .vjp = {{"self", "grad, diagonal", [](const Tensor& g, int64_t d) { return g.tril(d); }}},
     .linear = "self"},
    {.schema = "triu(Tensor self, SymInt diagonal=0) -> Tensor",
     .variants = in_place,
     .meta = fn<triangle_meta>,
     .eager = fn<triangle_kernel<true>>,
     .decomp =
         [](const Tensor& self, SymInt diagonal) {
           return where(ge(diagonals_of(self), Number(diagonal)), self,
                        full({}, 0, self.dtype(), Layout::strided, self.device()));
         },
     .vjp = {{"self", "grad, diagonal", [](const Tensor& g, int64_t d) { return g.triu(d); }}},
     .linear = "self"},
    {.schema = "tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, "
               "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = fn<triangle_indices_meta<false>>,
     .eager = fn<triangle_indices_kernel<false>>},
    {.schema = "triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, "
               "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = fn<triangle_indices_meta<true>>,
     .eager = fn<triangle_indices_kernel<true>>},
};

extern constinit const OpFamily op_family_create_range{create_range_rows};

}  // namespace tenon::ops
