// Losses of class scores against class numbers: nll_loss of two and four dimensions, cross entropy.
#include "core/sym/sym_int.h"
#include "ops/kernel_loops.h"
#include "ops/nn/reduction.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include <tenon/ops.h>

#include <limits>

namespace tenon::ops {

namespace {

// ---- nll_loss: scores [N, C, rest], targets [N, rest]

void check_weight(std::string_view op, const Tensor& weight, SymInt classes) {
  require(!weight.defined() || (weight.dim() == 1 && sizes_match(weight.size(0), classes)),
          "{}: weight must have one element for each of {} classes, found shape {}", op, classes,
          weight.defined() ? weight.sizes() : SymIntList());
}

std::array<TensorMeta, 2> loss_metas(const Tensor& self, const Tensor& target, int64_t reduction) {
  check_reduction(reduction);
  SymIntList sizes = reduction == no_reduction ? target.sizes() : SymIntList();
  Device device = self.device();
  return {contiguous_meta(sizes, self.dtype(), device), contiguous_meta({}, self.dtype(), device)};
}

std::array<TensorMeta, 2> nll_loss_meta(const Tensor& self, const Tensor& target,
                                        const Tensor& weight, int64_t reduction, SymInt) {
  require((self.dim() == 1 && target.dim() == 0) ||
              (self.dim() == 1 && target.dim() == 1 && sizes_match(target.size(0), 1)) ||
              (self.dim() == 2 && target.dim() == 1 && sizes_match(self.size(0), target.size(0))),
          "nll_loss: scores [N, C] and targets [N] are expected, found shapes {} and {}",
          self.sizes(), target.sizes());
  check_weight("nll_loss", weight, self.size(-1));
  require_floating("nll_loss", self.dtype());
  std::array<TensorMeta, 2> metas = loss_metas(self, target, reduction);
  if (self.dim() == 1) metas[0] = contiguous_meta({}, self.dtype(), self.device());
  return metas;
}

std::array<TensorMeta, 2> nll_loss2d_meta(const Tensor& self, const Tensor& target,
                                          const Tensor& weight, int64_t reduction, SymInt) {
  bool fits = self.dim() == 4 && target.dim() == 3 && sizes_match(self.size(0), target.size(0)) &&
              sizes_match(self.size(2), target.size(1)) &&
              sizes_match(self.size(3), target.size(2));
  require(
      fits,
      "nll_loss2d: scores [N, C, H, W] and targets [N, H, W] are expected, found shapes {} and {}",
      self.sizes(), target.sizes());
  check_weight("nll_loss2d", weight, self.size(1));
  require_floating("nll_loss2d", self.dtype());
  return loss_metas(self, target, reduction);
}

struct Scores {
  int64_t batch, classes, rest;
};

// Calls f(target number, weight, score) for each target that counts.
template <class T, class F>
void for_each_target(const Scores& n, const T* scores, const int64_t* targets, const T* weights,
                     int64_t ignored, const F& f) {
  using C = ComputeOf<T>;
  for (int64_t i = 0; i < n.batch * n.rest; ++i) {
    int64_t c = targets[i];
    if (c == ignored) continue;
    require(c >= 0 && c < n.classes, "nll_loss: target {} is out of bounds for {} classes", c,
            n.classes);
    C weight = weights ? static_cast<C>(weights[c]) : C(1);
    f(i, weight, static_cast<C>(scores[(i / n.rest * n.classes + c) * n.rest + i % n.rest]));
  }
}

template <class T>
void nll_typed(const Scores& n, Tensor& out, Tensor& total, const T* scores, const int64_t* targets,
               const T* weights, int64_t reduction, int64_t ignored) {
  T* to = data_of<T>(out);
  *data_of<T>(total) = T(0.0f);
  if (reduction == no_reduction) {
    std::fill_n(to, numel_of(out), T(0.0f));
    for_each_target(n, scores, targets, weights, ignored, [&](int64_t i, auto weight, auto score) {
      to[i] = static_cast<T>(-weight * score);
    });
    return;
  }
  double loss = 0, weight_sum = 0;
  for_each_target(n, scores, targets, weights, ignored, [&](int64_t, auto weight, auto score) {
    loss -= static_cast<double>(weight) * score;
    weight_sum += weight;
  });
  *to = static_cast<T>(
      static_cast<ComputeOf<T>>(reduction == mean_reduction ? loss / weight_sum : loss));
  *data_of<T>(total) = static_cast<T>(static_cast<ComputeOf<T>>(weight_sum));
}

void nll_kernel(Tensor& out, Tensor& total, const Tensor& self, const Tensor& target,
                const Tensor& weight, int64_t reduction, SymInt ignored) {
  Tensor scores = contiguous_of(self), targets = converted(target, Dtype::i64);
  Tensor weights = weight.defined() ? converted(weight, self.dtype()) : Tensor();
  IntList sizes = sizes_of(scores);
  Scores n{sizes.size() == 1 ? 1 : sizes[0], sizes.size() == 1 ? sizes[0] : sizes[1], 1};
  for (size_t d = 2; d < sizes.size(); ++d) n.rest *= sizes[d];
  dispatch_floating(self.dtype(), "nll_loss", [&]<class T>() {
    nll_typed<T>(n, out, total, data_of<T>(scores), data_of<int64_t>(targets),
                 weights.defined() ? data_of<T>(weights) : nullptr, reduction, ignored);
  });
}

// ---- any number of dimensions

using Pair = std::tuple<Tensor, Tensor>;

// The loss and the sum of weights.
Pair nll_of(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
            SymInt ignored) {
  require(self.dim() > 0, "nll_loss_nd: scores need a dimension");
  if (self.dim() <= 2) return nll_loss_forward(self, target, weight, reduction, ignored);
  if (self.dim() == 4) return nll_loss2d_forward(self, target, weight, reduction, ignored);
  Dims sizes = dims_of(target.sizes());
  SymInt rest = product(self.sizes().slice(2));
  Tensor flat = view(contiguous(self), {self.size(0), self.size(1), SymInt(1), rest});
  Tensor flat_target = view(contiguous(target), {self.size(0), SymInt(1), rest});
  auto [loss, total] = nll_loss2d_forward(flat, flat_target, weight, reduction, ignored);
  return {reduction == no_reduction ? view(loss, list_of(sizes)) : loss, total};
}

Tensor nll_loss_nd_decomp(const Tensor& self, const Tensor& target, const Tensor& weight,
                          int64_t reduction, SymInt ignored) {
  return std::get<0>(nll_of(self, target, weight, reduction, ignored));
}

// ---- cross entropy

Tensor weight_along(const Tensor& weight, const Tensor& scores, int64_t dim) {
  Dims sizes(static_cast<size_t>(scores.dim()), SymInt(1));
  sizes[static_cast<size_t>(dim)] = weight.size(0);
  return view(weight, list_of(sizes));
}

// Targets are probabilities.
Tensor soft_cross_entropy(const Tensor& logs, Tensor target, const Tensor& weight,
                          int64_t reduction, int64_t dim, double smoothing) {
  check_reduction(reduction);
  SymInt classes = logs.size(dim);
  if (smoothing > 0)
    target = add(mul(target, 1 - smoothing), smoothing / static_cast<double>(classes.guard_int()));
  Tensor loss = mul(logs, target);
  if (weight.defined()) loss = mul(loss, weight_along(weight, logs, dim));
  if (reduction == no_reduction) return neg(sum(loss, {dim}));
  Tensor total = neg(sum(loss));
  if (reduction == sum_reduction) return total;
  if (guard_or_false(logs.numel() == 0))
    return fill(total, std::numeric_limits<double>::quiet_NaN());
  return div(total, logs.numel() / classes);
}

// A share of the loss is spread over all classes.
Tensor smoothed_cross_entropy(const Tensor& logs, const Tensor& target, const Tensor& weight,
                              int64_t reduction, SymInt ignored, int64_t dim, double smoothing) {
  auto [hard, total_weight] = nll_of(logs, target, weight, reduction, ignored);
  Tensor spread = weight.defined() ? mul(logs, weight_along(weight, logs, dim)) : logs;
  Tensor soft = neg(sum(spread, {dim}));
  soft = where(eq(target, ignored), zeros_like(soft), soft);
  if (reduction == sum_reduction) soft = sum(soft);
  if (reduction == mean_reduction) soft = div(sum(soft), total_weight);
  double share = smoothing / static_cast<double>(logs.size(dim).guard_int());
  return add(mul(soft, share), mul(hard, 1 - smoothing));
}

Tensor cross_entropy_decomp(const Tensor& self, const Tensor& target, const Tensor& weight,
                            int64_t reduction, SymInt ignored, double smoothing) {
  require(smoothing >= 0 && smoothing <= 1,
          "cross_entropy_loss: label_smoothing must lie in [0, 1], found {}", smoothing);
  require(self.dim() > 0, "cross_entropy_loss: scores need a dimension");
  int64_t dim = self.dim() == 1 ? 0 : 1;
  Tensor logs = log_softmax(self, dim, self.dtype());
  if (is_floating(target.dtype()) && target.dim() == self.dim())
    return soft_cross_entropy(logs, target, weight, reduction, dim, smoothing);
  if (smoothing > 0)
    return smoothed_cross_entropy(logs, target, weight, reduction, ignored, dim, smoothing);
  return nll_loss_nd(logs, target, weight, reduction, ignored);
}

}  // namespace

static constexpr OpDef nn_class_loss_rows[] = {
    {.schema = "nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, "
               "SymInt ignore_index) -> (Tensor output, Tensor total_weight)",
     .meta = fn<nll_loss_meta>,
     .eager = fn<nll_kernel>,
     .vjp = {{"self", "grad, self, target, weight, reduction, ignore_index, result1",
              fn<nll_loss_backward>}}},
    {.schema = "nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, "
               "SymInt ignore_index) -> (Tensor output, Tensor total_weight)",
     .meta = fn<nll_loss2d_meta>,
     .eager = fn<nll_kernel>,
     .vjp = {{"self", "grad, self, target, weight, reduction, ignore_index, result1",
              fn<nll_loss2d_backward>}}},
    {.schema = "nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
               "SymInt ignore_index=-100) -> Tensor",
     .decomp =
         [](const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
            SymInt ignored) {
           return std::get<0>(nll_loss_forward(self, target, weight, reduction, ignored));
         },
     .autocast = Autocast::fp32},
    {.schema = "nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
               "SymInt ignore_index=-100) -> Tensor",
     .decomp =
         [](const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
            SymInt ignored) {
           return std::get<0>(nll_loss2d_forward(self, target, weight, reduction, ignored));
         },
     .autocast = Autocast::fp32},
    {.schema = "nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
               "SymInt ignore_index=-100) -> Tensor",
     .decomp = fn<nll_loss_nd_decomp>,
     .autocast = Autocast::fp32},
    {.schema =
         "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
         "SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor",
     .decomp = fn<cross_entropy_decomp>,
     .autocast = Autocast::fp32},
};

extern constinit const OpFamily op_family_nn_class_loss{nn_class_loss_rows};

}  // namespace tenon::ops
