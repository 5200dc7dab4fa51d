// Derivatives of losses, and the margin losses of classes with theirs.
#include "core/sym/sym_int.h"
#include "ops/index/advanced_index.h"
#include "ops/kernel_loops.h"
#include "ops/linalg/product.h"
#include "ops/nn/reduction.h"
#include "ops/op.h"
#include "ops/shape_check.h"
#include "ops/vjp_rules.h"

#include <tenon/ops.h>

#include <cmath>

namespace tenon::ops {

namespace {

Dtype compute_dtype(const Tensor& t) { return t.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32; }
Tensor wide(const Tensor& t) { return to(t, compute_dtype(t)); }

// A mean shares the gradient out among all elements.
Tensor shared(const Tensor& grad, SymInt n, int64_t reduction) {
  check_reduction(reduction);
  Tensor g = wide(grad);
  return reduction == mean_reduction ? div(g, Number(n)) : g;
}

// ---- pointwise losses

Tensor mse_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                    int64_t reduction) {
  Tensor g = shared(grad, self.numel(), reduction);
  return to(mul(mul(sub(wide(self), wide(target)), 2.0), g), self.dtype());
}

Tensor smooth_l1_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                          int64_t reduction, double beta) {
  Tensor g = shared(grad, self.numel(), reduction), x = sub(wide(self), wide(target));
  Tensor inside = lt(abs(x), beta);
  Tensor bent = beta == 0 ? zeros_like(x) : div(x, beta);
  return to(mul(where(inside, bent, sign(x)), g), self.dtype());
}

Tensor huber_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                      int64_t reduction, double delta) {
  Tensor g = shared(grad, self.numel(), reduction), x = sub(wide(self), wide(target));
  return to(mul(clamp(x, -delta, delta), g), self.dtype());
}

Tensor binary_cross_entropy_backward_of(const Tensor& grad, const Tensor& self,
                                        const Tensor& target, const Tensor& weight,
                                        int64_t reduction) {
  Tensor g = shared(grad, self.numel(), reduction), x = wide(self);
  Tensor spread = clamp_min(mul(rsub(x, 1), x), 1e-12);
  Tensor out = div(mul(g, sub(x, wide(target))), spread);
  if (weight.defined()) out = mul(out, wide(weight));
  return to(out, self.dtype());
}

// ---- nll_loss: scores [N, C, rest], targets [N, rest]

TensorMeta nll_backward_meta(const Tensor& grad, const Tensor& self, const Tensor& target,
                             const Tensor& weight, int64_t reduction, SymInt,
                             const Tensor& total_weight) {
  check_reduction(reduction);
  require(self.dim() >= 1, "nll_loss_backward: scores need a dimension of classes, found none");
  Dims positions = dims_of(self.sizes());
  SymInt classes = positions[positions.size() == 1 ? 0 : 1];
  positions.erase(positions.size() == 1 ? 0 : 1);
  SymInt n = product(list_of(positions));
  require(sizes_match(target.numel(), n) &&
              sizes_match(grad.numel(), reduction == no_reduction ? n : SymInt(1)),
          "nll_loss_backward: scores {}, targets {} and gradient {} do not belong together",
          self.sizes(), target.sizes(), grad.sizes());
  if (weight.defined()) require_shape("nll_loss_backward", "weight", weight, {classes});
  require(reduction != mean_reduction || sizes_match(total_weight.numel(), 1),
          "nll_loss_backward: total_weight must have one element, found shape {}",
          total_weight.sizes());
  return contiguous_meta(self.sizes(), self.dtype(), self.device());
}

void nll_backward_kernel(Tensor& out, const Tensor& grad, const Tensor& self, const Tensor& target,
                         const Tensor& weight, int64_t reduction, SymInt ignored,
                         const Tensor& total_weight) {
  fill_elements(out, 0);
  Tensor g = contiguous_of(converted(grad, Dtype::f64)),
         targets = contiguous_of(converted(target, Dtype::i64));
  Tensor weights = weight.defined() ? contiguous_of(converted(weight, Dtype::f64)) : Tensor();
  IntList sizes = sizes_of(out);
  int64_t classes = sizes.size() == 1 ? sizes[0] : sizes[1], rest = 1, skipped = ignored;
  for (size_t d = 2; d < sizes.size(); ++d) rest *= sizes[d];
  double total = reduction == mean_reduction
                     ? load_number(data_of<char>(total_weight), total_weight.dtype()).to_double()
                     : 1.0;
  for (int64_t i = 0; i < numel_of(targets); ++i) {
    int64_t c = data_of<int64_t>(targets)[i];
    if (c == skipped) continue;
    require(c >= 0 && c < classes, "nll_loss_backward: target {} is out of bounds for {} classes",
            c, classes);
    double w = weights.defined() ? data_of<double>(weights)[c] : 1.0;
    double from = data_of<double>(g)[reduction == no_reduction ? i : 0];
    int64_t at = (i / rest * classes + c) * rest + i % rest;
    store_number(data_of<char>(out) + at * itemsize(self.dtype()), self.dtype(), -w * from / total);
  }
}

// ---- multi_margin_loss: the right class should lead by the margin

struct Margins {
  Tensor excess, is_right, target;  // [N, C], [N, C], [N, 1]
  SymInt classes;
};

Tensor as_rows(const Tensor& t) { return t.dim() == 2 ? t : reshape(t, {1, -1}); }

Margins margins_of(const Tensor& self, const Tensor& target, double margin) {
  Margins m;
  Tensor x = wide(as_rows(self));
  m.classes = x.size(1);
  m.target = classes_within(reshape(target, {-1, 1}), m.classes);
  m.excess = clamp_min(add(sub(x, gather(x, 1, m.target)), margin), 0);
  Tensor classes = arange(Number(m.classes), std::nullopt, std::nullopt, self.device());
  m.is_right = eq(unsqueeze(classes, 0), m.target);
  return m;
}

Tensor weight_by_target(const Tensor& weight, const Margins& m) {
  return index_select(wide(weight), 0, reshape(m.target, {-1}));
}

void check_power(Number p) {
  require(p.to_double() == 1 || p.to_double() == 2, "multi_margin_loss: p must be 1 or 2, found {}",
          p);
}

Tensor multi_margin(const Tensor& self, const Tensor& target, Number p, Number margin,
                    const Tensor& weight, int64_t reduction) {
  check_power(p);
  Margins m = margins_of(self, target, margin.to_double());
  Tensor cost = p.to_double() == 2 ? mul(m.excess, m.excess) : m.excess;
  cost = div(sum(masked_fill(cost, m.is_right, 0), {1}), Number(m.classes));
  if (weight.defined()) cost = mul(cost, weight_by_target(weight, m));
  cost = reduced(cost, reduction);
  if (reduction == no_reduction && target.dim() == 0) cost = reshape(cost, SymIntList());
  return to(cost, self.dtype());
}

Tensor multi_margin_backward(const Tensor& grad, const Tensor& self, const Tensor& target, Number p,
                             Number margin, const Tensor& weight, int64_t reduction) {
  check_power(p);
  Margins m = margins_of(self, target, margin.to_double());
  Tensor slope = p.to_double() == 2 ? mul(m.excess, 2.0) : to(gt(m.excess, 0), m.excess.dtype());
  slope = div(masked_fill(slope, m.is_right, 0), Number(m.classes));
  if (weight.defined()) slope = mul(slope, unsqueeze(weight_by_target(weight, m), 1));
  slope = where(m.is_right, neg(sum(slope, {1}, true)), slope);
  Tensor g = shared(grad, m.target.numel(), reduction);
  if (g.dim() == 1) g = unsqueeze(g, 1);
  return to(reshape(mul(slope, g), self.sizes()), self.dtype());
}

// ---- multilabel_margin_loss: each right class should lead each other one by 1

std::array<TensorMeta, 2> multilabel_metas(const Tensor& self, const Tensor& target,
                                           int64_t reduction) {
  check_reduction(reduction);
  require(self.dim() <= 2 && sizes_match(self.numel(), target.numel()),
          "multilabel_margin_loss: scores and targets of one shape are expected, found {} and {}",
          self.sizes(), target.sizes());
  require(is_floating(self.dtype()) && target.dtype() == Dtype::i64,
          "multilabel_margin_loss: floating scores and i64 targets are expected, found {} and {}",
          self.dtype(), target.dtype());
  Dims loss;
  if (reduction == no_reduction && self.dim() == 2) loss.push_back(self.size(0));
  return {contiguous_meta(list_of(loss), self.dtype(), self.device()),
          contiguous_meta(target.sizes(), self.dtype(), self.device())};
}

struct Labels {
  Tensor scores, targets;
  int64_t rows, classes;
  const double* row(int64_t i) const { return data_of<double>(scores) + i * classes; }
  // The targets of a row, which end at the first negative one.
  std::vector<int64_t> right(int64_t i) const {
    std::vector<int64_t> found;
    const int64_t* at = data_of<int64_t>(targets) + i * classes;
    for (int64_t k = 0; k < classes && at[k] >= 0; ++k) {
      require(at[k] < classes, "multilabel_margin_loss: target {} is out of bounds for {} classes",
              at[k], classes);
      found.push_back(at[k]);
    }
    return found;
  }
};

Labels labels_of(const Tensor& self, const Tensor& target) {
  Labels l{contiguous_of(converted(self, Dtype::f64)), contiguous_of(converted(target, Dtype::i64)),
           1, 1};
  if (self.dim() > 0) l.classes = sizes_of(self).back();
  if (self.dim() == 2) l.rows = sizes_of(self)[0];
  return l;
}

// Calls f(row, right class, other class, how much the lead falls short).
template <class F>
void for_each_shortfall(const Labels& l, const F& f) {
  for (int64_t i = 0; i < l.rows; ++i) {
    std::vector<int64_t> right = l.right(i);
    std::vector<bool> is_right(static_cast<size_t>(l.classes));
    for (int64_t c : right) is_right[static_cast<size_t>(c)] = true;
    for (int64_t c : right)
      for (int64_t d = 0; d < l.classes; ++d)
        if (double z = 1 - l.row(i)[c] + l.row(i)[d]; !is_right[static_cast<size_t>(d)] && z > 0)
          f(i, c, d, z);
  }
}

void multilabel_kernel(Tensor& out, Tensor& is_target, const Tensor& self, const Tensor& target,
                       int64_t reduction) {
  Labels l = labels_of(self, target);
  Tensor sums = make_tensor(IntList{l.rows}, Dtype::f64),
         marks = make_tensor(contiguous_meta(is_target.sizes(), Dtype::f64));
  fill_elements(sums, 0);
  fill_elements(marks, 0);
  for (int64_t i = 0; i < l.rows; ++i)
    for (int64_t c : l.right(i)) data_of<double>(marks)[i * l.classes + c] = 1;
  for_each_shortfall(l, [&](int64_t i, int64_t, int64_t, double z) {
    data_of<double>(sums)[i] += z / static_cast<double>(l.classes);
  });
  copy_elements(is_target, marks);
  if (reduction == no_reduction && self.dim() == 2) return copy_elements(out, sums);
  double total = 0;
  for (int64_t i = 0; i < l.rows; ++i) total += data_of<double>(sums)[i];
  fill_elements(out, reduction == mean_reduction ? total / static_cast<double>(l.rows) : total);
}

TensorMeta multilabel_backward_meta(const Tensor& grad, const Tensor& self, const Tensor& target,
                                    int64_t reduction, const Tensor&) {
  TensorMeta loss = multilabel_metas(self, target, reduction)[0];
  require_shape("multilabel_margin_loss_backward", "grad_output", grad, list_of(loss.sizes));
  require_same_dtype("multilabel_margin_loss_backward", grad, self);
  return contiguous_meta(self.sizes(), self.dtype(), self.device());
}

void multilabel_backward_kernel(Tensor& out, const Tensor& grad, const Tensor& self,
                                const Tensor& target, int64_t reduction, const Tensor&) {
  Labels l = labels_of(self, target);
  Tensor g = contiguous_of(converted(grad, Dtype::f64)),
         sums = make_tensor(contiguous_meta(out.sizes(), Dtype::f64));
  fill_elements(sums, 0);
  double share = static_cast<double>(l.classes) *
                 (reduction == mean_reduction ? static_cast<double>(l.rows) : 1.0);
  for_each_shortfall(l, [&](int64_t i, int64_t c, int64_t d, double) {
    double from = data_of<double>(g)[numel_of(g) > 1 ? i : 0] / share;
    data_of<double>(sums)[i * l.classes + c] -= from;
    data_of<double>(sums)[i * l.classes + d] += from;
  });
  copy_elements(out, sums);
}

// The same as ops: [rows, targets, classes] says which right class falls short of which other one.
Tensor multilabel_backward_parts(const Tensor& grad, const Tensor& self, const Tensor& target,
                                 int64_t reduction, const Tensor& is_target) {
  if (guard_or_false(self.numel() == 0)) return zeros_like(self);
  SymInt classes = self.dim() > 0 ? self.size(-1) : SymInt(1);
  auto by_row = [&](const Tensor& t) { return reshape(t, {-1, classes}); };
  Tensor scores = by_row(self), ends = lt(by_row(target), 0);
  Tensor named = eq(cumsum(ends, 1), 0), right = clamp_min(by_row(target), 0);
  Tensor lead = sub(unsqueeze(gather(scores, 1, right), 2), unsqueeze(scores, 1));
  Tensor others = logical_and(unsqueeze(named, 2), unsqueeze(eq(by_row(is_target), 0), 1));
  Tensor short_of = to(logical_and(others, lt(lead, 1)), self.dtype());
  Tensor change = scatter_add(sum(short_of, {1}), 1, right, neg(sum(short_of, {2})));
  Tensor share = div(change, Number(classes));
  if (reduction == mean_reduction) share = div(share, Number(scores.size(0)));
  Tensor g = grad.dim() == 0 ? grad : unsqueeze(grad, 1);
  return reshape(mul(share, g), self.sizes());
}

}  // namespace

static constexpr OpDef nn_loss_backward_rows[] = {
    {.schema = "mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) "
               "-> Tensor",
     .decomp = fn<mse_backward>},
    {.schema = "smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int "
               "reduction, float beta) -> Tensor",
     .decomp = fn<smooth_l1_backward>},
    {.schema = "huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, "
               "float delta) -> Tensor",
     .decomp = fn<huber_backward>},
    {.schema = "binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, "
               "Tensor? weight=None, int reduction=1) -> Tensor",
     .decomp = fn<binary_cross_entropy_backward_of>},
    {.schema = "nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, "
               "int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor",
     .meta = fn<nll_backward_meta>,
     .eager = fn<nll_backward_kernel>,
     .vjp = {{"grad_output", "grad, target, weight, reduction, ignore_index",
              [](const Tensor& g, const Tensor& target, const Tensor& weight, int64_t reduction,
                 SymInt ignore) {
                return std::get<0>(nll_loss_forward(g, target, weight, reduction, ignore));
              }},
             {"self", "grad", no_gradient}}},
    {.schema = "nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? "
               "weight, int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor",
     .meta = fn<nll_backward_meta>,
     .eager = fn<nll_backward_kernel>,
     .vjp = {{"grad_output", "grad, target, weight, reduction, ignore_index",
              [](const Tensor& g, const Tensor& target, const Tensor& weight, int64_t reduction,
                 SymInt ignore) {
                return std::get<0>(nll_loss2d_forward(g, target, weight, reduction, ignore));
              }},
             {"self", "grad", no_gradient}}},
    {.schema = "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? "
               "weight=None, int reduction=1) -> Tensor",
     .decomp = fn<multi_margin>,
     .autocast = Autocast::fp32},
    {.schema = "multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, Scalar "
               "p, Scalar margin, Tensor? weight=None, int reduction=1) -> Tensor",
     .decomp = fn<multi_margin_backward>},
    {.schema = "multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> "
               "(Tensor output, Tensor is_target)",
     .meta = fn<multilabel_metas>,
     .eager = fn<multilabel_kernel>,
     .vjp = {{"self", "grad, self, target, reduction, result1",
              fn<multilabel_margin_loss_backward>}},
     .autocast = Autocast::fp32},
    {.schema = "multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
     .decomp =
         [](const Tensor& self, const Tensor& target, int64_t reduction) {
           return std::get<0>(multilabel_margin_loss_forward(self, target, reduction));
         },
     .autocast = Autocast::fp32},
    {.schema = "multilabel_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, "
               "int reduction, Tensor is_target) -> Tensor",
     .core = true,
     .meta = fn<multilabel_backward_meta>,
     .eager = fn<multilabel_backward_kernel>,
     .decomp = fn<multilabel_backward_parts>},
};

extern constinit const OpFamily op_family_nn_loss_backward{nn_loss_backward_rows};

}  // namespace tenon::ops
