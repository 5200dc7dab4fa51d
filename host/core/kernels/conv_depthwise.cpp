// Convolution with one input channel a group.
//
// Each output plane is a weighted sum of kernel_size shifted copies of its input plane. The plane
// is copied once, padded, and split by position modulo the stride ("phases"), so that what tap (ky,
// kx) adds to neighbouring outputs lies at neighbouring places for any stride and dilation. Then a
// whole plane of outputs, with the few values between its rows that are thrown away, is one long
// weighted sum without any border.
#include "core/kernels/conv_ways.h"
#include "core/kernels/level_table.h"
#include "core/tensor/allocator.h"
#include "core/threads/thread_pool.h"

#include <algorithm>
#include <vector>

namespace tenon::kernels {
namespace {

// Sizes of one phase: outputs plus the reach of the kernel, in steps of the stride.
struct Phases {
  std::array<int64_t, 3> size;
  int64_t volume;
  int64_t count;

  explicit Phases(const ConvShape& s) {
    for (size_t d = 0; d < 3; ++d)
      size[d] = s.output[d] + (s.kernel[d] - 1) * s.dilation[d] / s.stride[d];
    volume = size[0] * size[1] * size[2];
    count = s.stride[0] * s.stride[1] * s.stride[2];
  }
};

template <class T>
class PlaneSum {
 public:
  explicit PlaneSum(const ConvShape& s)
      : s_(s),
        phases_(s),
        line_((s.output[1] - 1) * phases_.size[2] + s.output[2]),
        block_(static_cast<size_t>(phases_.volume * phases_.count + line_) * sizeof(T)),
        taps_(static_cast<size_t>(s.kernel_size())) {}

  void load(const T* x) {
    T* to = block_.as<T>();
    for (int64_t z = 0; z < s_.stride[0]; ++z)
      for (int64_t y = 0; y < s_.stride[1]; ++y)
        for (int64_t w = 0; w < s_.stride[2]; ++w, to += phases_.volume) load_phase(x, z, y, w, to);
  }

  void run(const T* weight, T bias, T* out) {
    T* const sums = block_.as<T>() + phases_.volume * phases_.count;
    const int64_t width = s_.output[2];
    for (int64_t z = 0; z < s_.output[0]; ++z) {
      set_taps(z);
      row_level<T>().weighted_sum(sums, line_, taps_.data(), weight, s_.kernel_size(), bias);
      for (int64_t y = 0; y < s_.output[1]; ++y, out += width)
        std::copy_n(sums + y * phases_.size[2], width, out);
    }
  }

 private:
  // The values at padded positions (z, y, w) + i * stride.
  void load_phase(const T* x, int64_t z, int64_t y, int64_t w, T* to) const {
    for (int64_t i = 0; i < phases_.size[0]; ++i)
      for (int64_t j = 0; j < phases_.size[1]; ++j, to += phases_.size[2]) {
        const int64_t iz = z + i * s_.stride[0] - s_.padding[0];
        const int64_t iy = y + j * s_.stride[1] - s_.padding[1];
        const bool inside = iz >= 0 && iz < s_.input[0] && iy >= 0 && iy < s_.input[1];
        if (inside)
          load_line(x + (iz * s_.input[1] + iy) * s_.input[2], w - s_.padding[2], to);
        else
          std::fill_n(to, phases_.size[2], T(0));
      }
  }

  void load_line(const T* line, int64_t at, T* to) const {
    const int64_t step = s_.stride[2], n = phases_.size[2], end = s_.input[2];
    int64_t i = 0;
    for (; i < n && at < 0; ++i, at += step) to[i] = 0;
    if (step == 1) {
      const int64_t whole = std::clamp<int64_t>(end - at, 0, n - i);
      std::copy_n(line + at, whole, to + i);
      i += whole;
    } else {
      for (; i < n && at < end; ++i, at += step) to[i] = line[at];
    }
    for (; i < n; ++i) to[i] = 0;
  }

  // Where each tap reads its value for output (z, 0, 0).
  void set_taps(int64_t z) {
    size_t t = 0;
    for (int64_t kz = 0; kz < s_.kernel[0]; ++kz)
      for (int64_t ky = 0; ky < s_.kernel[1]; ++ky)
        for (int64_t kx = 0; kx < s_.kernel[2]; ++kx) {
          const int64_t pz = kz * s_.dilation[0], py = ky * s_.dilation[1],
                        px = kx * s_.dilation[2];
          const int64_t phase =
              (pz % s_.stride[0] * s_.stride[1] + py % s_.stride[1]) * s_.stride[2] +
              px % s_.stride[2];
          const int64_t line = (z + pz / s_.stride[0]) * phases_.size[1] + py / s_.stride[1];
          taps_[t++] =
              block_.as<T>() + phase * phases_.volume + line * phases_.size[2] + px / s_.stride[2];
        }
  }

  const ConvShape& s_;
  Phases phases_;
  int64_t line_;  // outputs of one depth, with the gaps between rows
  HostBlock block_;
  std::vector<const T*> taps_;
};

}  // namespace

template <class T>
void conv_depthwise(const ConvShape& s, const T* x, const T* weight, const T* bias, T* y) {
  const int64_t per_group = s.out_per_group(), pixels = s.output_size();
  // A plane is copied for each chunk that uses it, so its outputs are cut only for want of planes.
  const int64_t planes = s.batch * s.groups;
  const int64_t cuts = std::clamp<int64_t>(2 * num_threads() / planes, 1, per_group);
  const int64_t per_chunk = (per_group + cuts - 1) / cuts;
  const double us =
      conv_us(4.0 * static_cast<double>(s.batch * s.out_channels * pixels * s.kernel_size()));
  parallel_for(
      0, planes * cuts, 1,
      [&](int64_t lo, int64_t hi) {
        PlaneSum<T> sum(s);
        for (int64_t i = lo; i < hi; ++i) {
          const int64_t plane = i / cuts, first = i % cuts * per_chunk;
          const int64_t last = std::min(first + per_chunk, per_group);
          if (first >= last) continue;
          sum.load(x + plane * s.input_size());
          for (int64_t o = first; o < last; ++o) {
            const int64_t channel = plane % s.groups * per_group + o;
            sum.run(weight + channel * s.kernel_size(), bias ? bias[channel] : T(0),
                    y + (plane / s.groups * s.out_channels + channel) * pixels);
          }
        }
      },
      us / static_cast<double>(planes * cuts));
}

template void conv_depthwise(const ConvShape&, const float*, const float*, const float*, float*);
template void conv_depthwise(const ConvShape&, const double*, const double*, const double*,
                             double*);

}  // namespace tenon::kernels
