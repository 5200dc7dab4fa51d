// Layers without parameters, where they are more than one op, and PReLU.
#include <tenon/nn/stateless.h>

namespace tenon::nn {

PReLU::PReLU(int64_t num_parameters, double init) {
  require(num_parameters > 0, "PReLU: expected num_parameters of 1 or more, found {}",
          num_parameters);
  weight = Parameter(full({num_parameters}, init));
}

Dropout::Dropout(double p) : p_(p) {
  require(p >= 0 && p <= 1, "Dropout: expected a probability in [0, 1], found {}", p);
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
