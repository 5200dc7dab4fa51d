// Convolutions and their gradients as products of windows.
//
// Problem: sums over channels and taps by plain kernels read every element many times. Method: the
// windows of all results are written out as a matrix, in groups [channels and taps, images and
// pixels], so that a convolution is weights x windows, the gradient of its weights is gradient x
// windows^T, and that of its source weights^T x gradient, summed where windows overlap. A kernel of
// one tap, stride 1 and no padding has its source as windows, image by image, and nothing is
// written out. Cost: windows take the memory of the source times the taps; a batch whose windows
// would take more than an option says goes in parts, where its size is known.
//
// Where cuDNN is there and has a way, it does the convolution instead.
//
// Depthwise convolutions and small ones stay sums: a product of theirs would be all overhead.
#pragma once

#include "../dnn/steps.h"
#include "step_loops.h"

#include <functional>
#include <optional>

namespace inductor_cuda {

struct StepOptions {
  int64_t windows_bytes = int64_t{256} << 20;  // written out at a time
  const Device* dnn_device = nullptr;          // null: cuDNN is not asked
  DnnRequest dnn = {};
};

class ConvolutionSteps {
 public:
  using AddProduct = std::function<void(loopir::Product)>;
  /// `dnn` may be null.
  ConvolutionSteps(StepLoops& loops, const StepOptions& options, DnnSteps* dnn,
                   AddProduct add_product)
      : l_(loops),
        x_(loops.x),
        options_(options),
        dnn_(dnn),
        add_product_(std::move(add_product)) {}

  /// False, with nothing added, where it is better as a sum.
  bool add(const loopir::Convolution& c);
  bool add(const loopir::ConvolutionGradient& g);

 private:
  struct Shape;
  struct Part;  // of the images
  Shape shape_of(const loopir::View& source, const loopir::View& weights,
                 const loopir::View& result, const int64_t* stride, const int64_t* padding,
                 const int64_t* dilation, int64_t groups, int32_t dtype, std::string name);
  bool is_better_as_sum(const Shape& s) const;
  std::vector<Part> parts_of(const Shape& s) const;
  std::optional<loopir::View> flat(const loopir::View& v, size_t kept) const;
  loopir::View dense(const loopir::View& v, const std::string& name);

  loopir::View windows(const Shape& s, const Part& part);
  loopir::View by_channels(const Shape& s, const loopir::View& images, const Part& part);
  bool pixel_by_pixel(const Shape& s, const loopir::View& left, const loopir::View& source,
                      const loopir::View& result, const std::optional<loopir::View>& bias);
  void multiply(const Shape& s, loopir::View left, loopir::View right, loopir::View result,
                bool adds = false);
  void gradient_of_weights(const Shape& s, const loopir::View& gradient,
                           const loopir::View& result);
  void put_together(const Shape& s, const loopir::View& columns, const Part& part,
                    const loopir::View& result);
  void gradient_of_source(const Shape& s, const loopir::View& gradient, const loopir::View& result);

  StepLoops& l_;
  loopir::Expressions& x_;
  StepOptions options_;
  DnnSteps* dnn_;
  AddProduct add_product_;
};

}  // namespace inductor_cuda
