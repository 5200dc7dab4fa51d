// Scores, their softmax, and what they weigh.
#include "attention_steps.h"

#include <limits>

namespace inductor_cuda {

using loopir::Attention;
using loopir::AttentionGradient;
using loopir::Fold;
using loopir::Product;
using loopir::View;

namespace {

constexpr double lowest = -std::numeric_limits<double>::infinity();

}  // namespace

View AttentionSteps::batched(const View& v, const std::string& name) {
  Id heads = x_.multiply(v.sizes[1], v.strides[1]);
  bool is_one = v.strides[0] == heads || x_.is(v.sizes[0], 1);
  if (x_.is(v.sizes[1], 1))
    return {v.buffer,
            v.offset,
            {v.sizes[0], v.sizes[2], v.sizes[3]},
            {v.strides[0], v.strides[2], v.strides[3]}};
  if (is_one)
    return {v.buffer,
            v.offset,
            {x_.multiply(v.sizes[0], v.sizes[1]), v.sizes[2], v.sizes[3]},
            {v.strides[1], v.strides[2], v.strides[3]}};
  View copy = l_.temporary(l_.dtype_of(v), v.sizes, name);
  Ids own = l_.variables(v.sizes);
  l_.store(copy, own, l_.at(v, own), name);
  return batched(copy, name);
}

Id AttentionSteps::multiplied(const Attention& a, Id score) {
  int32_t dtype = x_.dtype_of(score);
  return a.factor == loopir::none ? score
                                  : x_.apply(TN_F_MUL, dtype, score, x_.cast(a.factor, dtype));
}

Id AttentionSteps::masked(const Attention& a, Id score, const Ids& i) {
  int32_t dtype = x_.dtype_of(score);
  score = multiplied(a, score);
  Id low = x_.number(lowest, dtype);
  if (a.is_causal) {
    Id is_seen = x_.apply(TN_F_LE, TN_BOOL, x_.index_value(i[3]), x_.index_value(i[2]));
    score = x_.apply(TN_F_SELECT, dtype, is_seen, score, low);
  }
  if (!a.mask) return score;
  Id mask = l_.at(*a.mask, i);
  if (a.mask_dtype == TN_BOOL) return x_.apply(TN_F_SELECT, dtype, mask, score, low);
  return x_.apply(TN_F_ADD, dtype, score, x_.cast(mask, dtype));
}

// Rows whose largest score is -infinity have no key: their exponentials are all 0.
View AttentionSteps::softmax(const Attention& a, const View& scores, int32_t dtype) {
  int32_t sums = l_.dtype_of(scores);
  const Ids& sizes = scores.sizes;
  Ids of_rows{sizes[0], sizes[1], sizes[2]};
  auto split = [&] {
    Ids i = l_.variables(sizes);
    return std::pair(i, Ids{i[0], i[1], i[2]});
  };
  auto fold = [&](Fold how, auto&& value) {
    auto [i, row] = split();
    return l_.fold(how, of_rows, row, {i[3]}, value(i, row), sums, a.name);
  };
  auto score = [&](const Ids& i) { return masked(a, l_.at(scores, i), i); };
  View largest = fold(Fold::maximum, [&](const Ids& i, const Ids&) { return score(i); });
  auto exponential = [&](const Ids& i, const Ids& row) {
    Id most = l_.at(largest, row), low = x_.number(lowest, sums);
    Id is_none = x_.apply(TN_F_EQ, TN_BOOL, most, low);
    Id from = x_.apply(TN_F_SELECT, sums, is_none, x_.number(0.0, sums), most);
    return x_.apply(TN_F_EXP, sums, x_.apply(TN_F_SUB, sums, score(i), from));
  };
  View total = fold(Fold::sum, exponential);
  if (a.log_sums) {
    Ids row = l_.variables(of_rows);
    Id logarithm = x_.apply(TN_F_LOG, sums, l_.at(total, row));
    Ids place = row;
    place.push_back(x_.constant(0));
    l_.store(*a.log_sums, place, x_.apply(TN_F_ADD, sums, l_.at(largest, row), logarithm), a.name);
  }
  View out = l_.temporary(dtype, sizes, a.name);
  auto [i, row] = split();
  Id sum = l_.at(total, row), zero = x_.number(0.0, sums);
  Id share = x_.apply(TN_F_DIV, sums, exponential(i, row), sum);
  Id is_empty = x_.apply(TN_F_EQ, TN_BOOL, sum, zero);
  l_.store(out, i, x_.apply(TN_F_SELECT, sums, is_empty, zero, share), a.name);
  return out;
}

namespace {

View turned(View v) {
  std::swap(v.sizes[1], v.sizes[2]);
  std::swap(v.strides[1], v.strides[2]);
  return v;
}

}  // namespace

/// result = alpha * left x right, of batches of matrices.
void AttentionSteps::multiply(const View& left, const View& right, const View& result, double alpha,
                              const std::string& name) {
  Product p;
  p.name = name;
  p.alpha = alpha;
  p.left = left, p.right = right, p.result = result;
  add_product_(std::move(p));
}

View AttentionSteps::scores_of(const Attention& a) {
  const Ids& q = a.query.sizes;
  View scores =
      l_.temporary(summed_in(l_.dtype_of(a.query)), {q[0], q[1], q[2], a.key.sizes[2]}, a.name);
  multiply(batched(a.query, a.name), turned(batched(a.key, a.name)), batched(scores, a.name),
           a.scale, a.name);
  return scores;
}

/// The product as a tensor of its own, then in its place.
void AttentionSteps::store_product(const View& left, const View& right, const View& to,
                                   const std::string& name) {
  View made = l_.temporary(l_.dtype_of(to), to.sizes, name);
  multiply(left, right, batched(made, name), 1, name);
  Ids i = l_.variables(to.sizes);
  l_.store(to, i, l_.at(made, i), name);
}

void AttentionSteps::add(const Attention& a) {
  View weights = softmax(a, scores_of(a), l_.dtype_of(a.query));
  store_product(batched(weights, a.name), batched(a.value, a.name), a.result, a.name);
}

void AttentionSteps::add(const AttentionGradient& step) {
  const Attention& a = step.of;
  const std::string& name = step.name;
  int32_t dtype = l_.dtype_of(a.query), sums = summed_in(dtype);
  View scores = scores_of(a), gradients = l_.temporary(sums, scores.sizes, name);
  View gradient = batched(step.gradient, name);
  multiply(gradient, turned(batched(a.value, name)), batched(gradients, name), 1, name);
  auto wide = [&](Id value) { return x_.cast(value, sums); };
  Ids j = l_.variables(step.gradient.sizes),
      rows{a.query.sizes[0], a.query.sizes[1], a.query.sizes[2]};
  Id both = x_.apply(TN_F_MUL, sums, wide(l_.at(step.gradient, j)), wide(l_.at(a.result, j)));
  View level = l_.fold(Fold::sum, rows, {j[0], j[1], j[2]}, {j[3]}, both, sums, name);
  // Both factors in the operands' dtype, as the library has them.
  View shares = l_.temporary(dtype, scores.sizes, name);
  View of_scores = l_.temporary(dtype, scores.sizes, name);
  auto share = [&](const Ids& i) {
    Id row = l_.at(*a.log_sums, {i[0], i[1], i[2], x_.constant(0)});
    return x_.apply(TN_F_EXP, sums, x_.apply(TN_F_SUB, sums, masked(a, l_.at(scores, i), i), row));
  };
  Ids i = l_.variables(scores.sizes);
  l_.store(shares, i, x_.cast(share(i), dtype), name);
  i = l_.variables(scores.sizes);
  Id less = x_.apply(TN_F_SUB, sums, l_.at(gradients, i), l_.at(level, {i[0], i[1], i[2]}));
  Id scaled =
      x_.apply(TN_F_MUL, sums, x_.apply(TN_F_MUL, sums, share(i), less), x_.number(a.scale, sums));
  l_.store(of_scores, i, x_.cast(multiplied(a, scaled), dtype), name);
  View s = batched(of_scores, name);
  store_product(s, batched(a.key, name), step.of_query, name);
  store_product(turned(s), batched(a.query, name), step.of_key, name);
  store_product(turned(batched(shares, name)), gradient, step.of_value, name);
}

}  // namespace inductor_cuda
