// What is done with modules and their parameters as a whole. nn::clone's part is in module.cpp.
#include <tenon/nn/utils.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/view.h>

namespace tenon::nn::utils {

Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> parts;
  for (const Tensor& p : parameters) parts.push_back(p.reshape({-1}));
  return cat(parts);
}

void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters) {
  SymInt total = 0;
  for (const Tensor& p : parameters) total += p.numel();
  require(vector.dim() == 1 && vector.size(0) == total,
          "vector_to_parameters: expected a vector of {} numbers, found {}", total, vector);
  NoGradGuard no_grad;
  SymInt at = 0;
  for (const Tensor& p : parameters) {
    p.copy_(vector.narrow(0, at, p.numel()).view(p.sizes()));
    at += p.numel();
  }
}

}  // namespace tenon::nn::utils
