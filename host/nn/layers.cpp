// Layers with parameters.
#include "nn/dense.h"

#include <tenon/autograd.h>
#include <tenon/nn/layers.h>
#include <tenon/ops/create.h>
#include <tenon/ops/index.h>
#include <tenon/ops/linalg.h>
#include <tenon/ops/nn.h>
#include <tenon/tree.h>

namespace tenon::nn {
namespace {

int64_t padding_row(std::string_view layer, std::optional<int64_t> index, int64_t rows) {
  if (!index) return -1;
  int64_t row = *index < 0 ? *index + rows : *index;
  require(row >= 0 && row < rows, "{}: expected padding_idx in [-{}, {}), found {}", layer, rows,
          rows, *index);
  return row;
}

void reset_embedding(const Tensor& weight, int64_t padding_row) {
  init::normal_(weight);
  if (padding_row < 0) return;
  NoGradGuard no_grad;
  weight.select(0, padding_row).zero_();
}

}  // namespace

Linear::Linear(int64_t in_features, int64_t out_features, LinearOptions options) {
  require(in_features >= 0 && out_features >= 0,
          "Linear: expected in_features and out_features of 0 or more, found {} and {}",
          in_features, out_features);
  weight = Parameter(empty({out_features, in_features}));
  if (options.bias) bias = Parameter(empty({out_features}));
  reset_parameters();
}

void Linear::reset_parameters() { reset_dense(weight, bias); }
Tensor Linear::forward(const Tensor& x) const { return linear(x, weight, bias); }

Conv1d::Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
               const Conv1dOptions& options)
    : options_(options) {
  require_channels("Conv1d", in_channels, out_channels, options.groups);
  require_positive("Conv1d", "kernel_size", kernel_size);
  weight = Parameter(empty({out_channels, in_channels / options.groups, kernel_size}));
  if (options.bias) bias = Parameter(empty({out_channels}));
  reset_parameters();
}

void Conv1d::reset_parameters() { reset_dense(weight, bias); }

Tensor Conv1d::forward(const Tensor& x) const {
  return conv1d(x, weight, bias, {options_.stride}, {options_.padding}, {options_.dilation},
                options_.groups);
}

Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Size2 kernel_size,
               const Conv2dOptions& options)
    : options_(options) {
  require_channels("Conv2d", in_channels, out_channels, options.groups);
  require_positive("Conv2d", "kernel_size", std::min(kernel_size.height, kernel_size.width));
  weight = Parameter(
      empty({out_channels, in_channels / options.groups, kernel_size.height, kernel_size.width}));
  if (options.bias) bias = Parameter(empty({out_channels}));
  reset_parameters();
}

void Conv2d::reset_parameters() { reset_dense(weight, bias); }

Tensor Conv2d::forward(const Tensor& x) const {
  auto stride = options_.stride.list(), padding = options_.padding.list(),
       dilation = options_.dilation.list();
  return conv2d(x, weight, bias, IntList(stride), IntList(padding), IntList(dilation),
                options_.groups);
}

StatisticsNorm::StatisticsNorm(std::string_view layer, int64_t num_features, bool affine,
                               bool track_running_stats) {
  require_positive(layer, "num_features", num_features);
  if (affine) {
    weight = Parameter(empty({num_features}));
    bias = Parameter(empty({num_features}));
  }
  if (track_running_stats) {
    running_mean = Buffer(empty({num_features}));
    running_var = Buffer(empty({num_features}));
    num_batches_tracked = Buffer(zeros({}, Dtype::i64));
  }
  reset_running_stats();
  reset_parameters();
}

void StatisticsNorm::reset_parameters() {
  if (!weight.defined()) return;
  init::ones_(weight);
  init::zeros_(bias);
}

void StatisticsNorm::reset_running_stats() {
  if (!running_mean.defined()) return;
  init::zeros_(running_mean);
  init::ones_(running_var);
  init::zeros_(num_batches_tracked);
}

BatchNorm::BatchNorm(int64_t num_features, const BatchNormOptions& options, int64_t min_dims,
                     int64_t max_dims)
    : StatisticsNorm("BatchNorm", num_features, options.affine, options.track_running_stats),
      options_(options),
      min_dims_(min_dims),
      max_dims_(max_dims) {}

// The weight of a batch stays a tensor: a number would be another one in each call, and compiled
// code holds for the numbers that it was made with.
static Tensor norm_with_averages(const StatisticsNorm& norm, const Tensor& x, double eps) {
  Tensor mean = zeros_like(norm.running_mean), var = zeros_like(norm.running_var);
  Tensor y = batch_norm(x, norm.weight, norm.bias, mean, var, /*training=*/true, /*momentum=*/1,
                        eps, /*cudnn_enabled=*/true);
  Tensor weight_of_batch = norm.num_batches_tracked.to(Dtype::f64).reciprocal();
  norm.running_mean.lerp_(mean, weight_of_batch.to(mean.dtype()));
  norm.running_var.lerp_(var, weight_of_batch.to(var.dtype()));
  return y;
}

Tensor BatchNorm::forward(const Tensor& x) const {
  require(x.dim() >= min_dims_ && x.dim() <= max_dims_, "{}: expected {} dimensions, found {}",
          type_name(), max_dims_, x);
  bool tracked = running_mean.defined();
  if (is_training() && tracked) {
    num_batches_tracked.add_(1);
    if (!options_.momentum) return norm_with_averages(*this, x, options_.eps);
  }
  return batch_norm(x, weight, bias, running_mean, running_var, is_training() || !tracked,
                    options_.momentum.value_or(0), options_.eps, /*cudnn_enabled=*/true);
}

InstanceNorm::InstanceNorm(int64_t num_features, const InstanceNormOptions& options, int64_t dims)
    : StatisticsNorm("InstanceNorm", num_features, options.affine, options.track_running_stats),
      options_(options),
      dims_(dims) {}

Tensor InstanceNorm::forward(const Tensor& x) const {
  require(x.dim() == dims_ || x.dim() == dims_ - 1, "{}: expected {} or {} dimensions, found {}",
          type_name(), dims_ - 1, dims_, x);
  bool has_batch = x.dim() == dims_, tracked = running_mean.defined();
  Tensor y = instance_norm(has_batch ? x : x.unsqueeze(0), weight, bias, running_mean, running_var,
                           is_training() || !tracked, options_.momentum, options_.eps,
                           /*cudnn_enabled=*/true);
  return has_batch ? y : y.squeeze(0);
}

LayerNorm::LayerNorm(IntList normalized_shape, LayerNormOptions options)
    : shape_(normalized_shape.vec()), eps_(options.eps) {
  if (!options.elementwise_affine) return;
  weight = Parameter(ones(normalized_shape));
  if (options.bias) bias = Parameter(zeros(normalized_shape));
}

Tensor LayerNorm::forward(const Tensor& x) const {
  return layer_norm(x, shape_, weight, bias, eps_);
}

GroupNorm::GroupNorm(int64_t num_groups, int64_t num_channels, GroupNormOptions options)
    : groups_(num_groups), eps_(options.eps) {
  require_positive("GroupNorm", "num_groups", num_groups);
  require(num_channels % num_groups == 0,
          "GroupNorm: expected num_channels to be a multiple of num_groups = {}, found {}",
          num_groups, num_channels);
  if (!options.affine) return;
  weight = Parameter(ones({num_channels}));
  bias = Parameter(zeros({num_channels}));
}

Tensor GroupNorm::forward(const Tensor& x) const {
  return group_norm(x, groups_, weight, bias, eps_);
}

RMSNorm::RMSNorm(IntList normalized_shape, RMSNormOptions options)
    : shape_(normalized_shape.vec()), eps_(options.eps) {
  if (options.elementwise_affine) weight = Parameter(ones(normalized_shape));
}

Tensor RMSNorm::forward(const Tensor& x) const { return rms_norm(x, shape_, weight, eps_); }

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, EmbeddingOptions options)
    : padding_idx_(padding_row("Embedding", options.padding_idx, num_embeddings)),
      scale_grad_by_freq_(options.scale_grad_by_freq) {
  weight = Parameter(empty({num_embeddings, embedding_dim}));
  reset_parameters();
}

void Embedding::reset_parameters() { reset_embedding(weight, padding_idx_); }

Tensor Embedding::forward(const Tensor& indices) const {
  return embedding(weight, indices, padding_idx_, scale_grad_by_freq_);
}

EmbeddingBag::EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim,
                           EmbeddingBagOptions options)
    : options_(options),
      padding_idx_(padding_row("EmbeddingBag", options.padding_idx, num_embeddings)) {
  weight = Parameter(empty({num_embeddings, embedding_dim}));
  reset_parameters();
}

void EmbeddingBag::reset_parameters() { reset_embedding(weight, padding_idx_); }

Tensor EmbeddingBag::forward(const Tensor& indices, const Tensor& offsets,
                             const Tensor& per_sample_weights) const {
  Tensor flat = indices, begins = offsets, weights = per_sample_weights;
  if (indices.dim() == 2) {
    require(!offsets.defined(), "EmbeddingBag: indices of two dimensions take no offsets, found {}",
            offsets);
    SymInt bags = indices.size(0) + (options_.include_last_offset ? 1 : 0);
    begins = arange(bags, indices.dtype()).mul(indices.size(1));
    flat = indices.reshape({-1});
    if (weights.defined()) weights = weights.reshape({-1});
  }
  require(begins.defined(), "EmbeddingBag: indices of one dimension need offsets, found none");
  std::optional<int64_t> padding;
  if (padding_idx_ >= 0) padding = padding_idx_;
  return std::get<0>(embedding_bag(weight, flat, begins, options_.scale_grad_by_freq,
                                   static_cast<int64_t>(options_.mode), /*sparse=*/false, weights,
                                   options_.include_last_offset, padding));
}

}  // namespace tenon::nn
