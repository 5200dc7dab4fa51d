// Scores, their softmax, and what they weigh.
#include "attention_steps.h"

#include <limits>

namespace inductor_cuda {

using loopir::Attention;
using loopir::Fold;
using loopir::Product;
using loopir::View;

namespace {

constexpr double lowest = -std::numeric_limits<double>::infinity();

int32_t summed_in(int32_t dtype) { return dtype == TN_F64 ? TN_F64 : TN_F32; }

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

Id AttentionSteps::masked(const Attention& a, Id score, const Ids& i) {
  int32_t dtype = x_.dtype_of(score);
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
  View out = l_.temporary(dtype, sizes, a.name);
  auto [i, row] = split();
  Id sum = l_.at(total, row), zero = x_.number(0.0, sums);
  Id share = x_.apply(TN_F_DIV, sums, exponential(i, row), sum);
  Id is_empty = x_.apply(TN_F_EQ, TN_BOOL, sum, zero);
  l_.store(out, i, x_.apply(TN_F_SELECT, sums, is_empty, zero, share), a.name);
  return out;
}

void AttentionSteps::add(const Attention& a) {
  int32_t dtype = l_.dtype_of(a.query);
  const Ids& q = a.query.sizes;
  View scores = l_.temporary(summed_in(dtype), {q[0], q[1], q[2], a.key.sizes[2]}, a.name);
  Product first;
  first.name = a.name;
  first.alpha = a.scale;
  first.left = batched(a.query, a.name);
  first.right = batched(a.key, a.name);
  std::swap(first.right.sizes[1], first.right.sizes[2]);
  std::swap(first.right.strides[1], first.right.strides[2]);
  first.result = batched(scores, a.name);
  add_product_(std::move(first));
  View weights = softmax(a, scores, dtype);
  View made = l_.temporary(dtype, a.result.sizes, a.name);
  Product second;
  second.name = a.name;
  second.left = batched(weights, a.name);
  second.right = batched(a.value, a.name);
  second.result = batched(made, a.name);
  add_product_(std::move(second));
  Ids i = l_.variables(a.result.sizes);
  l_.store(a.result, i, l_.at(made, i), a.name);
}

}  // namespace inductor_cuda
