// SPDX-License-Identifier: Apache-2.0
// Layers with parameters, with PyTorch's names, defaults and initial values.
//
//     nn::Conv2d conv{1, 16, 3, {.padding = 1}};
//     nn::Linear fc{64, 10, {.bias = false}};
//
// Each takes the shapes that PyTorch's layer takes, batch first. Wrong shapes are reported by the
// op that meets them (UserError). Copies and threads: see <tenon/nn/module.h>.
#pragma once

#include <tenon/nn/module.h>

namespace tenon::nn {

/// Height and width; one number is both.
struct Size2 {
  int64_t height = 0, width = 0;
  constexpr Size2(int64_t both) : height(both), width(both) {}  // NOLINT: numbers are sizes
  constexpr Size2(int64_t h, int64_t w) : height(h), width(w) {}
  std::array<int64_t, 2> list() const { return {height, width}; }
};

struct LinearOptions {
  bool bias = true;
};
class TENON_API Linear : public Module {
 public:
  Linear(int64_t in_features, int64_t out_features, LinearOptions options = {});
  void reset_parameters();
  Tensor forward(const Tensor& x) const;

  Parameter weight;  ///< [out, in]
  Parameter bias;
  TENON_MODULE(Linear, weight, bias)
};

struct Conv1dOptions {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true;
};
class TENON_API Conv1d : public Module {
 public:
  Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
         const Conv1dOptions& options = {});
  void reset_parameters();
  Tensor forward(const Tensor& x) const;

  Parameter weight;  ///< [out, in / groups, kernel]
  Parameter bias;
  TENON_MODULE(Conv1d, weight, bias)

 private:
  Conv1dOptions options_;
};

struct Conv2dOptions {
  Size2 stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
class TENON_API Conv2d : public Module {
 public:
  Conv2d(int64_t in_channels, int64_t out_channels, Size2 kernel_size,
         const Conv2dOptions& options = {});
  void reset_parameters();
  Tensor forward(const Tensor& x) const;

  Parameter weight;  ///< [out, in / groups, height, width]
  Parameter bias;
  TENON_MODULE(Conv2d, weight, bias)

 private:
  Conv2dOptions options_;
};

struct BatchNormOptions {
  double eps = 1e-5;
  /// Weight of the newest batch in the running statistics; unset: all batches weigh the same.
  std::optional<double> momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;
};
/// What normalisation by statistics of a feature has: dimension 1 is that of the features.
class TENON_API StatisticsNorm : public Module {
 public:
  void reset_parameters();
  void reset_running_stats();

  Parameter weight, bias;
  Buffer running_mean, running_var, num_batches_tracked;

 protected:
  StatisticsNorm(std::string_view layer, int64_t num_features, bool affine,
                 bool track_running_stats);
};
/// What BatchNorm1d to 3d share.
class TENON_API BatchNorm : public StatisticsNorm {
 public:
  Tensor forward(const Tensor& x) const;
  TENON_MODULE(BatchNorm, weight, bias, running_mean, running_var, num_batches_tracked)

 protected:
  BatchNorm(int64_t num_features, const BatchNormOptions& options, int64_t min_dims,
            int64_t max_dims);

 private:
  BatchNormOptions options_;
  int64_t min_dims_, max_dims_;
};
class TENON_API BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm(num_features, options, 2, 3) {}
  std::string_view type_name() const override { return "BatchNorm1d"; }
};
class TENON_API BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm(num_features, options, 4, 4) {}
  std::string_view type_name() const override { return "BatchNorm2d"; }
};

class TENON_API BatchNorm3d : public BatchNorm {
 public:
  explicit BatchNorm3d(int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm(num_features, options, 5, 5) {}
  std::string_view type_name() const override { return "BatchNorm3d"; }
};

struct InstanceNormOptions {
  double eps = 1e-5, momentum = 0.1;
  bool affine = false, track_running_stats = false;
};
/// What InstanceNorm1d to 3d share: each sample and feature is normalised by itself. The batch may
/// be left out.
class TENON_API InstanceNorm : public StatisticsNorm {
 public:
  Tensor forward(const Tensor& x) const;
  TENON_MODULE(InstanceNorm, weight, bias, running_mean, running_var, num_batches_tracked)

 protected:
  InstanceNorm(int64_t num_features, const InstanceNormOptions& options, int64_t dims);

 private:
  InstanceNormOptions options_;
  int64_t dims_;
};
class TENON_API InstanceNorm1d : public InstanceNorm {
 public:
  explicit InstanceNorm1d(int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNorm(num_features, options, 3) {}
  std::string_view type_name() const override { return "InstanceNorm1d"; }
};
class TENON_API InstanceNorm2d : public InstanceNorm {
 public:
  explicit InstanceNorm2d(int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNorm(num_features, options, 4) {}
  std::string_view type_name() const override { return "InstanceNorm2d"; }
};
class TENON_API InstanceNorm3d : public InstanceNorm {
 public:
  explicit InstanceNorm3d(int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNorm(num_features, options, 5) {}
  std::string_view type_name() const override { return "InstanceNorm3d"; }
};

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true, bias = true;
};
class TENON_API LayerNorm : public Module {
 public:
  explicit LayerNorm(IntList normalized_shape, LayerNormOptions options = {});
  explicit LayerNorm(int64_t last_size, LayerNormOptions options = {})
      : LayerNorm(IntList(last_size), options) {}
  Tensor forward(const Tensor& x) const;

  Parameter weight, bias;
  TENON_MODULE(LayerNorm, weight, bias)

 private:
  std::vector<int64_t> shape_;
  double eps_;
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
};
class TENON_API GroupNorm : public Module {
 public:
  GroupNorm(int64_t num_groups, int64_t num_channels, GroupNormOptions options = {});
  Tensor forward(const Tensor& x) const;

  Parameter weight, bias;
  TENON_MODULE(GroupNorm, weight, bias)

 private:
  int64_t groups_;
  double eps_;
};

struct RMSNormOptions {
  std::optional<double> eps = {};  ///< unset: the distance from 1 to the next number of the dtype
  bool elementwise_affine = true;
};
class TENON_API RMSNorm : public Module {
 public:
  explicit RMSNorm(IntList normalized_shape, RMSNormOptions options = {});
  explicit RMSNorm(int64_t last_size, RMSNormOptions options = {})
      : RMSNorm(IntList(last_size), options) {}
  Tensor forward(const Tensor& x) const;

  Parameter weight;
  TENON_MODULE(RMSNorm, weight)

 private:
  std::vector<int64_t> shape_;
  std::optional<double> eps_;
};

struct EmbeddingOptions {
  /// This row begins as zeros and gets no gradient. Negative ones count from the end.
  std::optional<int64_t> padding_idx = {};
  bool scale_grad_by_freq = false;
};
class TENON_API Embedding : public Module {
 public:
  Embedding(int64_t num_embeddings, int64_t embedding_dim, EmbeddingOptions options = {});
  void reset_parameters();
  Tensor forward(const Tensor& indices) const;

  Parameter weight;  ///< [num_embeddings, embedding_dim]
  TENON_MODULE(Embedding, weight)

 private:
  int64_t padding_idx_;
  bool scale_grad_by_freq_;
};

enum class BagMode : int64_t { sum = 0, mean = 1, max = 2 };
struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  std::optional<int64_t> padding_idx = {};
  bool scale_grad_by_freq = false, include_last_offset = false;
};
class TENON_API EmbeddingBag : public Module {
 public:
  EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim, EmbeddingBagOptions options = {});
  void reset_parameters();
  /// Indices [bags, length], or [n] with the offsets at which the bags begin.
  Tensor forward(const Tensor& indices, const Tensor& offsets = {},
                 const Tensor& per_sample_weights = {}) const;

  Parameter weight;
  TENON_MODULE(EmbeddingBag, weight)

 private:
  EmbeddingBagOptions options_;
  int64_t padding_idx_;
};

}  // namespace tenon::nn
