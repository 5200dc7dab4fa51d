// The loss of connectionist temporal classification.
//
// Problem: the probability of a sequence of labels, given probabilities of labels and of "blank" at
// each step, summed over all ways to stretch it.
// Model and method: the recursions forward and backward over the labels with blanks between them,
// in logarithms (Graves, Fernandez, Gomez and Schmidhuber, 2006). Cost: O(steps * labels) a sample.
#include "core/sym/sym_int.h"
#include "core/threads/thread_pool.h"
#include "ops/kernel_loops.h"
#include "ops/nn/reduction.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tenon::ops {

namespace {

constexpr double impossible = -std::numeric_limits<double>::infinity();

double log_sum(double a, double b) {
  double top = std::max(a, b);
  return top == impossible ? top : top + std::log(std::exp(a - top) + std::exp(b - top));
}
double log_sum(double a, double b, double c) { return log_sum(log_sum(a, b), c); }

using Lengths = std::vector<int64_t>;

/// The samples of a call in plain numbers.
struct Samples {
  Tensor log_probs;  ///< steps, samples, classes; f64, contiguous
  std::vector<int64_t> labels, first;
  Lengths steps, n_labels;
  int64_t blank, n_steps, n_samples, n_classes;

  double at(int64_t t, int64_t sample, int64_t label) const {
    return data_of<double>(log_probs)[(t * n_samples + sample) * n_classes + label];
  }
  /// Label s of the sequence with blanks between, before and behind.
  int64_t label(int64_t sample, int64_t s) const {
    auto begin = first[static_cast<size_t>(sample)];
    return s % 2 == 0 ? blank : labels[static_cast<size_t>(begin + s / 2)];
  }
  /// Whether s may follow s - 2: other labels need no blank between them.
  bool may_skip(int64_t sample, int64_t s) const {
    return s % 2 == 1 && s >= 3 && label(sample, s) != label(sample, s - 2);
  }
};

Lengths numbers_of(const Tensor& t) { return to(t, Dtype::i64).to_vector<int64_t>(); }

void check_steps(IntList lengths, SymInt n_steps) {
  for (size_t i = 0; i < lengths.size(); ++i)
    require(lengths[i] >= 0 && expect_true(n_steps >= lengths[i]),
            "ctc_loss: input_lengths[{}] must be at most {}, found {}", i, n_steps, lengths[i]);
}

/// The targets of each sample: in a row each, or one behind the other.
void check_labels(IntList lengths, const Tensor& targets) {
  SymInt left = targets.size(-1);
  for (size_t i = 0; i < lengths.size(); ++i) {
    require(
        lengths[i] >= 0 && expect_true(left >= lengths[i]),
        "ctc_loss: target_lengths[{}] must be at most {}, as many targets as are there, found {}",
        i, left, lengths[i]);
    if (targets.dim() == 1) left = left - lengths[i];
  }
}

/// Where the labels of each sample begin; what pads a row is not looked at.
void place_labels(Samples& s, const Tensor& targets) {
  bool rows = targets.dim() == 2;
  auto n_given = static_cast<int64_t>(s.labels.size());
  int64_t width = rows ? int64_t(targets.size(1)) : n_given, next = 0;
  for (size_t i = 0; i < s.n_labels.size(); ++i) {
    int64_t n = s.n_labels[i];
    s.first.push_back(rows ? static_cast<int64_t>(i) * width : next);
    next += n;
    for (int64_t k = 0; k < n; ++k) {
      int64_t label = s.labels[static_cast<size_t>(s.first[i] + k)];
      require(label >= 0 && label < s.n_classes, "ctc_loss: target {} is not one of {} classes",
              label, s.n_classes);
    }
  }
}

Samples samples_of(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                   const Tensor& target_lengths, int64_t blank) {
  Samples s{contiguous_of(converted(log_probs, Dtype::f64)),
            numbers_of(targets),
            {},
            numbers_of(input_lengths),
            numbers_of(target_lengths),
            blank,
            log_probs.size(0),
            log_probs.size(1),
            log_probs.size(2)};
  check_steps(s.steps, log_probs.size(0));
  check_labels(s.n_labels, targets);
  place_labels(s, targets);
  return s;
}

/// alpha[t][s]: ways of the first steps that end at label s with step t.
std::vector<double> forward_of(const Samples& x, int64_t sample) {
  int64_t n = x.steps[static_cast<size_t>(sample)];
  int64_t m = 2 * x.n_labels[static_cast<size_t>(sample)] + 1;
  std::vector<double> alpha(static_cast<size_t>(n * m), impossible);
  auto at = [&](int64_t t, int64_t s) -> double& { return alpha[static_cast<size_t>(t * m + s)]; };
  for (int64_t t = 0; t < n; ++t)
    for (int64_t s = 0; s < m; ++s) {
      double before = t == 0 ? (s < 2 ? 0.0 : impossible)
                             : log_sum(at(t - 1, s), s >= 1 ? at(t - 1, s - 1) : impossible,
                                       x.may_skip(sample, s) ? at(t - 1, s - 2) : impossible);
      at(t, s) = before + x.at(t, sample, x.label(sample, s));
    }
  return alpha;
}

/// beta[t][s]: ways of the steps from t on, that begin at label s with step t.
std::vector<double> backward_of(const Samples& x, int64_t sample) {
  int64_t n = x.steps[static_cast<size_t>(sample)];
  int64_t m = 2 * x.n_labels[static_cast<size_t>(sample)] + 1;
  std::vector<double> beta(static_cast<size_t>(n * m), impossible);
  auto at = [&](int64_t t, int64_t s) -> double& { return beta[static_cast<size_t>(t * m + s)]; };
  for (int64_t t = n; t-- > 0;)
    for (int64_t s = m; s-- > 0;) {
      bool skips = s + 2 < m && x.may_skip(sample, s + 2);
      double after = t == n - 1 ? (s >= m - 2 ? 0.0 : impossible)
                                : log_sum(at(t + 1, s), s + 1 < m ? at(t + 1, s + 1) : impossible,
                                          skips ? at(t + 1, s + 2) : impossible);
      at(t, s) = after + x.at(t, sample, x.label(sample, s));
    }
  return beta;
}

double loss_of(const Samples& x, int64_t sample, const std::vector<double>& alpha) {
  int64_t n = x.steps[static_cast<size_t>(sample)];
  int64_t labels = x.n_labels[static_cast<size_t>(sample)], m = 2 * labels + 1;
  if (n == 0) return labels == 0 ? 0 : -impossible;
  auto end = alpha.end();
  return -(m == 1 ? end[-1] : log_sum(end[-1], end[-2]));
}

void check_shapes(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                  const Tensor& target_lengths, int64_t blank) {
  require(log_probs.dim() == 3 && is_floating(log_probs.dtype()),
          "_ctc_loss: log_probs of shape [steps, samples, classes] are expected, found {}",
          log_probs);
  require(targets.dim() == 1 || targets.dim() == 2,
          "_ctc_loss: targets in one row or in a row a sample are expected, found {}", targets);
  SymInt n_samples = log_probs.size(1);
  require(targets.dim() == 1 || sizes_match(targets.size(0), n_samples),
          "ctc_loss: targets must have a row for each of {} samples, found shape {}", n_samples,
          targets.sizes());
  for (const Tensor* t : {&targets, &input_lengths, &target_lengths})
    require(is_integral(t->dtype()), "ctc_loss: targets and lengths must be integers, found {}",
            *t);
  for (const Tensor* t : {&input_lengths, &target_lengths})
    require(t->dim() == 1 && sizes_match(t->size(0), n_samples),
            "ctc_loss: {} samples need as many input_lengths and target_lengths, found shapes {} "
            "and {}",
            n_samples, input_lengths.sizes(), target_lengths.sizes());
  require(blank >= 0 && expect_true(log_probs.size(2) > blank),
          "_ctc_loss: blank must be a class, found {}", blank);
}

/// The losses, and alpha for as many labels as targets could hold.
std::array<TensorMeta, 2> losses_metas(const Tensor& log_probs, const Tensor& targets,
                                       const Tensor& input_lengths, const Tensor& target_lengths,
                                       int64_t blank, bool) {
  check_shapes(log_probs, targets, input_lengths, target_lengths, blank);
  SymInt states = targets.size(-1) * 2 + 1;
  Dtype dtype = log_probs.dtype();
  return {
      contiguous_meta({log_probs.size(1)}, dtype, log_probs.device()),
      contiguous_meta({log_probs.size(1), log_probs.size(0), states}, dtype, log_probs.device())};
}

void losses_kernel(Tensor& out, Tensor& log_alpha, const Tensor& log_probs, const Tensor& targets,
                   const Tensor& input_lengths, const Tensor& target_lengths, int64_t blank, bool) {
  Samples x = samples_of(log_probs, targets, input_lengths, target_lengths, blank);
  Tensor losses = make_tensor(contiguous_meta(out.sizes(), Dtype::f64));
  Tensor all = full(log_alpha.sizes(), impossible, Dtype::f64);
  int64_t states = log_alpha.size(2);
  parallel_for(0, x.n_samples, 1, [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i) {
      std::vector<double> alpha = forward_of(x, i);
      int64_t m = 2 * x.n_labels[static_cast<size_t>(i)] + 1;
      data_of<double>(losses)[i] = loss_of(x, i, alpha);
      for (size_t k = 0; k < alpha.size(); ++k) {
        auto t = static_cast<int64_t>(k) / m, s = static_cast<int64_t>(k) % m;
        data_of<double>(all)[(i * x.n_steps + t) * states + s] = alpha[k];
      }
    }
  });
  copy_elements(out, losses);
  copy_elements(log_alpha, all);
}

// exp(log_prob) less the share of the ways that pass each label, as torch gives it: the gradient
// with respect to what a log_softmax was taken of.
void write_gradient(const Samples& x, int64_t sample, double scale, double* to) {
  std::vector<double> alpha = forward_of(x, sample), beta = backward_of(x, sample);
  double loss = loss_of(x, sample, alpha);
  int64_t m = 2 * x.n_labels[static_cast<size_t>(sample)] + 1;
  std::vector<double> passed(static_cast<size_t>(x.n_classes));
  for (int64_t t = 0; t < x.steps[static_cast<size_t>(sample)]; ++t) {
    std::fill(passed.begin(), passed.end(), impossible);
    for (int64_t s = 0; s < m; ++s) {
      double& sum = passed[static_cast<size_t>(x.label(sample, s))];
      auto place = static_cast<size_t>(t * m + s);
      sum = log_sum(sum, alpha[place] + beta[place]);
    }
    for (int64_t c = 0; c < x.n_classes; ++c) {
      double p = x.at(t, sample, c);
      to[(t * x.n_samples + sample) * x.n_classes + c] =
          scale * (std::exp(p) - std::exp(passed[static_cast<size_t>(c)] + loss - p));
    }
  }
}

TensorMeta gradient_meta(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                         const Tensor& input_lengths, const Tensor& target_lengths,
                         const Tensor& losses, const Tensor&, int64_t blank, bool) {
  check_shapes(log_probs, targets, input_lengths, target_lengths, blank);
  for (const Tensor* t : {&grad, &losses})
    require(t->dim() == 1 && sizes_match(t->size(0), log_probs.size(1)),
            "_ctc_loss_backward: grad and neg_log_likelihood need one number for each of {} "
            "samples, found shape {}",
            log_probs.size(1), t->sizes());
  return contiguous_meta(log_probs.sizes(), log_probs.dtype(), log_probs.device());
}

void gradient_kernel(Tensor& out, const Tensor& grad, const Tensor& log_probs,
                     const Tensor& targets, const Tensor& input_lengths,
                     const Tensor& target_lengths, const Tensor& losses, const Tensor&,
                     int64_t blank, bool zero_infinity) {
  Samples x = samples_of(log_probs, targets, input_lengths, target_lengths, blank);
  std::vector<double> scale = to(grad, Dtype::f64).to_vector<double>();
  std::vector<double> loss = to(losses, Dtype::f64).to_vector<double>();
  Tensor dense = zeros(out.sizes(), Dtype::f64);
  parallel_for(0, x.n_samples, 1, [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i)
      if (!zero_infinity || !std::isinf(loss[static_cast<size_t>(i)]))
        write_gradient(x, i, scale[static_cast<size_t>(i)], data_of<double>(dense));
  });
  copy_elements(out, dense);
}

// ---- as PyTorch calls it

Tensor reduced_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                    const Tensor& target_lengths, int64_t blank, int64_t reduction,
                    bool zero_infinity) {
  check_reduction(reduction);
  bool batched = log_probs.dim() == 3;
  Tensor probs = batched ? log_probs : unsqueeze(log_probs, 1);
  Tensor rows = batched || targets.dim() == 2 ? targets : unsqueeze(targets, 0);
  Tensor losses = std::get<0>(_ctc_loss(probs, rows, reshape(input_lengths, {-1}),
                                        reshape(target_lengths, {-1}), blank, zero_infinity));
  if (zero_infinity) losses = masked_fill(losses, eq(losses, INFINITY), 0);
  if (reduction == mean_reduction)
    return mean(div(losses, clamp_min(reshape(target_lengths, {-1}), 1).to(losses.dtype())));
  if (reduction == sum_reduction) return sum(losses);
  return batched ? losses : squeeze(losses, 0);
}

// An op of its own for each number, so that it can be recorded.
Tensor as_tensor(IntList values) {
  std::vector<Tensor> numbers;
  for (int64_t v : values) numbers.push_back(scalar_tensor(v, Dtype::i64));
  return numbers.empty() ? zeros({SymInt(0)}, Dtype::i64) : stack(numbers);
}

/// Lengths as numbers are checked without a look at data.
struct PlainLengths {
  Tensor steps, labels;

  PlainLengths(const Tensor& log_probs, const Tensor& targets, IntList input_lengths,
               IntList target_lengths) {
    check_steps(input_lengths, log_probs.size(0));
    check_labels(target_lengths, targets);
    steps = as_tensor(input_lengths), labels = as_tensor(target_lengths);
  }
};

}  // namespace

static constexpr OpDef nn_ctc_loss_rows[] = {
    {.schema = "_ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor "
               "target_lengths, int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)",
     .meta = fn<losses_metas>,
     .eager = fn<losses_kernel>,
     .vjp = {{"log_probs",
              "grad, log_probs, targets, input_lengths, target_lengths, result0, result1, blank, "
              "zero_infinity",
              [](const Tensor& g, const Tensor& log_probs, const Tensor& targets,
                 const Tensor& input_lengths, const Tensor& target_lengths, const Tensor& losses,
                 const Tensor& alpha, int64_t blank, bool zero_infinity) {
                return _ctc_loss_backward(g, log_probs, targets, input_lengths, target_lengths,
                                          losses, alpha, blank, zero_infinity);
              }}}},
    {.schema = "_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] "
               "target_lengths, int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)",
     .decomp =
         [](const Tensor& log_probs, const Tensor& targets, IntList input_lengths,
            IntList target_lengths, int64_t blank, bool zero_infinity) {
           PlainLengths lengths(log_probs, targets, input_lengths, target_lengths);
           return _ctc_loss(log_probs, targets, lengths.steps, lengths.labels, blank,
                            zero_infinity);
         }},
    {.schema = "_ctc_loss_backward.Tensor(Tensor grad, Tensor log_probs, Tensor targets, Tensor "
               "input_lengths, Tensor target_lengths, Tensor neg_log_likelihood, Tensor "
               "log_alpha, int blank, bool zero_infinity=False) -> Tensor",
     .meta = fn<gradient_meta>,
     .eager = fn<gradient_kernel>,
     .linear = Without{"the gradient is asked for with one loss a sample"}},
    {.schema = "ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor "
               "target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
     .decomp = fn<reduced_loss>,
     .autocast = Autocast::fp32},
    {.schema = "ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] "
               "target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
     .decomp =
         [](const Tensor& log_probs, const Tensor& targets, IntList input_lengths,
            IntList target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
           PlainLengths lengths(log_probs, targets, input_lengths, target_lengths);
           return reduced_loss(log_probs, targets, lengths.steps, lengths.labels, blank, reduction,
                               zero_infinity);
         },
     .autocast = Autocast::fp32},
};

extern constinit const OpFamily op_family_nn_ctc_loss{nn_ctc_loss_rows};

}  // namespace tenon::ops
