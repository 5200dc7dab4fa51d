// Convolutions and their gradients by plain loops, in double precision, for the sizes of a call
// that no library has anything fast for.
#pragma once

#include "inductor_runtime/workers.h"
#include "placed.h"

#include <loopir/program.h>

#include <functional>
#include <span>

namespace inductor {

/// What of a convolution or a gradient is not a tensor.
struct Geometry {
  const int64_t *stride, *padding, *dilation;
  int64_t groups;

  template <class Step>
  explicit Geometry(const Step& step)
      : stride(step.stride), padding(step.padding), dilation(step.dilation), groups(step.groups) {}

  /// Where the window of a result reads, in one dimension of space.
  int64_t source(int d, int64_t result, int64_t tap) const {
    return result * stride[d] - padding[d] + tap * dilation[d];
  }
  /// The result whose window has `tap` at a place of the source, or -1.
  int64_t result(int d, int64_t source, int64_t tap) const {
    int64_t at = source + padding[d] - tap * dilation[d];
    return at < 0 || at % stride[d] ? -1 : at / stride[d];
  }
};

/// Numbers in f64, f32 or bf16.
struct Elements {
  int32_t dtype;
  void* data;

  double get(int64_t at) const;
  void set(int64_t at, double value) const;
};

/// A tensor of a call.
struct Operand {
  const Placed& place;
  Elements elements;

  Operand(const Placed& place, int32_t dtype, std::span<void* const> pointers)
      : place(place), elements{dtype, place.address(pointers, dtype)} {}
  double get(int64_t at) const { return elements.get(at); }
};

/// finish(sum, at): what is stored at element `at` of the result.
using FinishOne = std::function<double(double sum, int64_t at)>;

void convolve_plainly(const Geometry& g, const Operand& source, const Operand& weights,
                      const Operand* bias, const Operand& result, const FinishOne& finish,
                      const Workers& workers);
void source_gradient_plainly(const Geometry& g, const Operand& gradient, const Operand& weights,
                             const Operand& result, const Workers& workers);
void weights_gradient_plainly(const Geometry& g, const Operand& gradient, const Operand& source,
                              const Operand& result, const Workers& workers);

}  // namespace inductor
