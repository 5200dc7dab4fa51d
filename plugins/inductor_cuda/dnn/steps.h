// Convolutions and attention in the form that cuDNN takes.
//
// Problem: the library is fast where channels are dense and a multiple of 16 bytes, knows sizes that
// are numbers only, and has no way for everything. Method: a step is written down as it would be,
// images and weights copied with their channels last where they lie otherwise (and filled up with
// zeros where there are few), the library is asked for a plan, and without one the step is taken
// back, for the caller to go another way. Cost: of a plan, see plan.h.
#pragma once

#include "../products/step_loops.h"
#include "item.h"

#include <array>

namespace inductor_cuda {

struct Square;

class DnnSteps {
 public:
  DnnSteps(StepLoops& loops, const Device& device, const DnnRequest& request)
      : l_(loops), x_(loops.x), device_(device), request_(request) {}

  /// False, with nothing added, where the library has no way.
  bool add(const loopir::Convolution& c);
  bool add(const loopir::ConvolutionGradient& g);
  bool add(const loopir::Attention& a);
  bool add(const loopir::AttentionGradient& g);

 private:
  template <class Step>
  bool is_known(std::initializer_list<const loopir::View*> views, const Step& step) const;
  bool is_of_all_windows(const loopir::ConvolutionGradient& g) const;
  bool is_channels_last(const loopir::View& v) const;
  loopir::View channels_last(int32_t dtype, const Ids& sizes, const std::string& name);
  loopir::View image(const loopir::View& v, int64_t channels, const std::string& name);
  int64_t filled_channels(const loopir::View& source, int64_t groups) const;
  bool add_in_squares(const loopir::Convolution& c);
  loopir::View in_squares(const loopir::View& v, const Square& square,
                          std::array<int64_t, 2> lengths, std::array<int64_t, 2> zeros,
                          const std::string& name);
  loopir::View in_rows(const loopir::View& v, int64_t taps, const std::string& name);
  loopir::View rounded(const loopir::View& bias, int32_t dtype, const std::string& name);
  bool keep_convolution(loopir::Convolution c, size_t before, const loopir::View& to);
  bool keep_without_bias(loopir::Convolution c, size_t before, const loopir::View& to);
  template <class Step>
  bool keep(Step step, size_t before, const loopir::View& to);
  bool is_readable(const loopir::View& v) const;
  bool is_asked(const loopir::Attention& a, std::initializer_list<const loopir::View*> views) const;

  StepLoops& l_;
  loopir::Expressions& x_;
  Device device_;
  DnnRequest request_;
};

}  // namespace inductor_cuda
