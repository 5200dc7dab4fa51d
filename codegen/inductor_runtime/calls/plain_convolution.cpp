#include "plain_convolution.h"

#include <dnn/bf16.h>

#include <array>
#include <cmath>

namespace inductor {

namespace {

using onednn::from_bf16;
using onednn::to_bf16;
using Place = std::array<int64_t, 3>;

int64_t offset(const Placed& v, int64_t a, int64_t b, const Place& space) {
  int64_t at = a * v.strides[0] + b * v.strides[1];
  for (size_t d = 0; d < 3; ++d) at += space[d] * v.strides[2 + d];
  return at;
}

/// f(place) for every place of a tensor's space.
template <class F>
void for_each_place(const Placed& v, F&& f) {
  Place at;
  for (at[0] = 0; at[0] < v.sizes[2]; ++at[0])
    for (at[1] = 0; at[1] < v.sizes[3]; ++at[1])
      for (at[2] = 0; at[2] < v.sizes[4]; ++at[2]) f(at);
}

/// Each element of the result has its own sum, so threads share them out.
template <class F>
void for_each_sum(const Operand& result, const Workers& workers, F&& sum) {
  const Placed& r = result.place;
  workers.run(r.sizes[0] * r.sizes[1], [&](int64_t plane) {
    int64_t a = plane / r.sizes[1], b = plane % r.sizes[1];
    for_each_place(r, [&](const Place& at) { sum(a, b, at, offset(r, a, b, at)); });
  });
}

/// Where each dimension of `of` is moved by `move(d, at, tap)`; false where that is outside.
template <class F>
bool moved(const Placed& of, const Place& at, const Place& tap, Place& out, F&& move) {
  for (size_t d = 0; d < 3; ++d) {
    out[d] = move(static_cast<int>(d), at[d], tap[d]);
    if (out[d] < 0 || out[d] >= of.sizes[2 + d]) return false;
  }
  return true;
}

}  // namespace

double Elements::get(int64_t at) const {
  if (dtype == TN_F64) return static_cast<const double*>(data)[at];
  return dtype == TN_F32 ? static_cast<double>(static_cast<const float*>(data)[at])
                         : static_cast<double>(from_bf16(static_cast<const uint16_t*>(data)[at]));
}
void Elements::set(int64_t at, double value) const {
  if (dtype == TN_F64)
    static_cast<double*>(data)[at] = value;
  else if (dtype == TN_F32)
    static_cast<float*>(data)[at] = static_cast<float>(value);
  else
    static_cast<uint16_t*>(data)[at] = to_bf16(static_cast<float>(value));
}

void convolve_plainly(const Geometry& g, const Operand& source, const Operand& weights,
                      const Operand* bias, const Operand& result, const FinishOne& finish,
                      const Workers& workers) {
  const Placed &s = source.place, &w = weights.place;
  int64_t per_group = w.sizes[0] / g.groups;
  auto window = [&](int d, int64_t at, int64_t tap) { return g.source(d, at, tap); };
  for_each_sum(result, workers, [&](int64_t image, int64_t o, const Place& at, int64_t to) {
    double sum = bias ? bias->get(o * bias->place.strides[0]) : 0;
    for_each_place(w, [&](const Place& tap) {
      Place from;
      if (!moved(s, at, tap, from, window)) return;
      for (int64_t c = 0; c < w.sizes[1]; ++c)
        sum += source.get(offset(s, image, o / per_group * w.sizes[1] + c, from)) *
               weights.get(offset(w, o, c, tap));
    });
    result.elements.set(to, finish(sum, to));
  });
}

void source_gradient_plainly(const Geometry& g, const Operand& gradient, const Operand& weights,
                             const Operand& result, const Workers& workers) {
  const Placed &r = gradient.place, &w = weights.place;
  int64_t outs = w.sizes[0] / g.groups;
  auto reader = [&](int d, int64_t at, int64_t tap) { return g.result(d, at, tap); };
  for_each_sum(result, workers, [&](int64_t image, int64_t c, const Place& at, int64_t to) {
    double sum = 0;
    int64_t first = c / w.sizes[1] * outs;
    for_each_place(w, [&](const Place& tap) {
      Place from;
      if (!moved(r, at, tap, from, reader)) return;
      for (int64_t o = first; o < first + outs; ++o)
        sum += gradient.get(offset(r, image, o, from)) *
               weights.get(offset(w, o, c % w.sizes[1], tap));
    });
    result.elements.set(to, sum);
  });
}

void weights_gradient_plainly(const Geometry& g, const Operand& gradient, const Operand& source,
                              const Operand& result, const Workers& workers) {
  const Placed &r = gradient.place, &s = source.place;
  int64_t outs = r.sizes[1] / g.groups, ins = result.place.sizes[1];
  auto window = [&](int d, int64_t at, int64_t tap) { return g.source(d, at, tap); };
  for_each_sum(result, workers, [&](int64_t o, int64_t c, const Place& tap, int64_t to) {
    double sum = 0;
    for_each_place(r, [&](const Place& at) {
      Place from;
      if (!moved(s, at, tap, from, window)) return;
      for (int64_t image = 0; image < r.sizes[0]; ++image)
        sum += gradient.get(offset(r, image, o, at)) *
               source.get(offset(s, image, o / outs * ins + c, from));
    });
    result.elements.set(to, sum);
  });
}

}  // namespace inductor
