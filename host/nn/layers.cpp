// Layers with parameters.
#include <tenon/autograd.h>
#include <tenon/nn/init.h>
#include <tenon/nn/layers.h>
#include <tenon/ops/create.h>
#include <tenon/ops/index.h>
#include <tenon/ops/linalg.h>
#include <tenon/ops/nn.h>
#include <tenon/tree.h>

#include <cmath>

namespace tenon::nn {
namespace {

// What PyTorch's linear and convolution layers begin with: the bound of kaiming_uniform_ with
// a = sqrt(5), which is 1 / sqrt(fan in), for weight and bias alike.
void reset_dense(const Tensor& weight, const Tensor& bias) {
  int64_t fan_in = init::fans_of(weight).in;
  double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  init::uniform_(weight, -bound, bound);
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}

void require_positive(std::string_view layer, std::string_view what, int64_t value) {
  require(value > 0, "{}: expected {} of 1 or more, found {}", layer, what, value);
}

// The channels of a convolution, checked, as the first sizes of its weight.
std::vector<int64_t> weight_sizes(std::string_view layer, int64_t in, int64_t out, int64_t groups) {
  require_positive(layer, "in_channels", in);
  require_positive(layer, "out_channels", out);
  require_positive(layer, "groups", groups);
  require(in % groups == 0 && out % groups == 0,
          "{}: expected in_channels and out_channels to be multiples of groups = {}, found {} and "
          "{}",
          layer, groups, in, out);
  return {out, in / groups};
}

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
  auto sizes = weight_sizes("Conv1d", in_channels, out_channels, options.groups);
  require_positive("Conv1d", "kernel_size", kernel_size);
  weight = Parameter(empty({sizes[0], sizes[1], kernel_size}));
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
  auto sizes = weight_sizes("Conv2d", in_channels, out_channels, options.groups);
  require_positive("Conv2d", "kernel_size", std::min(kernel_size.height, kernel_size.width));
  weight = Parameter(empty({sizes[0], sizes[1], kernel_size.height, kernel_size.width}));
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

BatchNorm::BatchNorm(int64_t num_features, const BatchNormOptions& options, int64_t min_dims,
                     int64_t max_dims)
    : options_(options), min_dims_(min_dims), max_dims_(max_dims) {
  require_positive("BatchNorm", "num_features", num_features);
  if (options.affine) {
    weight = Parameter(empty({num_features}));
    bias = Parameter(empty({num_features}));
  }
  if (options.track_running_stats) {
    running_mean = Buffer(empty({num_features}));
    running_var = Buffer(empty({num_features}));
    num_batches_tracked = Buffer(zeros({}, Dtype::i64));
  }
  reset_running_stats();
  reset_parameters();
}

void BatchNorm::reset_parameters() {
  if (!weight.defined()) return;
  init::ones_(weight);
  init::zeros_(bias);
}

void BatchNorm::reset_running_stats() {
  if (!running_mean.defined()) return;
  init::zeros_(running_mean);
  init::ones_(running_var);
  init::zeros_(num_batches_tracked);
}

Tensor BatchNorm::forward(const Tensor& x) const {
  require(x.dim() >= min_dims_ && x.dim() <= max_dims_, "{}: expected {} dimensions, found {}",
          type_name(), max_dims_, x);
  bool tracked = running_mean.defined();
  double weight_of_batch = options_.momentum.value_or(0);
  if (is_training() && tracked) {
    num_batches_tracked.add_(1);
    if (!options_.momentum)
      weight_of_batch = 1 / static_cast<double>(num_batches_tracked.item<int64_t>().value());
  }
  return batch_norm(x, weight, bias, running_mean, running_var, is_training() || !tracked,
                    weight_of_batch, options_.eps, /*cudnn_enabled=*/true);
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
