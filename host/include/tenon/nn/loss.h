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

/// max(0, -y * (first - second) + margin), where y = 1 wants the first to be larger, y = -1 the second.
class TENON_API MarginRankingLoss : public Module {
 public:
  explicit MarginRankingLoss(double margin = 0, Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& first, const Tensor& second, const Tensor& y) const;
  TENON_MODULE(MarginRankingLoss)

 private:
  double margin_;
  Reduction reduction_;
};

/// The input where y = 1, max(0, margin - input) where y = -1.
class TENON_API HingeEmbeddingLoss : public Module {
 public:
  explicit HingeEmbeddingLoss(double margin = 1, Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& input, const Tensor& y) const;
  TENON_MODULE(HingeEmbeddingLoss)

 private:
  double margin_;
  Reduction reduction_;
};

/// 1 - cosine where y = 1, max(0, cosine - margin) where y = -1.
class TENON_API CosineEmbeddingLoss : public Module {
 public:
  explicit CosineEmbeddingLoss(double margin = 0, Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& first, const Tensor& second, const Tensor& y) const;
  TENON_MODULE(CosineEmbeddingLoss)

 private:
  double margin_;
  Reduction reduction_;
};

struct TripletMarginOptions {
  double margin = 1, p = 2, eps = 1e-6;
  bool swap = false;  ///< the distance of positive and negative counts where it is smaller
  Reduction reduction = Reduction::mean;
};
/// max(0, |anchor - positive| - |anchor - negative| + margin)
class TENON_API TripletMarginLoss : public Module {
 public:
  explicit TripletMarginLoss(const TripletMarginOptions& options = {});
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const;
  TENON_MODULE(TripletMarginLoss)

 private:
  TripletMarginOptions options_;
};

struct CTCOptions {
  int64_t blank = 0;  ///< the class that stands for no label
  Reduction reduction = Reduction::mean;
  bool zero_infinity = false;  ///< targets that are too long count as zero
};
/// Of logarithms of probabilities [time, batch, classes] and targets [batch, length] or one after the
/// other; lengths are [batch], integers.
class TENON_API CTCLoss : public Module {
 public:
  explicit CTCLoss(const CTCOptions& options = {});
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths) const;
  TENON_MODULE(CTCLoss)

 private:
  CTCOptions options_;
};

struct PoissonNLLOptions {
  bool log_input = true, full = false;
  double eps = 1e-8;
  Reduction reduction = Reduction::mean;
};
/// Of counts whose expectation, or its logarithm, is the input.
class TENON_API PoissonNLLLoss : public Module {
 public:
  explicit PoissonNLLLoss(const PoissonNLLOptions& options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;
  TENON_MODULE(PoissonNLLLoss)

 private:
  PoissonNLLOptions options_;
};

/// log(1 + exp(-y * input)), y = 1 or -1
class TENON_API SoftMarginLoss : public Module {
 public:
  explicit SoftMarginLoss(Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& input, const Tensor& y) const;
  TENON_MODULE(SoftMarginLoss)

 private:
  Reduction reduction_;
};

}  // namespace nn

/// CrossEntropyLoss as a function.
TENON_API Tensor cross_entropy(const Tensor& input, const Tensor& target,
                               const nn::CrossEntropyOptions& options = {});

}  // namespace tenon
