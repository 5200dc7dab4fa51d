// Convolution of integers. Sums wrap around as those of the other integer ops, so they are not taken
// in floating point: one multiplication after the other, in unsigned 64-bit words.
//
// Model: both directions connect positions of a narrow side (a convolution's output, a transposed
//   one's input) with those of a wide one: wide = narrow * stride - padding + kernel * dilation.
// Cost: 1 ns a multiplication, on one thread; integer convolutions are rare.
#include "core/kernels/conv.h"

namespace tenon::kernels {

namespace {

using Position = std::array<int64_t, 3>;

int64_t flat(const Position& at, const Position& sizes) {
  return (at[0] * sizes[1] + at[1]) * sizes[2] + at[2];
}

template <class F>
void for_each_position(const Position& sizes, const F& f) {
  for (int64_t i = 0; i < sizes[0]; ++i)
    for (int64_t j = 0; j < sizes[1]; ++j)
      for (int64_t k = 0; k < sizes[2]; ++k) f(Position{i, j, k});
}

// Calls f(narrow, wide, tap) with flat positions for all that touch.
template <class F>
void for_each_touch(const ConvShape& s, const Position& narrow, const Position& wide, const F& f) {
  for_each_position(narrow, [&](const Position& n) {
    for_each_position(s.kernel, [&](const Position& tap) {
      Position at;
      for (size_t d = 0; d < 3; ++d) {
        at[d] = n[d] * s.stride[d] - s.padding[d] + tap[d] * s.dilation[d];
        if (at[d] < 0 || at[d] >= wide[d]) return;
      }
      f(flat(n, narrow), flat(at, wide), flat(tap, s.kernel));
    });
  });
}

// One channel of the narrow side and one of the wide side.
void add_channel(const ConvShape& s, bool transposed, const uint64_t* x, const uint64_t* weight,
                 uint64_t* y) {
  if (transposed)
    for_each_touch(s, s.input, s.output, [&](int64_t narrow, int64_t wide, int64_t tap) {
      y[wide] += x[narrow] * weight[tap];
    });
  else
    for_each_touch(s, s.output, s.input, [&](int64_t narrow, int64_t wide, int64_t tap) {
      y[narrow] += x[wide] * weight[tap];
    });
}

const uint64_t* words(const int64_t* x) { return reinterpret_cast<const uint64_t*>(x); }

}  // namespace

void conv_integers(const ConvShape& s, bool transposed, const int64_t* x, const int64_t* weight,
                   const int64_t* bias, int64_t* y) {
  auto* sums = reinterpret_cast<uint64_t*>(y);
  for (int64_t i = 0; i < s.batch * s.out_channels * s.output_size(); ++i)
    y[i] = bias ? bias[i / s.output_size() % s.out_channels] : 0;
  int64_t in = s.in_per_group(), out = s.out_per_group();
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t c = 0; c < s.in_channels; ++c)
      for (int64_t o = 0; o < out; ++o) {
        int64_t to = c / in * out + o;
        int64_t channel = transposed ? c * out + o : to * in + c % in;
        add_channel(s, transposed, words(x) + (b * s.in_channels + c) * s.input_size(),
                    words(weight) + channel * s.kernel_size(),
                    sums + (b * s.out_channels + to) * s.output_size());
      }
}

}  // namespace tenon::kernels
