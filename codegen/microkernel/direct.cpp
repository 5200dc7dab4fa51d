#include "direct.h"

#include "kernels.h"

#include <algorithm>
#include <vector>

namespace microkernel {

namespace {

constexpr int64_t most_sums = most_direct_rows * 32;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t panel_columns() { return kernels().f64.panel; }
int64_t double_lanes() { return kernels().f64.lanes; }
int64_t taps_of(const std::array<DirectAxis, 3>& axes) {
  return axes[0].kernel * axes[1].kernel * axes[2].kernel;
}

/// f(tap's number, tap) for each.
template <class F>
void for_each_tap(const std::array<DirectAxis, 3>& axes, F&& f) {
  int64_t number = 0, t[3];
  for (t[0] = 0; t[0] < axes[0].kernel; ++t[0])
    for (t[1] = 0; t[1] < axes[1].kernel; ++t[1])
      for (t[2] = 0; t[2] < axes[2].kernel; ++t[2]) f(number++, t);
}

/// Panels of output channels: packed as [panel][tap][channel][width].
struct Panel {
  int64_t first, columns, width;
  Panel(int64_t number, int64_t all)
      : first(number * panel_columns()),
        columns(std::min(panel_columns(), all - first)),
        width(divide_up(columns, double_lanes()) * double_lanes()) {}
};
int64_t padded(int64_t columns) { return divide_up(columns, double_lanes()) * double_lanes(); }

}  // namespace

int64_t DirectAxis::place(int64_t at, int64_t tap) const {
  if (!is_reversed) {
    int64_t place = at * stride - padding + tap * dilation;
    return place < source ? std::max<int64_t>(place, -1) : -1;
  }
  int64_t reached = at + padding - tap * dilation;
  if (reached < 0 || reached % stride) return -1;
  return reached / stride < source ? reached / stride : -1;
}

int64_t DirectConvolution::packed_size() const {
  return groups * taps_of(axes) * channels * padded(out_channels);
}

void DirectConvolution::find_places() {
  for (size_t d = 0; d < 3; ++d)
    for (int64_t at = 0; at < axes[d].result; ++at)
      for (int64_t tap = 0; tap < axes[d].kernel; ++tap) {
        int64_t place = axes[d].place(at, tap);
        places[d].push_back(place < 0 ? -1 : place * source_strides[1 + d]);
      }
}

int64_t DirectConvolution::pack_parts() const {
  return groups * divide_up(out_channels, panel_columns());
}

// One panel. What one channel has for all taps lies close together and stays in the cache.
void DirectConvolution::pack(int64_t part, const Weights& w, double* packed) const {
  int64_t panels = divide_up(out_channels, panel_columns()), taps = taps_of(axes);
  Panel panel(part % panels, out_channels);
  packed += part / panels * (packed_size() / groups) + panel.first * taps * channels;
  const double* group = w.data + part / panels * w.group + panel.first * w.out_channel;
  std::vector<int64_t> tap;
  for_each_tap(axes, [&](int64_t, const int64_t(&t)[3]) {
    tap.push_back(t[0] * w.space[0] + t[1] * w.space[1] + t[2] * w.space[2]);
  });
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t t = 0; t < taps; ++t) {
      const double* from = group + c * w.channel + tap[static_cast<size_t>(t)];
      double* to = packed + (t * channels + c) * panel.width;
      for (int64_t o = 0; o < panel.columns; ++o) to[o] = from[o * w.out_channel];
      std::fill(to + panel.columns, to + panel.width, 0.0);
    }
}

namespace {

/// Every `step`-th result from `first` on, in each dimension.
struct Phase {
  int64_t first[3], step[3], count[3];

  Phase(const std::array<DirectAxis, 3>& axes, int64_t number) {
    for (size_t d = 3; d-- > 0;) {
      step[d] = axes[d].step();
      first[d] = number % step[d], number /= step[d];
      count[d] = axes[d].result > first[d] ? divide_up(axes[d].result - first[d], step[d]) : 0;
    }
  }
  int64_t size() const { return count[0] * count[1] * count[2]; }
  std::array<int64_t, 3> place(int64_t i) const {
    return {first[0] + i / (count[1] * count[2]) * step[0],
            first[1] + i / count[2] % count[1] * step[1], first[2] + i % count[2] * step[2]};
  }
};

int64_t phases_of(const std::array<DirectAxis, 3>& axes) {
  return axes[0].step() * axes[1].step() * axes[2].step();
}
/// Of each phase, as many as the first and largest one needs.
constexpr int64_t chunk_pixels = 96;
int64_t chunks_of(const std::array<DirectAxis, 3>& axes) {
  return divide_up(Phase(axes, 0).size(), chunk_pixels);
}

/// A part of the results of one image and group.
struct Part {
  const DirectConvolution& c;
  const double* source;
  const double* packed;
  const double* bias;
  double* result;
  std::vector<double> zeros;
  std::vector<DirectRun> runs;

  Part(const DirectConvolution& c, const double* source, const double* packed, const double* bias,
       double* result)
      : c(c),
        source(source),
        packed(packed),
        bias(bias),
        result(result),
        zeros(static_cast<size_t>(c.channels)) {}

  int64_t place(size_t d, const std::array<int64_t, 3>& at, const int64_t (&tap)[3]) const {
    return c.places[d][static_cast<size_t>(at[d] * c.axes[d].kernel + tap[d])];
  }

  /// What n results read at each tap that one of them uses.
  void find_runs(const std::array<int64_t, 3>* at, int64_t n, const Panel& panel) {
    runs.clear();
    for_each_tap(c.axes, [&](int64_t number, const int64_t(&t)[3]) {
      DirectRun run{{}, packed + number * c.channels * panel.width, c.channels};
      bool is_used = false;
      for (int64_t i = 0; i < most_direct_rows; ++i) {
        run.rows[i] = zeros.data();
        if (i >= n) continue;
        int64_t z = place(0, at[i], t), y = place(1, at[i], t), x = place(2, at[i], t);
        if ((z | y | x) < 0) continue;
        run.rows[i] = source + z + y + x;
        is_used = true;
      }
      if (is_used) runs.push_back(run);
    });
  }

  void store(const double* sums, const std::array<int64_t, 3>* at, int64_t n, const Panel& panel) {
    double* to[most_direct_rows];
    for (int64_t i = 0; i < n; ++i) {
      to[i] = result + panel.first * c.result_channel;
      for (size_t d = 0; d < 3; ++d) to[i] += at[i][d] * c.result_strides[1 + d];
    }
    auto sum = [&](int64_t i, int64_t o) {
      return sums[i * panel.width + o] + (bias ? bias[panel.first + o] : 0);
    };
    if (c.result_channel == 1)
      for (int64_t i = 0; i < n; ++i)
        for (int64_t o = 0; o < panel.columns; ++o) to[i][o] = sum(i, o);
    else
      for (int64_t o = 0; o < panel.columns; ++o)
        for (int64_t i = 0; i < n; ++i) to[i][o * c.result_channel] = sum(i, o);
  }

  void run_panel(const Panel& panel, const Phase& phase, int64_t begin, int64_t end) {
    alignas(64) double sums[most_sums];
    std::array<int64_t, 3> at[most_direct_rows];
    int64_t rows = kernels().direct_rows;
    for (int64_t first = begin; first < end; first += rows) {
      int64_t n = std::min(rows, end - first);
      for (int64_t i = 0; i < n; ++i) at[i] = phase.place(first + i);
      find_runs(at, n, panel);
      kernels().sum_directly({static_cast<int64_t>(runs.size()), runs.data(), 1, panel.width,
                              panel.width, true, sums});
      store(sums, at, n, panel);
    }
  }
};

}  // namespace

int64_t DirectConvolution::parts() const {
  return images * groups * phases_of(axes) * chunks_of(axes);
}

void DirectConvolution::run(int64_t number, const double* source, const double* packed,
                            const double* bias, double* result) const {
  int64_t chunk = number % chunks_of(axes), rest = number / chunks_of(axes);
  Phase phase(axes, rest % phases_of(axes));
  rest /= phases_of(axes);
  int64_t group = rest % groups, image = rest / groups;
  int64_t begin = chunk * chunk_pixels, end = std::min(begin + chunk_pixels, phase.size());
  if (begin >= end) return;
  Part part(*this, source + image * source_strides[0] + group * channels,
            packed + group * (packed_size() / groups), bias ? bias + group * out_channels : nullptr,
            result + image * result_strides[0] + group * out_channels * result_channel);
  for (int64_t p = 0; p < divide_up(out_channels, panel_columns()); ++p) {
    Panel panel(p, out_channels);
    part.run_panel(panel, phase, begin, end);
    part.packed += taps_of(axes) * channels * panel.width;
  }
}

// ---- the gradient of weights

namespace {

struct Unit {
  int64_t group, tap[3], out_channel, panel;
};

}  // namespace

int64_t DirectCorrelation::parts() const {
  return groups * taps_of(axes) * divide_up(out_channels, kernels().direct_rows) *
         divide_up(channels, panel_columns());
}

void DirectCorrelation::run(int64_t part, const double* source, const double* gradient,
                            double* result) const {
  // Taps are the fastest: their results are neighbours.
  Unit u{};
  int64_t panels = divide_up(channels, panel_columns());
  int64_t blocks = divide_up(out_channels, kernels().direct_rows);
  for (int d = 2; d >= 0; --d) u.tap[d] = part % axes[d].kernel, part /= axes[d].kernel;
  u.panel = part % panels, part /= panels;
  u.out_channel = part % blocks * kernels().direct_rows;
  u.group = part / blocks;
  Panel panel(u.panel, channels);
  int64_t n_rows = std::min<int64_t>(kernels().direct_rows, out_channels - u.out_channel);

  // Of a line, the results whose windows are inside at this tap.
  const DirectAxis& x = axes[2];
  int64_t begin = 0, end = x.result;
  while (begin < end && x.place(begin, u.tap[2]) < 0) ++begin;
  while (end > begin && x.place(end - 1, u.tap[2]) < 0) --end;
  std::vector<DirectRun> runs;
  for (int64_t image = 0; image < images && begin < end; ++image)
    for (int64_t d = 0; d < axes[0].result; ++d)
      for (int64_t h = 0; h < axes[1].result; ++h) {
        int64_t z = axes[0].place(d, u.tap[0]), y = axes[1].place(h, u.tap[1]);
        if (z < 0 || y < 0) continue;
        const double* from = source + image * source_strides[0] + z * source_strides[1] +
                             y * source_strides[2] + x.place(begin, u.tap[2]) * source_strides[3] +
                             u.group * channels + panel.first;
        const double* left = gradient + image * gradient_strides[0] + d * gradient_strides[1] +
                             h * gradient_strides[2] + begin * gradient_strides[3] +
                             u.group * out_channels + u.out_channel;
        DirectRun run{{}, from, end - begin};
        for (int64_t i = 0; i < most_direct_rows; ++i)  // those behind the last one are not used
          run.rows[i] = left + std::min(i, n_rows - 1);
        runs.push_back(run);
      }
  alignas(64) double sums[most_sums];
  kernels().sum_directly({static_cast<int64_t>(runs.size()), runs.data(), gradient_strides[3],
                          x.stride * source_strides[3], panel.columns, false, sums});
  double* to = result + u.group * group + u.out_channel * out_channel + panel.first * channel;
  for (int d = 0; d < 3; ++d) to += u.tap[d] * space[d];
  for (int64_t i = 0; i < n_rows; ++i)
    for (int64_t c = 0; c < panel.columns; ++c)
      to[i * out_channel + c * channel] = sums[i * panel.width + c];
}

}  // namespace microkernel
