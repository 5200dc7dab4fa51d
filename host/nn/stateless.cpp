// Layers without parameters, where they are more than one op, and PReLU.
#include <tenon/functional.h>
#include <tenon/nn/stateless.h>

namespace tenon::nn {

PReLU::PReLU(int64_t num_parameters, double init) {
  require(num_parameters > 0, "PReLU: expected num_parameters of 1 or more, found {}",
          num_parameters);
  weight = Parameter(full({num_parameters}, init));
}

namespace {

double probability(std::string_view layer, double p) {
  require(p >= 0 && p <= 1, "{}: expected a probability in [0, 1], found {}", layer, p);
  return p;
}

}  // namespace

Dropout::Dropout(double p) : p_(probability("Dropout", p)) {}
FeatureDropout::FeatureDropout(double p) : p_(probability("FeatureDropout", p)) {}
AlphaDropout::AlphaDropout(double p) : p_(probability("AlphaDropout", p)) {}

Upsample::Upsample(UpsampleOptions options) : options_(std::move(options)) {
  require(options_.size.empty() != options_.scale_factor.empty(),
          "Upsample: expected a size or a scale_factor, found {}",
          options_.size.empty() ? "none" : "both");
}

Tensor Upsample::forward(const Tensor& x) const {
  static constexpr std::string_view modes[] = {"nearest", "linear", "bilinear", "bicubic",
                                               "trilinear"};
  InterpolateOptions options{.scale_factor = options_.scale_factor,
                             .mode = modes[static_cast<size_t>(options_.mode)]};
  options.size.assign(options_.size.begin(), options_.size.end());
  if (options_.align_corners) options.align_corners = true;
  return interpolate(x, options);
}

Tensor MaxPool1d::forward(const Tensor& x) const {
  return max_pool1d(x, {kernel_}, {options_.stride.value_or(kernel_)}, {options_.padding},
                    {options_.dilation}, options_.ceil_mode);
}

Tensor AvgPool1d::forward(const Tensor& x) const {
  return avg_pool1d(x, {kernel_}, {options_.stride.value_or(kernel_)}, {options_.padding},
                    options_.ceil_mode, options_.count_include_pad);
}

Tensor MaxPool3d::forward(const Tensor& x) const {
  return max_pool3d(x, kernel_.list(), options_.stride.value_or(kernel_).list(),
                    options_.padding.list(), options_.dilation.list(), options_.ceil_mode);
}

Tensor AvgPool3d::forward(const Tensor& x) const {
  return avg_pool3d(x, kernel_.list(), options_.stride.value_or(kernel_).list(),
                    options_.padding.list(), options_.ceil_mode, options_.count_include_pad,
                    options_.divisor_override);
}

Tensor MaxPool2d::forward(const Tensor& x) const {
  return max_pool2d(x, kernel_.list(), options_.stride.value_or(kernel_).list(),
                    options_.padding.list(), options_.dilation.list(), options_.ceil_mode);
}

Tensor AvgPool2d::forward(const Tensor& x) const {
  return avg_pool2d(x, kernel_.list(), options_.stride.value_or(kernel_).list(),
                    options_.padding.list(), options_.ceil_mode, options_.count_include_pad,
                    options_.divisor_override);
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& x) const {
  auto sizes = output_size_.list();
  return adaptive_avg_pool2d(x, IntList(sizes));
}

}  // namespace tenon::nn
