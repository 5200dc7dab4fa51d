// Convolutions and their gradients in f64, channels-last, without a matrix of windows.
//
// Problem: no library has them. Method: sums of a few pixels times a few vectors of channels stay
// in registers while taps and channels run. Each pixel has a pointer to what it reads at a tap,
// that of zeros where its window reaches over the border. The gradient of a source is the same with
// the places reversed: pixels that lie a stride apart use the same taps, so they go together, and
// taps that none of them uses are passed over. The gradient of a weight is a sum over the pixels of
// a gradient and a source. Each element is one sum in a fixed order, whatever the threads.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace microkernel {

/// One dimension of space: which place a result reads at a tap.
struct DirectAxis {
  int64_t source, result, kernel, stride, padding, dilation;
  bool is_reversed;  ///< from a convolution's result to its source, whose lengths change places

  /// The place, or -1 where there is none.
  int64_t place(int64_t at, int64_t tap) const;
  /// Results of one phase, a step apart, use the same taps.
  int64_t step() const { return is_reversed ? stride : 1; }
};

struct DirectConvolution {
  int64_t images, groups, channels, out_channels;  ///< channels of a group
  std::array<DirectAxis, 3> axes;                  ///< depth, height, width
  int64_t source_strides[4], result_strides[4];    ///< n, d, h, w; the source's channels are dense
  int64_t result_channel;                          ///< from channel to channel
  /// For each result of a dimension and each tap, where the source is read, in elements, or -1.
  std::array<std::vector<int64_t>, 3> places = {};

  /// Fills `places`: once, before run().
  void find_places();

  int64_t packed_size() const;
  /// Weights whose element (channel, out channel, tap) of a group lies at these strides.
  struct Weights {
    const double* data;
    int64_t group, channel, out_channel, space[3];
  };
  int64_t pack_parts() const;
  void pack(int64_t part, const Weights& weights, double* packed) const;
  /// Parts of the result; `bias` of all groups or null.
  int64_t parts() const;
  void run(int64_t part, const double* source, const double* packed, const double* bias,
           double* result) const;
};

/// The gradient of the weights; axes are those of the convolution.
struct DirectCorrelation {
  int64_t images, groups, channels, out_channels;
  std::array<DirectAxis, 3> axes;
  int64_t source_strides[4], gradient_strides[4];
  int64_t group, channel, out_channel, space[3];  ///< strides of the result, as of Weights

  int64_t parts() const;
  void run(int64_t part, const double* source, const double* gradient, double* result) const;
};

}  // namespace microkernel
