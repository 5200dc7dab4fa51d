// Discrete Fourier transforms: the three that kernels compute, and those of one dimension.
#include "ops/spectral/fourier.h"

#include "core/sym/sym_int.h"
#include "ops/op.h"
#include "ops/promotion.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/spectral.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon::ops {

namespace {

Dtype complex_of(Dtype dtype) { return dtype == Dtype::f64 ? Dtype::c128 : Dtype::c64; }
Dtype real_of(Dtype dtype) { return dtype == Dtype::c128 ? Dtype::f64 : Dtype::f32; }

}  // namespace

int64_t number_of(Norm name, bool forward) {
  std::string_view norm = name.value_or("backward");
  if (norm == "ortho") return static_cast<int64_t>(FftNorm::by_root_n);
  require(norm == "forward" || norm == "backward",
          "fft: norm must be forward, backward or ortho, found '{}'", norm);
  return static_cast<int64_t>((norm == "forward") == forward ? FftNorm::by_n : FftNorm::none);
}

Tensor as_transformable(std::string_view op, const Tensor& t, bool complex) {
  Dtype dtype = to_float_type(t.dtype());
  bool known =
      dtype == Dtype::f32 || dtype == Dtype::f64 || dtype == Dtype::c64 || dtype == Dtype::c128;
  require(known, ErrorCode::unsupported,
          "{}: the transform is computed in float and double, found dtype {}; cast the input", op,
          t.dtype());
  return to(t, complex && !is_complex(dtype) ? complex_of(dtype) : dtype);
}

FftPlaces fft_places(std::string_view op, const Tensor& t, OptSymIntList s, OptIntList dim) {
  FftPlaces out;
  int64_t rank = t.dim(), given = s ? static_cast<int64_t>(s->size()) : rank;
  require(!s || !dim || dim->size() == s->size(),
          "{}: dim and s must have the same length, found {} and {}", op, dim ? dim->size() : 0,
          given);
  require(given <= rank || dim, "{}: s has {} sizes, but the input has {} dimensions", op, given,
          rank);
  for (int64_t d = rank - given; !dim && d < rank; ++d) out.dims.push_back(d);
  for (size_t i = 0; dim && i < dim->size(); ++i) out.dims.push_back(wrap_dim((*dim)[i], rank));
  std::vector<int64_t> sorted = out.dims;
  std::ranges::sort(sorted);
  require(std::ranges::adjacent_find(sorted) == sorted.end(),
          "{}: each dimension may be transformed once, found dim {}", op, IntList(out.dims));
  for (size_t i = 0; i < out.dims.size(); ++i) {
    bool whole = !s || guard_or_false((*s)[i] == -1);
    out.sizes.push_back(whole ? t.size(out.dims[i]) : (*s)[i]);
    require(expect_true(out.sizes[i] >= 1), "{}: a transform has at least 1 element, found {}", op,
            out.sizes[i]);
  }
  return out;
}

Tensor fft_resized(const Tensor& t, const FftPlaces& places) {
  Tensor out = t;
  for (size_t i = 0; i < places.dims.size(); ++i) {
    int64_t dim = places.dims[i];
    SymInt now = out.size(dim), wanted = places.sizes[i];
    if (sizes_match(now, wanted)) continue;
    if (bool(wanted < now)) {
      out = narrow(out, dim, 0, wanted);
      continue;
    }
    Dims missing = dims_of(out.sizes());
    missing[static_cast<size_t>(dim)] = wanted - now;
    out = cat(std::vector<Tensor>{out, out.new_zeros(list_of(missing))}, dim);
  }
  return out;
}

namespace {

SymInt half_of(SymInt n) { return n / 2 + 1; }

// ---- the transforms of kernels

void check_norm(std::string_view op, int64_t norm) {
  require(norm >= 0 && norm <= 2, "{}: normalization must be 0, 1 or 2, found {}", op, norm);
}

void check_dims(std::string_view op, const Tensor& self, IntList dim, int64_t norm) {
  check_norm(op, norm);
  require(dim.size() > 0, "{}: at least one dimension is expected", op);
  require(self.dim() > 0, "{}: at least one dimension is expected, found a tensor without", op);
  uint64_t seen = 0;
  for (int64_t d : dim) {
    int64_t place = wrap_dim(d, self.dim());
    require(!(seen >> place & 1), "{}: each dimension may be transformed once, found dim {}", op,
            dim);
    seen |= uint64_t{1} << place;
    require(expect_true(self.size(d) >= 1), "{}: dimension {} has no elements", op, d);
  }
}

TensorMeta transformed_meta(const Tensor& self, Dtype dtype, int64_t dim, SymInt size) {
  Dims sizes = dims_of(self.sizes());
  sizes[static_cast<size_t>(wrap_dim(dim, self.dim()))] = size;
  return contiguous_meta(list_of(sizes), dtype, self.device());
}

TensorMeta c2c_meta(const Tensor& self, SymIntList dim, int64_t norm, bool) {
  require(self.dtype() == Dtype::c64 || self.dtype() == Dtype::c128,
          "_fft_c2c: a complex tensor is expected, found {}", self.dtype());
  check_norm("_fft_c2c", norm);
  if (dim.size() == 0) return contiguous_meta(self.sizes(), self.dtype(), self.device());
  std::vector<int64_t> dims;
  for (size_t i = 0; i < dim.size(); ++i) dims.push_back(dim[i].guard_int());
  check_dims("_fft_c2c", self, dims, norm);
  return contiguous_meta(self.sizes(), self.dtype(), self.device());
}

TensorMeta r2c_meta(const Tensor& self, IntList dim, int64_t norm, bool onesided) {
  require(self.dtype() == Dtype::f32 || self.dtype() == Dtype::f64,
          "_fft_r2c: a float or double tensor is expected, found {}", self.dtype());
  check_dims("_fft_r2c", self, dim, norm);
  SymInt size = self.size(dim[dim.size() - 1]);
  return transformed_meta(self, complex_of(self.dtype()), dim[dim.size() - 1],
                          onesided ? half_of(size) : size);
}

TensorMeta c2r_meta(const Tensor& self, IntList dim, int64_t norm, SymInt last_dim_size) {
  require(self.dtype() == Dtype::c64 || self.dtype() == Dtype::c128,
          "_fft_c2r: a complex tensor is expected, found {}", self.dtype());
  check_dims("_fft_c2r", self, dim, norm);
  require(expect_true(last_dim_size >= 1), "_fft_c2r: at least 1 element is expected, found {}",
          last_dim_size);
  require(sizes_match(self.size(dim[dim.size() - 1]), half_of(last_dim_size)),
          "_fft_c2r: {} real elements have {} complex ones, found {}", last_dim_size,
          half_of(last_dim_size), self.size(dim[dim.size() - 1]));
  return transformed_meta(self, real_of(self.dtype()), dim[dim.size() - 1], last_dim_size);
}

// The transform is linear: its adjoint runs the other way and has the same scale.
Tensor r2c_vjp(const Tensor& g, SymIntList sizes, IntList dim, int64_t norm, bool onesided) {
  Tensor whole = g;
  if (onesided) {
    int64_t last = wrap_dim(dim[dim.size() - 1], g.dim());
    whole = fft_resized(g, {{last}, {sizes[static_cast<size_t>(last)]}});
  }
  return real(_fft_c2c(whole, as_symbolic(dim), norm, false));
}

// Elements that stand for their mirror image as well count twice.
Tensor c2r_vjp(const Tensor& g, IntList dim, int64_t norm) {
  Tensor half = _fft_r2c(g, dim, norm, true);
  int64_t last = wrap_dim(dim[dim.size() - 1], g.dim());
  SymInt n = half.size(last), twice = g.size(last) - n;
  if (bool(twice <= 0)) return half;
  std::vector<Tensor> parts = {narrow(half, last, 0, 1), mul(narrow(half, last, 1, twice), 2)};
  if (bool(n - twice > 1)) parts.push_back(narrow(half, last, twice + 1, n - twice - 1));
  return cat(parts, last);
}

// ---- one dimension

FftPlaces one_place(std::string_view op, const Tensor& t, std::optional<SymInt> n, int64_t dim) {
  require(t.dim() >= 1, "{}: at least one dimension is expected, found a tensor without", op);
  IntList dims(&dim, 1);
  return n ? fft_places(op, t, SymIntList(&*n, 1), dims) : fft_places(op, t, OptSymIntList(), dims);
}

Tensor c2c(const Tensor& self, std::optional<SymInt> n, int64_t dim, Norm norm, bool forward) {
  const char* op = forward ? "fft_fft" : "fft_ifft";
  FftPlaces places = one_place(op, self, n, dim);
  Tensor x = fft_resized(as_transformable(op, self, true), places);
  return _fft_c2c(x, as_symbolic(places.dims), number_of(norm, forward), forward);
}

Tensor r2c(std::string_view op, const Tensor& self, std::optional<SymInt> n, int64_t dim, Norm norm,
           bool forward, bool onesided) {
  require(!is_complex(self.dtype()), "{}: a real tensor is expected, found {}", op, self.dtype());
  FftPlaces places = one_place(op, self, n, dim);
  Tensor x = fft_resized(as_transformable(op, self, false), places);
  Tensor out = _fft_r2c(x, places.dims, number_of(norm, forward), onesided);
  return forward ? out : conj(out);
}

Tensor c2r(std::string_view op, const Tensor& self, std::optional<SymInt> n, int64_t dim, Norm norm,
           bool forward) {
  require(self.dim() >= 1, "{}: at least one dimension is expected, found a tensor without", op);
  SymInt size = n ? *n : (self.size(dim) - 1) * 2;
  require(expect_true(size >= 1), "{}: a transform has at least 1 element, found {}", op, size);
  FftPlaces places = one_place(op, self, half_of(size), dim);
  Tensor x = as_transformable(op, self, true);
  if (n) x = fft_resized(x, places);
  return _fft_c2r(forward ? conj(x) : x, places.dims, number_of(norm, forward), size);
}

template <bool forward>
Tensor fft_decomp(const Tensor& self, std::optional<SymInt> n, int64_t dim, Norm norm) {
  if (is_complex(self.dtype())) return c2c(self, n, dim, norm, forward);
  return r2c(forward ? "fft_fft" : "fft_ifft", self, n, dim, norm, forward, false);
}

}  // namespace

static constexpr OpDef spectral_fourier_rows[] = {
    {.schema = "_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
     .core = true,
     .meta = fn<c2c_meta>,
     .provider = fftw,
     .vjp = {{"self", "grad, dim, normalization, forward",
              [](const Tensor& g, SymIntList dim, int64_t norm, bool forward) {
                return _fft_c2c(g, dim, norm, !forward);
              }}},
     .linear = "self"},
    {.schema = "_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
     .core = true,
     .meta = fn<r2c_meta>,
     .provider = fftw,
     .vjp = {{"self", "grad, self.sizes, dim, normalization, onesided", fn<r2c_vjp>}},
     .linear = "self"},
    {.schema = "_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> "
               "Tensor",
     .core = true,
     .meta = fn<c2r_meta>,
     .provider = fftw,
     .vjp = {{"self", "grad, dim, normalization", fn<c2r_vjp>}},
     .linear = "self"},
    {.schema = "fft_fft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
     .decomp = fn<fft_decomp<true>>},
    {.schema = "fft_ifft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
     .decomp = fn<fft_decomp<false>>},
    {.schema = "fft_rfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
     .decomp = [](const Tensor& self, std::optional<SymInt> n, int64_t dim,
                  Norm norm) { return r2c("fft_rfft", self, n, dim, norm, true, true); }},
    {.schema = "fft_irfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
     .decomp = [](const Tensor& self, std::optional<SymInt> n, int64_t dim,
                  Norm norm) { return c2r("fft_irfft", self, n, dim, norm, false); }},
    {.schema = "fft_hfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
     .decomp = [](const Tensor& self, std::optional<SymInt> n, int64_t dim,
                  Norm norm) { return c2r("fft_hfft", self, n, dim, norm, true); }},
    {.schema = "fft_ihfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
     .decomp = [](const Tensor& self, std::optional<SymInt> n, int64_t dim,
                  Norm norm) { return r2c("fft_ihfft", self, n, dim, norm, false, true); }},
};

extern constinit const OpFamily op_family_spectral_fourier{spectral_fourier_rows};

}  // namespace tenon::ops
