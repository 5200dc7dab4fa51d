// SPDX-License-Identifier: Apache-2.0
// Losses, with PyTorch's names and defaults: `forward(input, target)`.
#pragma once

#include <tenon/nn/module.h>

namespace tenon {
namespace nn {

/// How the losses of the elements become one; batch_mean (of KLDivLoss) divides by the batch size.
enum class Reduction : int64_t { none = 0, mean = 1, sum = 2, batch_mean = 3 };

struct CrossEntropyOptions {
  Tensor weight = {};  ///< one factor a class
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;
};
/// Of logits [batch, classes, ...] and class numbers [batch, ...] or probabilities.
class TENON_API CrossEntropyLoss : public Module {
 public:
  explicit CrossEntropyLoss(CrossEntropyOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;
  Buffer weight;
  TENON_MODULE(CrossEntropyLoss, weight)

 private:
  int64_t ignore_index_;
  Reduction reduction_;
  double label_smoothing_;
};

struct NLLOptions {
  Tensor weight = {};
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
/// Of logarithms of probabilities and class numbers.
class TENON_API NLLLoss : public Module {
 public:
  explicit NLLLoss(NLLOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;
  Buffer weight;
  TENON_MODULE(NLLLoss, weight)

 private:
  int64_t ignore_index_;
  Reduction reduction_;
};

class TENON_API MSELoss : public Module {
 public:
  explicit MSELoss(Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& input, const Tensor& target) const;
  TENON_MODULE(MSELoss)

 private:
  Reduction reduction_;
};

class TENON_API L1Loss : public Module {
 public:
  explicit L1Loss(Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& input, const Tensor& target) const;
  TENON_MODULE(L1Loss)

 private:
  Reduction reduction_;
};

/// Quadratic up to `beta`, then linear with slope 1.
class TENON_API SmoothL1Loss : public Module {
 public:
  explicit SmoothL1Loss(Reduction reduction = Reduction::mean, double beta = 1);
  Tensor forward(const Tensor& input, const Tensor& target) const;
  TENON_MODULE(SmoothL1Loss)

 private:
  Reduction reduction_;
  double beta_;
};

/// Quadratic up to `delta`, then linear with slope `delta`.
class TENON_API HuberLoss : public Module {
 public:
  explicit HuberLoss(Reduction reduction = Reduction::mean, double delta = 1);
  Tensor forward(const Tensor& input, const Tensor& target) const;
  TENON_MODULE(HuberLoss)

 private:
  Reduction reduction_;
  double delta_;
};

struct BCEWithLogitsOptions {
  Tensor weight = {};  ///< one factor an element
  Reduction reduction = Reduction::mean;
  Tensor pos_weight = {};  ///< factor of positive targets
};
class TENON_API BCEWithLogitsLoss : public Module {
 public:
  explicit BCEWithLogitsLoss(BCEWithLogitsOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;
  Buffer weight, pos_weight;
  TENON_MODULE(BCEWithLogitsLoss, weight, pos_weight)

 private:
  Reduction reduction_;
};

struct BCEOptions {
  Tensor weight = {};
  Reduction reduction = Reduction::mean;
};
class TENON_API BCELoss : public Module {
 public:
  explicit BCELoss(BCEOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;
  Buffer weight;
  TENON_MODULE(BCELoss, weight)

 private:
  Reduction reduction_;
};

/// Of logarithms of probabilities; the target holds probabilities, or their logarithms.
class TENON_API KLDivLoss : public Module {
 public:
  explicit KLDivLoss(Reduction reduction = Reduction::mean, bool log_target = false);
  Tensor forward(const Tensor& input, const Tensor& target) const;
  TENON_MODULE(KLDivLoss)

 private:
  Reduction reduction_;
  bool log_target_;
};

}  // namespace nn

/// CrossEntropyLoss as a function.
TENON_API Tensor cross_entropy(const Tensor& input, const Tensor& target,
                               const nn::CrossEntropyOptions& options = {});

}  // namespace tenon
