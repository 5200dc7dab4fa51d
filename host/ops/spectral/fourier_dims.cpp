// Fourier transforms over several dimensions, frequencies, and the order of them.
#include "ops/spectral/fourier.h"

#include "core/sym/sym_int.h"
#include "ops/op.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/spectral.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

template <bool forward>
Tensor fftn_decomp(const Tensor& self, OptSymIntList s, OptIntList dim, Norm norm) {
  const char* op = forward ? "fft_fftn" : "fft_ifftn";
  FftPlaces places = fft_places(op, self, s, dim);
  Tensor x = fft_resized(as_transformable(op, self, true), places);
  return _fft_c2c(x, as_symbolic(places.dims), number_of(norm, forward), forward);
}

Tensor rfftn_decomp(const Tensor& self, OptSymIntList s, OptIntList dim, Norm norm) {
  require(!is_complex(self.dtype()), "fft_rfftn: a real tensor is expected, found {}",
          self.dtype());
  FftPlaces places = fft_places("fft_rfftn", self, s, dim);
  require(!places.dims.empty(), "fft_rfftn: at least one dimension must be transformed");
  Tensor x = fft_resized(as_transformable("fft_rfftn", self, false), places);
  return _fft_r2c(x, places.dims, number_of(norm, true), true);
}

/// Of a transform to real numbers: the complex input, and how many real elements the last has.
struct HalfInput {
  Tensor x;
  std::vector<int64_t> dims;
  SymInt size;
};

HalfInput half_input(std::string_view op, const Tensor& self, OptSymIntList s, OptIntList dim) {
  FftPlaces places = fft_places(op, self, s, dim);
  require(!places.dims.empty(), "{}: at least one dimension must be transformed", op);
  bool given = s && !guard_or_false((*s)[s->size() - 1] == -1);
  SymInt size = given ? places.sizes.back() : (self.size(places.dims.back()) - 1) * 2;
  require(expect_true(size >= 1), "{}: a transform has at least 1 element, found {}", op, size);
  places.sizes.back() = size / 2 + 1;
  return {fft_resized(as_transformable(op, self, true), places), places.dims, size};
}

Tensor irfftn_decomp(const Tensor& self, OptSymIntList s, OptIntList dim, Norm norm) {
  HalfInput in = half_input("fft_irfftn", self, s, dim);
  return _fft_c2r(in.x, in.dims, number_of(norm, false), in.size);
}

Tensor hfftn_decomp(const Tensor& self, OptSymIntList s, OptIntList dim, Norm norm) {
  HalfInput in = half_input("fft_hfftn", self, s, dim);
  int64_t last = in.dims.back(), n = number_of(norm, true);
  in.dims.pop_back();
  Tensor x = in.dims.empty() ? in.x : _fft_c2c(in.x, as_symbolic(in.dims), n, true);
  return _fft_c2r(conj(x), {last}, n, in.size);
}

Tensor ihfftn_decomp(const Tensor& self, OptSymIntList s, OptIntList dim, Norm norm) {
  require(!is_complex(self.dtype()), "fft_ihfftn: a real tensor is expected, found {}",
          self.dtype());
  FftPlaces places = fft_places("fft_ihfftn", self, s, dim);
  require(!places.dims.empty(), "fft_ihfftn: at least one dimension must be transformed");
  int64_t last = places.dims.back(), n = number_of(norm, false);
  Tensor x = fft_resized(as_transformable("fft_ihfftn", self, false), places);
  x = conj(_fft_r2c(x, {last}, n, true));
  places.dims.pop_back();
  return places.dims.empty() ? x : _fft_c2c(x, as_symbolic(places.dims), n, false);
}

using Transform = Tensor (*)(const Tensor&, OptSymIntList, OptIntList, Norm);

template <Transform transform>
constexpr auto over_all = [](const Tensor& self, OptSymIntList s, OptIntList dim, Norm norm) {
  return transform(self, s, dim, norm);
};
// Two dimensions by default.
template <Transform transform>
constexpr auto over_two = [](const Tensor& self, OptSymIntList s, IntList dim, Norm norm) {
  return transform(self, s, OptIntList(dim), norm);
};

// Moves the frequency 0 between the first place and the middle.
template <bool to_middle>
Tensor shifted(const Tensor& self, OptIntList dim) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; !dim && d < self.dim(); ++d) dims.push_back(d);
  for (size_t i = 0; dim && i < dim->size(); ++i) dims.push_back(wrap_dim((*dim)[i], self.dim()));
  std::vector<SymInt> shifts;
  for (int64_t d : dims) shifts.push_back((self.size(d) + (to_middle ? 0 : 1)) / 2);
  return dims.empty() ? clone(self) : roll(self, shifts, dims);
}

using Place = std::optional<Device>;

Tensor fftfreq_decomp(int64_t n, double d, std::optional<Dtype> dtype, std::optional<Layout>,
                      Place device, std::optional<bool>) {
  require(n >= 1, "fft_fftfreq: n must be positive, found {}", n);
  Dtype type = dtype.value_or(Dtype::f32);
  int64_t positive = (n + 1) / 2;
  std::vector<Tensor> halves = {arange(0, positive, type, {}, device),
                                arange(-(n / 2), 0, type, {}, device)};
  return mul(cat(halves), 1.0 / (static_cast<double>(n) * d));
}

Tensor rfftfreq_decomp(int64_t n, double d, std::optional<Dtype> dtype, std::optional<Layout>,
                       Place device, std::optional<bool>) {
  require(n >= 1, "fft_rfftfreq: n must be positive, found {}", n);
  return mul(arange(n / 2 + 1, dtype.value_or(Dtype::f32), {}, device),
             1.0 / (static_cast<double>(n) * d));
}

}  // namespace

static constexpr OpDef spectral_fourier_dims_rows[] = {
    {.schema = "fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> "
               "Tensor",
     .decomp = over_all<fftn_decomp<true>>},
    {.schema = "fft_ifftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> "
               "Tensor",
     .decomp = over_all<fftn_decomp<false>>},
    {.schema = "fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> "
               "Tensor",
     .decomp = over_all<rfftn_decomp>},
    {.schema = "fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> "
               "Tensor",
     .decomp = over_all<irfftn_decomp>},
    {.schema = "fft_hfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> "
               "Tensor",
     .decomp = over_all<hfftn_decomp>},
    {.schema = "fft_ihfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> "
               "Tensor",
     .decomp = over_all<ihfftn_decomp>},
    {.schema = "fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> "
               "Tensor",
     .decomp = over_two<fftn_decomp<true>>},
    {.schema = "fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> "
               "Tensor",
     .decomp = over_two<fftn_decomp<false>>},
    {.schema = "fft_rfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> "
               "Tensor",
     .decomp = over_two<rfftn_decomp>},
    {.schema = "fft_irfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> "
               "Tensor",
     .decomp = over_two<irfftn_decomp>},
    {.schema = "fft_hfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> "
               "Tensor",
     .decomp = over_two<hfftn_decomp>},
    {.schema = "fft_ihfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> "
               "Tensor",
     .decomp = over_two<ihfftn_decomp>},
    {.schema = "fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor",
     .decomp = fn<shifted<true>>},
    {.schema = "fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor",
     .decomp = fn<shifted<false>>},
    {.schema = "fft_fftfreq(int n, float d=1.0, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .decomp = fn<fftfreq_decomp>},
    {.schema = "fft_rfftfreq(int n, float d=1.0, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .decomp = fn<rfftfreq_decomp>},
};

extern constinit const OpFamily op_family_spectral_fourier_dims{spectral_fourier_dims_rows};

}  // namespace tenon::ops
