// Complex tensors as pairs of real numbers, their parts and conjugates.
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include "core/sym/sym_int.h"

#include <tenon/ops/pointwise.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

Dtype real_type(Dtype dtype) {
  return dtype == Dtype::c32 ? Dtype::f16 : dtype == Dtype::c64 ? Dtype::f32 : Dtype::f64;
}

// Writes to it are writes to what it shows, as with views of one dtype.
Tensor seen_as(const Tensor& self, Dtype dtype, const Dims& sizes, const Dims& strides,
               SymInt offset) {
  Tensor view = make_view_as(self, dtype, list_of(sizes), list_of(strides), offset);
  if (!(thread_modes.exclude & bit(Key::autograd))) track_view(view, self);
  return view;
}

Tensor complex_as_real(const Tensor& self) {
  require(is_complex(self.dtype()), "view_as_real: a complex tensor is expected, found {}",
          self.dtype());
  Dims sizes = dims_of(self.sizes()), strides = dims_of(self.strides());
  for (SymInt& s : strides) s = s * 2;
  sizes.push_back(2);
  strides.push_back(1);
  return seen_as(self, real_type(self.dtype()), sizes, strides, sym_offset_of(self) * 2);
}

Tensor real_as_complex(const Tensor& self) {
  Dtype dtype = self.dtype() == Dtype::f16   ? Dtype::c32
                : self.dtype() == Dtype::f32 ? Dtype::c64
                                             : Dtype::c128;
  require(self.dim() > 0 && is_floating(self.dtype()) && sizes_match(self.size(-1), 2) &&
              is_one(self.stride(-1)),
          "view_as_complex: floating pairs in the last dimension are expected, found {}", self);
  Dims sizes = dims_of(self.sizes()), strides = dims_of(self.strides());
  sizes.pop_back();
  strides.pop_back();
  for (SymInt& s : strides) {
    require(expect_true(s % 2 == 0), "view_as_complex: strides must be even, found {}", self);
    s = s / 2;
  }
  return seen_as(self, dtype, sizes, strides, sym_offset_of(self) / 2);
}

// Negates every second number of a dense copy.
void conjugate_kernel(Tensor& out, const Tensor& self) {
  copy_elements(out, self);
  if (!is_complex(self.dtype()) || numel_of(out) == 0) return;
  Tensor imaginary = select(complex_as_real(out), -1, 1);
  copy_elements(imaginary, neg(imaginary));
}

Tensor conjugate(const Tensor& self) {
  return is_complex(self.dtype()) ? conj_physical(self) : self;
}

}  // namespace

static constexpr OpDef view_complex_rows[] = {
    {.schema = "view_as_real(Tensor(a) self) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .core = true,  // a view with another dtype is not made of other ops
     .inverse = [](const Tensor&,
                   const Tensor& content) { return view_as_complex(content.contiguous()); },
     .decomp = fn<complex_as_real>,
     .vjp = {{"self", "grad", [](const Tensor& g) { return view_as_complex(g.contiguous()); }}},
     .linear = "self"},
    {.schema = "view_as_complex(Tensor(a) self) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .core = true,
     .inverse = [](const Tensor&, const Tensor& content) { return view_as_real(content); },
     .decomp = fn<real_as_complex>,
     .vjp = {{"self", "grad", [](const Tensor& g) { return view_as_real(g); }}},
     .linear = "self",
     .autocast = Autocast::fp32},
    {.schema = "real(Tensor(a) self) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .inverse =
         [](const Tensor& self, const Tensor& content) {
           return is_complex(self.dtype()) ? complex(content, imag(self)) : content;
         },
     .decomp =
         [](const Tensor& self) {
           return is_complex(self.dtype()) ? select(view_as_real(self), -1, 0) : self;
         }},
    {.schema = "imag(Tensor(a) self) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .inverse = [](const Tensor& self,
                   const Tensor& content) { return complex(real(self), content); },
     .decomp =
         [](const Tensor& self) {
           require(is_complex(self.dtype()), "imag: a complex tensor is expected, found {}",
                   self.dtype());
           return select(view_as_real(self), -1, 1);
         }},
    {.schema = "conj_physical(Tensor self) -> Tensor",
     .variants = in_place,
     .meta = [](const Tensor& self) { return like(self); },
     .eager = fn<conjugate_kernel>,
     .vjp = {{"self", "grad", [](const Tensor& g) { return conj(g); }}},
     .linear = "self"},
    {.schema = "_conj_physical(Tensor self) -> Tensor",
     .meta = [](const Tensor& self) { return like(self); },
     .eager = fn<conjugate_kernel>,
     .vjp = {{"self", "grad", [](const Tensor& g) { return conj(g); }}},
     .linear = "self"},
    {.schema = "conj(Tensor(a) self) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .decomp = fn<conjugate>},
    // There are no lazily conjugated views: a real tensor is an alias, a complex one is copied.
    {.schema = "_conj(Tensor(a) self) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .decomp =
         [](const Tensor& self) {
           return is_complex(self.dtype()) ? conj_physical(self) : alias(self);
         }},
    // Nor negated ones: what ATen says of the imaginary part of such a view.
    {.schema = "_neg_view(Tensor(a) self) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .decomp = [](const Tensor& self) { return neg(self); }},
    {.schema = "resolve_conj(Tensor(a) self) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .decomp = [](const Tensor& self) { return self; }},
    {.schema = "resolve_neg(Tensor(a) self) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .decomp = [](const Tensor& self) { return self; }},
};

extern constinit const OpFamily op_family_view_complex{view_complex_rows};

}  // namespace tenon::ops
