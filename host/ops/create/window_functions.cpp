// Window functions of signal processing: Hann, Hamming, Blackman, Bartlett and Kaiser.
#include "ops/create/options.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/pointwise/special_functions.h"

#include <cmath>
#include <numbers>

namespace tenon::ops {

namespace {

TensorMeta window_meta(int64_t length, Type dtype, Dev device) {
  require(length >= 0, "window: the length must not be negative, found {}", length);
  Dtype kind = dtype.value_or(Dtype::f32);
  require(is_floating(kind), "window: a floating dtype is expected, found {}", kind);
  return contiguous_meta({SymInt(length)}, kind, device.value_or(kCPU));
}

// `f` of the position, 0 to 1 across the window; the periodic window lacks its last element.
template <class F>
void fill_window(const Tensor& out, bool periodic, const F& f) {
  int64_t n = numel_of(out);
  if (n == 0) return;
  Tensor values = make_tensor(IntList{n}, Dtype::f64);
  double last = static_cast<double>(periodic ? n : n - 1);
  for (int64_t i = 0; i < n; ++i)
    data_of<double>(values)[i] = n == 1 ? 1.0 : f(static_cast<double>(i) / last);
  copy_elements(out, values);
}

double turn(double x) { return 2 * std::numbers::pi * x; }

void hamming(const Tensor& out, bool periodic, double alpha, double beta) {
  fill_window(out, periodic, [&](double x) { return alpha - beta * std::cos(turn(x)); });
}
void blackman(const Tensor& out, bool periodic) {
  fill_window(out, periodic, [](double x) {
    return 0.42 - 0.5 * std::cos(turn(x)) + 0.08 * std::cos(2 * turn(x));
  });
}
void bartlett(const Tensor& out, bool periodic) {
  fill_window(out, periodic, [](double x) { return 1 - std::fabs(2 * x - 1); });
}
void kaiser(const Tensor& out, bool periodic, double beta) {
  fill_window(out, periodic, [beta](double x) {
    double y = 2 * x - 1;
    return bessel_i0(beta * std::sqrt(std::fmax(0.0, 1 - y * y))) / bessel_i0(beta);
  });
}

constexpr auto plain_meta = [](int64_t n, Type dtype, Lay, Dev device, Pin) {
  return window_meta(n, dtype, device);
};
constexpr auto periodic_meta = [](int64_t n, bool, Type dtype, Lay, Dev device, Pin) {
  return window_meta(n, dtype, device);
};
constexpr auto alpha_meta = [](int64_t n, bool, double, Type dtype, Lay, Dev device, Pin) {
  return window_meta(n, dtype, device);
};
constexpr auto beta_meta = [](int64_t n, bool, double, double, Type dtype, Lay, Dev device, Pin) {
  return window_meta(n, dtype, device);
};
}  // namespace

static constexpr OpDef create_window_functions_rows[] = {
    {.schema = "hann_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = plain_meta,
     .eager = [](Tensor& out, int64_t, Type, Lay, Dev, Pin) { hamming(out, true, 0.5, 0.5); }},
    {.schema = "hann_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, "
               "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = periodic_meta,
     .eager = [](Tensor& out, int64_t, bool periodic, Type, Lay, Dev,
                 Pin) { hamming(out, periodic, 0.5, 0.5); }},
    {.schema = "hamming_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = plain_meta,
     .eager = [](Tensor& out, int64_t, Type, Lay, Dev, Pin) { hamming(out, true, 0.54, 0.46); }},
    {.schema =
         "hamming_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, "
         "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = periodic_meta,
     .eager = [](Tensor& out, int64_t, bool periodic, Type, Lay, Dev,
                 Pin) { hamming(out, periodic, 0.54, 0.46); }},
    {.schema = "hamming_window.periodic_alpha(int window_length, bool periodic, float alpha, *, "
               "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = alpha_meta,
     .eager = [](Tensor& out, int64_t, bool periodic, double alpha, Type, Lay, Dev,
                 Pin) { hamming(out, periodic, alpha, 0.46); }},
    {.schema = "hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, "
               "float beta, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
               "bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = beta_meta,
     .eager = [](Tensor& out, int64_t, bool periodic, double alpha, double beta, Type, Lay, Dev,
                 Pin) { hamming(out, periodic, alpha, beta); }},
    {.schema = "blackman_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = plain_meta,
     .eager = [](Tensor& out, int64_t, Type, Lay, Dev, Pin) { blackman(out, true); }},
    {.schema =
         "blackman_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, "
         "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = periodic_meta,
     .eager = [](Tensor& out, int64_t, bool periodic, Type, Lay, Dev,
                 Pin) { blackman(out, periodic); }},
    {.schema = "bartlett_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = plain_meta,
     .eager = [](Tensor& out, int64_t, Type, Lay, Dev, Pin) { bartlett(out, true); }},
    {.schema =
         "bartlett_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, "
         "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = periodic_meta,
     .eager = [](Tensor& out, int64_t, bool periodic, Type, Lay, Dev,
                 Pin) { bartlett(out, periodic); }},
    {.schema = "kaiser_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = plain_meta,
     .eager = [](Tensor& out, int64_t, Type, Lay, Dev, Pin) { kaiser(out, true, 12); }},
    {.schema =
         "kaiser_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, "
         "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = OpTags::creation,
     .meta = periodic_meta,
     .eager = [](Tensor& out, int64_t, bool periodic, Type, Lay, Dev,
                 Pin) { kaiser(out, periodic, 12); }},
    {.schema = "kaiser_window.beta(int window_length, bool periodic, float beta, *, ScalarType? "
               "dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
               "Tensor",
     .tags = OpTags::creation,
     .meta = alpha_meta,
     .eager = [](Tensor& out, int64_t, bool periodic, double beta, Type, Lay, Dev,
                 Pin) { kaiser(out, periodic, beta); }},
};

extern constinit const OpFamily op_family_create_window_functions{create_window_functions_rows};

}  // namespace tenon::ops
