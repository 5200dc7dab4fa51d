// Losses as modules over their ops.
#include <tenon/nn/loss.h>
#include <tenon/ops/nn.h>

namespace tenon {

Tensor cross_entropy(const Tensor& input, const Tensor& target,
                     const nn::CrossEntropyOptions& options) {
  return cross_entropy_loss(input, target, options.weight, static_cast<int64_t>(options.reduction),
                            options.ignore_index, options.label_smoothing);
}

namespace nn {
namespace {

int64_t number_of(Reduction reduction) { return static_cast<int64_t>(reduction); }

Reduction checked(std::string_view loss, Reduction reduction) {
  require(reduction != Reduction::batch_mean, "{}: batch_mean is a reduction of KLDivLoss only",
          loss);
  return reduction;
}

}  // namespace

CrossEntropyLoss::CrossEntropyLoss(CrossEntropyOptions options)
    : weight(options.weight),
      ignore_index_(options.ignore_index),
      reduction_(checked("CrossEntropyLoss", options.reduction)),
      label_smoothing_(options.label_smoothing) {}

Tensor CrossEntropyLoss::forward(const Tensor& input, const Tensor& target) const {
  return cross_entropy(input, target, {weight, ignore_index_, reduction_, label_smoothing_});
}

NLLLoss::NLLLoss(NLLOptions options)
    : weight(options.weight),
      ignore_index_(options.ignore_index),
      reduction_(checked("NLLLoss", options.reduction)) {}

Tensor NLLLoss::forward(const Tensor& input, const Tensor& target) const {
  return nll_loss_nd(input, target, weight, number_of(reduction_), ignore_index_);
}

MSELoss::MSELoss(Reduction reduction) : reduction_(checked("MSELoss", reduction)) {}
Tensor MSELoss::forward(const Tensor& input, const Tensor& target) const {
  return mse_loss(input, target, number_of(reduction_));
}

L1Loss::L1Loss(Reduction reduction) : reduction_(checked("L1Loss", reduction)) {}
Tensor L1Loss::forward(const Tensor& input, const Tensor& target) const {
  return l1_loss(input, target, number_of(reduction_));
}

SmoothL1Loss::SmoothL1Loss(Reduction reduction, double beta)
    : reduction_(checked("SmoothL1Loss", reduction)), beta_(beta) {}
Tensor SmoothL1Loss::forward(const Tensor& input, const Tensor& target) const {
  return smooth_l1_loss(input, target, number_of(reduction_), beta_);
}

HuberLoss::HuberLoss(Reduction reduction, double delta)
    : reduction_(checked("HuberLoss", reduction)), delta_(delta) {}
Tensor HuberLoss::forward(const Tensor& input, const Tensor& target) const {
  return huber_loss(input, target, number_of(reduction_), delta_);
}

BCEWithLogitsLoss::BCEWithLogitsLoss(BCEWithLogitsOptions options)
    : weight(options.weight),
      pos_weight(options.pos_weight),
      reduction_(checked("BCEWithLogitsLoss", options.reduction)) {}
Tensor BCEWithLogitsLoss::forward(const Tensor& input, const Tensor& target) const {
  return binary_cross_entropy_with_logits(input, target, weight, pos_weight, number_of(reduction_));
}

BCELoss::BCELoss(BCEOptions options)
    : weight(options.weight), reduction_(checked("BCELoss", options.reduction)) {}
Tensor BCELoss::forward(const Tensor& input, const Tensor& target) const {
  return binary_cross_entropy(input, target, weight, number_of(reduction_));
}

KLDivLoss::KLDivLoss(Reduction reduction, bool log_target)
    : reduction_(reduction), log_target_(log_target) {}
Tensor KLDivLoss::forward(const Tensor& input, const Tensor& target) const {
  if (reduction_ != Reduction::batch_mean)
    return kl_div(input, target, number_of(reduction_), log_target_);
  return kl_div(input, target, number_of(Reduction::sum), log_target_).div(input.size(0));
}

MarginRankingLoss::MarginRankingLoss(double margin, Reduction reduction)
    : margin_(margin), reduction_(checked("MarginRankingLoss", reduction)) {}
Tensor MarginRankingLoss::forward(const Tensor& first, const Tensor& second,
                                  const Tensor& y) const {
  return margin_ranking_loss(first, second, y, margin_, number_of(reduction_));
}

HingeEmbeddingLoss::HingeEmbeddingLoss(double margin, Reduction reduction)
    : margin_(margin), reduction_(checked("HingeEmbeddingLoss", reduction)) {}
Tensor HingeEmbeddingLoss::forward(const Tensor& input, const Tensor& y) const {
  return hinge_embedding_loss(input, y, margin_, number_of(reduction_));
}

CosineEmbeddingLoss::CosineEmbeddingLoss(double margin, Reduction reduction)
    : margin_(margin), reduction_(checked("CosineEmbeddingLoss", reduction)) {}
Tensor CosineEmbeddingLoss::forward(const Tensor& first, const Tensor& second,
                                    const Tensor& y) const {
  return cosine_embedding_loss(first, second, y, margin_, number_of(reduction_));
}

TripletMarginLoss::TripletMarginLoss(const TripletMarginOptions& options) : options_(options) {
  checked("TripletMarginLoss", options.reduction);
}
Tensor TripletMarginLoss::forward(const Tensor& anchor, const Tensor& positive,
                                  const Tensor& negative) const {
  return triplet_margin_loss(anchor, positive, negative, options_.margin, options_.p, options_.eps,
                             options_.swap, number_of(options_.reduction));
}

CTCLoss::CTCLoss(const CTCOptions& options) : options_(options) {
  checked("CTCLoss", options.reduction);
}
Tensor CTCLoss::forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                        const Tensor& target_lengths) const {
  return ctc_loss(log_probs, targets, input_lengths, target_lengths, options_.blank,
                  number_of(options_.reduction), options_.zero_infinity);
}

PoissonNLLLoss::PoissonNLLLoss(const PoissonNLLOptions& options) : options_(options) {
  checked("PoissonNLLLoss", options.reduction);
}
Tensor PoissonNLLLoss::forward(const Tensor& input, const Tensor& target) const {
  return poisson_nll_loss(input, target, options_.log_input, options_.full, options_.eps,
                          number_of(options_.reduction));
}

SoftMarginLoss::SoftMarginLoss(Reduction reduction)
    : reduction_(checked("SoftMarginLoss", reduction)) {}
Tensor SoftMarginLoss::forward(const Tensor& input, const Tensor& y) const {
  return soft_margin_loss(input, y, number_of(reduction_));
}

}  // namespace nn
}  // namespace tenon
