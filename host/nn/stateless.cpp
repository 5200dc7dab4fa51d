// Layers without parameters, where they are more than one op, and PReLU.
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
  auto dims = static_cast<size_t>(std::max<int64_t>(x.dim() - 2, 0));
  auto for_all = [&]<class T>(std::vector<T> given) {
    if (given.size() == 1) given.resize(dims, given[0]);
    return given;
  };
  std::vector<int64_t> sizes = for_all(options_.size);
  std::vector<double> factors = for_all(options_.scale_factor);
  OptSymIntList size = sizes.empty() ? OptSymIntList() : OptSymIntList(SymIntList(IntList(sizes)));
  OptDoubleList scale = factors.empty() ? OptDoubleList() : OptDoubleList(DoubleList(factors));
  require(sizes.size() + factors.size() == dims && dims >= 1 && dims <= 3,
          "Upsample: expected a size or factor for each dimension behind batch and channels, found "
          "{} for {}",
          sizes.size() + factors.size(), x);
  bool corners = options_.align_corners;
  auto needs = [&](size_t n, const char* mode) {
    require(dims == n, "Upsample: {} takes tensors of {} dimensions, found {}", mode, n + 2, x);
  };
  switch (options_.mode) {
    case UpsampleMode::nearest:
      require(!corners, "Upsample: align_corners is not for nearest; choose another mode");
      return dims == 1   ? upsample_nearest1d(x, size, scale)
             : dims == 2 ? upsample_nearest2d(x, size, scale)
                         : upsample_nearest3d(x, size, scale);
    case UpsampleMode::linear:
      needs(1, "linear");
      return upsample_linear1d(x, size, corners, scale);
    case UpsampleMode::bilinear:
      needs(2, "bilinear");
      return upsample_bilinear2d(x, size, corners, scale);
    case UpsampleMode::bicubic:
      needs(2, "bicubic");
      return upsample_bicubic2d(x, size, corners, scale);
    case UpsampleMode::trilinear:
      break;
  }
  needs(3, "trilinear");
  return upsample_trilinear3d(x, size, corners, scale);
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
