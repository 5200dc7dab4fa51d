// Tensors filled with one value: empty, zeros, ones, full and their `new_` and `_like` forms;
// fill_.
#include "core/device/device_memory.h"
#include "ops/create/options.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops/create.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

constexpr OpTags creation = OpTags::creation | OpTags::any_device;
constexpr OpTags unset = creation | OpTags::nondeterministic;

void fill_anywhere(const Tensor& t, Number value) {
  if (t.device() == kCPU) return fill_elements(t, value);
  Tensor number = make_tensor(contiguous_meta({}, t.dtype()));
  fill_elements(number, value);
  fill_there(t, number);
}

TensorMeta sized(SymIntList size, Dtype dtype, Dev device) {
  for (SymInt s : size)
    require(expect_true(s >= 0), "a tensor cannot have a negative size: {}", size);
  return contiguous_meta(size, dtype, device.value_or(kCPU));
}

TensorMeta empty_meta(SymIntList size, Type dtype, Lay, Dev device, Pin, Format format) {
  TensorMeta meta = sized(size, dtype.value_or(Dtype::f32), device);
  if (format && *format != MemoryFormat::preserve) meta.strides = strides_for(size, *format);
  return meta;
}

TensorMeta strided_meta(SymIntList size, SymIntList stride, Dtype dtype, Dev device) {
  require(size.size() == stride.size(), "empty_strided: {} sizes but {} strides", size.size(),
          stride.size());
  return {dtype, device.value_or(kCPU), dims_of(size), dims_of(stride)};
}

TensorMeta permuted_meta(SymIntList size, IntList order, Type dtype, Lay, Dev device, Pin) {
  require(size.size() == order.size(), "empty_permuted: {} sizes but {} dimensions", size.size(),
          order.size());
  TensorMeta meta = sized(size, dtype.value_or(Dtype::f32), device);
  SymInt running = 1;
  for (size_t i = order.size(); i-- > 0;) {
    auto d = static_cast<size_t>(wrap_dim(order[i], static_cast<int64_t>(size.size())));
    meta.strides[d] = running;
    running = running * size[d];
  }
  return meta;
}

TensorMeta like_meta(const Tensor& self, Type dtype, Lay, Dev device, Pin, Format format) {
  return {dtype.value_or(self.dtype()), device.value_or(self.device()), dims_of(self.sizes()),
          strides_for(self, format)};
}

TensorMeta new_meta(const Tensor& self, SymIntList size, Type dtype, Dev device) {
  return sized(size, dtype.value_or(self.dtype()), device ? device : Dev(self.device()));
}

Dtype dtype_for(Number value) {
  return value.is_boolean() ? Dtype::bool_ : value.is_integer() ? Dtype::i64 : Dtype::f32;
}

TensorMeta filled_meta(SymIntList size, Type dtype, Lay, Dev device, Pin) {
  return sized(size, dtype.value_or(Dtype::f32), device);
}

TensorMeta full_meta(SymIntList size, Number value, Type dtype, Lay, Dev device, Pin) {
  return sized(size, dtype.value_or(dtype_for(value)), device);
}

template <int value>
void fill_sized(Tensor& out, SymIntList, Type, Lay, Dev, Pin) {
  fill_anywhere(out, value);
}
template <int value>
void fill_like(Tensor& out, const Tensor&, Type, Lay, Dev, Pin, Format) {
  fill_anywhere(out, value);
}
template <int value>
void fill_new(Tensor& out, const Tensor&, SymIntList, Type, Lay, Dev, Pin) {
  fill_anywhere(out, value);
}

constexpr auto nothing_to_check = [](const Tensor&) {};

void check_value(const Tensor& value) {
  require(value.dim() == 0, "fill: the value must be a tensor without dimensions, found shape {}",
          value.sizes());
}
TensorMeta filled_from_meta(const Tensor& self, const Tensor& value) {
  check_value(value);
  return like(self);
}
Number value_of(const Tensor& value) {
  check_value(value);
  return load_number(impl_of(on_host(value))->data, value.dtype());
}

void eye_kernel(Tensor& out) {
  fill_anywhere(out, 0);
  fill_anywhere(diagonal(out), 1);
}

// All dimensions as one; with wrap it begins anew below a matrix that is higher than wide, one row
// apart.
Tensor fill_diagonal(const Tensor& self, Number value, bool wrap) {
  require(self.dim() >= 2, "fill_diagonal_: two or more dimensions are expected, found shape {}",
          self.sizes());
  SymInt height = self.size(0), width = self.size(1);
  if (self.dim() == 2) {
    diagonal(self).fill_(value);
    if (!wrap) return self;
    for (SymInt row = width + 1; bool(row < height); row = row + width + 1)
      diagonal(narrow(self, 0, row, height - row)).fill_(value);
    return self;
  }
  Tensor line = self;
  for (int64_t d = 1; d < self.dim(); ++d) {
    require(bool(self.size(d) == height),
            "fill_diagonal_: dimensions of one length are expected, found shape {}", self.sizes());
    line = diagonal(line, 0, 0, d == 1 ? 1 : -1);
    if (d + 1 < self.dim()) line = movedim(line, -1, 0);
  }
  line.fill_(value);
  return self;
}

TensorMeta eye_meta(SymInt n, SymInt m, Type dtype, Dev device) {
  return sized({n, m}, dtype.value_or(Dtype::f32), device);
}

}  // namespace

static constexpr OpDef create_fill_rows[] = {
    {.schema =
         "empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     .tags = unset,
     .core = true,
     .meta = fn<empty_meta>,
     .eager = [](Tensor&, SymIntList, Type, Lay, Dev, Pin, Format) {}},
    {.schema = "empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, "
               "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = unset,
     .core = true,
     .meta = [](SymIntList size, SymIntList stride, Type dtype, Lay, Dev device,
                Pin) { return strided_meta(size, stride, dtype.value_or(Dtype::f32), device); },
     .eager = [](Tensor&, SymIntList, SymIntList, Type, Lay, Dev, Pin) {}},
    {.schema = "empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? dtype=None, "
               "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = unset,
     .meta = fn<permuted_meta>,
     .eager = [](Tensor&, SymIntList, IntList, Type, Lay, Dev, Pin) {}},
    {.schema =
         "empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     .tags = unset,
     .meta = fn<like_meta>,
     .eager = [](Tensor&, const Tensor&, Type, Lay, Dev, Pin, Format) {},
     .vjp = nondiff},
    {.schema =
         "new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = unset,
     .meta = [](const Tensor& self, SymIntList size, Type dtype, Lay, Dev device,
                Pin) { return new_meta(self, size, dtype, device); },
     .eager = [](Tensor&, const Tensor&, SymIntList, Type, Lay, Dev, Pin) {},
     .vjp = nondiff},
    {.schema = "new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? "
               "dtype=None, "
               "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = unset,
     .meta =
         [](const Tensor& self, SymIntList size, SymIntList stride, Type dtype, Lay, Dev device,
            Pin) {
           return strided_meta(size, stride, dtype.value_or(self.dtype()),
                               device.value_or(self.device()));
         },
     .eager = [](Tensor&, const Tensor&, SymIntList, SymIntList, Type, Lay, Dev, Pin) {},
     .vjp = nondiff},
    {.schema = "zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? "
               "device=None, "
               "bool? pin_memory=None) -> Tensor",
     .tags = creation,
     .meta = fn<filled_meta>,
     .eager = fn<fill_sized<0>>,
     .decomp =
         [](SymIntList size, std::optional<Dtype> dtype, std::optional<Layout> layout,
            std::optional<Device> device, std::optional<bool> pin) {
           return full(size, 0, dtype.value_or(Dtype::f32), layout, device, pin);
         },
     .linear = "0"},
    {.schema =
         "_efficientzerotensor(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = creation,
     .meta = fn<filled_meta>,
     .eager = fn<fill_sized<0>>},
    {.schema =
         "ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
         "bool? pin_memory=None) -> Tensor",
     .tags = creation,
     .meta = fn<filled_meta>,
     .eager = fn<fill_sized<1>>,
     .decomp =
         [](SymIntList size, std::optional<Dtype> dtype, std::optional<Layout> layout,
            std::optional<Device> device, std::optional<bool> pin) {
           return full(size, 1, dtype.value_or(Dtype::f32), layout, device, pin);
         }},
    {.schema =
         "full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = creation,
     .core = true,
     .meta = fn<full_meta>,
     .eager = [](Tensor& out, SymIntList, Number value, Type, Lay, Dev,
                 Pin) { fill_anywhere(out, value); },
     .linear = "fill_value"},
    {.schema =
         "zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     .tags = creation,
     .meta = fn<like_meta>,
     .eager = fn<fill_like<0>>,
     .decomp =
         [](const Tensor& self, std::optional<Dtype> dtype, std::optional<Layout> layout,
            std::optional<Device> device, std::optional<bool> pin,
            std::optional<MemoryFormat> format) {
           return full_like(self, 0, dtype, layout, device, pin, format);
         },
     .vjp = nondiff,
     .linear = "0"},
    {.schema =
         "ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     .tags = creation,
     .meta = fn<like_meta>,
     .eager = fn<fill_like<1>>,
     .decomp =
         [](const Tensor& self, std::optional<Dtype> dtype, std::optional<Layout> layout,
            std::optional<Device> device, std::optional<bool> pin,
            std::optional<MemoryFormat> format) {
           return full_like(self, 1, dtype, layout, device, pin, format);
         },
     .vjp = nondiff},
    {.schema =
         "full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? "
         "layout=None, "
         "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     .tags = creation,
     .core = true,
     .meta = [](const Tensor& self, Number, Type dtype, Lay layout, Dev device, Pin pin,
                Format format) { return like_meta(self, dtype, layout, device, pin, format); },
     .eager = [](Tensor& out, const Tensor&, Number value, Type, Lay, Dev, Pin,
                 Format) { fill_anywhere(out, value); },
     .vjp = nondiff,
     .linear = "fill_value"},
    {.schema =
         "new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = creation,
     .meta = [](const Tensor& self, SymIntList size, Type dtype, Lay, Dev device,
                Pin) { return new_meta(self, size, dtype, device); },
     .eager = fn<fill_new<0>>,
     .decomp =
         [](const Tensor& self, SymIntList size, std::optional<Dtype> dtype,
            std::optional<Layout> layout, std::optional<Device> device, std::optional<bool> pin) {
           return full(size, 0, dtype.value_or(self.dtype()), layout,
                       device ? device : self.device(), pin);
         },
     .vjp = nondiff,
     .linear = "0"},
    {.schema =
         "new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = creation,
     .meta = [](const Tensor& self, SymIntList size, Type dtype, Lay, Dev device,
                Pin) { return new_meta(self, size, dtype, device); },
     .eager = fn<fill_new<1>>,
     .decomp =
         [](const Tensor& self, SymIntList size, std::optional<Dtype> dtype,
            std::optional<Layout> layout, std::optional<Device> device, std::optional<bool> pin) {
           return full(size, 1, dtype.value_or(self.dtype()), layout,
                       device ? device : self.device(), pin);
         },
     .vjp = nondiff},
    {.schema = "new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, "
               "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = creation,
     .meta = [](const Tensor& self, SymIntList size, Number, Type dtype, Lay, Dev device,
                Pin) { return new_meta(self, size, dtype, device); },
     .eager = [](Tensor& out, const Tensor&, SymIntList, Number value, Type, Lay, Dev,
                 Pin) { fill_anywhere(out, value); },
     .decomp =
         [](const Tensor& self, SymIntList size, Number value, std::optional<Dtype> dtype,
            std::optional<Layout> layout, std::optional<Device> device, std::optional<bool> pin) {
           return full(size, value, dtype.value_or(self.dtype()), layout,
                       device ? device : self.device(), pin);
         },
     .vjp = nondiff},
    {.schema = "scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = creation,
     .core = true,
     .meta = [](Number, Type dtype, Lay, Dev device,
                Pin) { return sized({}, dtype.value_or(Dtype::f32), device); },
     .eager = [](Tensor& out, Number value, Type, Lay, Dev, Pin) { fill_anywhere(out, value); }},
    {.schema = "prims::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Device? device=None) -> "
               "Tensor",
     .decomp = [](Number value, Type dtype,
                  Dev device) { return scalar_tensor(value, dtype, Lay(), device); }},
    {.schema = "eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
               "bool? pin_memory=None) -> Tensor",
     .tags = creation,
     .meta = [](SymInt n, Type dtype, Lay, Dev device,
                Pin) { return eye_meta(n, n, dtype, device); },
     .eager = [](Tensor& out, SymInt, Type, Lay, Dev, Pin) { eye_kernel(out); }},
    {.schema = "eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = creation,
     .meta = [](SymInt n, SymInt m, Type dtype, Lay, Dev device,
                Pin) { return eye_meta(n, m, dtype, device); },
     .eager = [](Tensor& out, SymInt, SymInt, Type, Lay, Dev, Pin) { eye_kernel(out); }},
    {.schema = "fill.Scalar(Tensor self, Scalar value) -> Tensor",
     .tags = OpTags::any_device,
     .core = true,
     .meta = [](const Tensor& self, Number) { return like(self); },
     .eager = [](Tensor& out, const Tensor&, Number value) { fill_anywhere(out, value); },
     .decomp = [](const Tensor& self, Number value) { return full_like(self, value); },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.zeros_like(); }}},
     .linear = "value"},
    {.schema = "fill.Tensor(Tensor self, Tensor value) -> Tensor",
     .tags = OpTags::any_device,
     .meta = fn<filled_from_meta>,
     .eager = [](Tensor& out, const Tensor&,
                 const Tensor& value) { fill_anywhere(out, value_of(value)); },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.zeros_like(); }},
             {"value", "grad", [](const Tensor& g) { return g.sum(); }}},
     .linear = "value"},
    {.schema = "fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)",
     .tags = OpTags::any_device,
     .meta = [](const Tensor&, Number) {},
     .eager = [](const Tensor& self, Number value) { fill_anywhere(self, value); },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.zeros_like(); }}}},
    {.schema = "fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)",
     .tags = OpTags::any_device,
     .meta = [](const Tensor&, const Tensor& value) { check_value(value); },
     .eager = [](const Tensor& self, const Tensor& value) { fill_anywhere(self, value_of(value)); },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.zeros_like(); }},
             {"value", "grad", [](const Tensor& g) { return g.sum(); }}}},
    {.schema = "fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)",
     .decomp = fn<fill_diagonal>},
    {.schema = "zero(Tensor self) -> Tensor",
     .meta = [](const Tensor& self) { return like(self); },
     .eager = [](Tensor& out, const Tensor&) { fill_anywhere(out, 0); },
     .decomp = [](const Tensor& self) { return full_like(self, 0); },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.zeros_like(); }}},
     .linear = "0"},
    {.schema = "zero_(Tensor(a!) self) -> Tensor(a!)",
     .tags = OpTags::any_device,
     .meta = nothing_to_check,
     .eager = [](const Tensor& self) { fill_anywhere(self, 0); },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.zeros_like(); }}}},
};

extern constinit const OpFamily op_family_create_fill{create_fill_rows};

}  // namespace tenon::ops
