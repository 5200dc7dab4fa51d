// Losses over classes: the value at the target's position, folded over the batch.
#include "loopir/lower/index_tensors.h"

namespace loopir {

using tenon::plugin::node;

namespace {

enum Reduction : int64_t { reduce_none = 0, reduce_mean = 1, reduce_sum = 2 };

/// Scores [n, classes, positions...] and the class wanted of each of [n, positions...]; those that
/// equal `ignored` count nothing.
struct Targets {
  Lowering& to;
  Tensor target;
  std::optional<Tensor> weight;
  Id n_classes, ignored;
  int32_t dtype;

  Id is_counted(std::span<const Id> batch) const {
    return to.x.apply(TN_F_NE, TN_BOOL, label(batch), ignored);
  }
  /// The class as an index; 0 where it is ignored.
  Id position(std::span<const Id> batch) const {
    Expressions& x = to.x;
    Id safe =
        x.apply(TN_F_SELECT, TN_I64, is_counted(batch), label(batch), x.number(int64_t{0}, TN_I64));
    return strictly_checked(to, safe, n_classes);
  }
  Id weight_of(std::span<const Id> batch) const {
    Id w =
        weight ? to.x.cast(to.at(*weight, Ids{position(batch)}), dtype) : to.x.number(1.0, dtype);
    return counted(batch, w);
  }
  /// The number, 0 where the target is ignored. A choice: products with 0 would keep NaN.
  Id counted(std::span<const Id> batch, Id number) const {
    return to.x.apply(TN_F_SELECT, dtype, is_counted(batch), number, to.x.number(0.0, dtype));
  }

 private:
  Id label(std::span<const Id> batch) const { return to.x.cast(to.at(target, batch), TN_I64); }
};

/// The targets of a node with scores as argument `scores`, which the classes of are dimension 1 of.
std::optional<Targets> targets_of(Lowering& to, const node& n, size_t scores, size_t target,
                                  size_t ignore) {
  const Tensor& self = to.tensor_arg(n.args[scores]);
  bool has_weight = to.is_tensor(n.args[target + 1]);
  auto t = to.info(n.args[target].u.value);
  // One class: nothing would be read at the target's position, but it must be checked.
  if (!is_floating(self.dtype) || self.ndim() < 2 || t.dtype != TN_I64 ||
      static_cast<size_t>(t.ndim) + 1 != self.ndim() || to.x.is(self.sizes[1], 1))
    return std::nullopt;
  Targets out{to,           to.realised(to.tensor_arg(n.args[target]), "target"),
              std::nullopt, self.sizes[1],
              none,         compute_type(self.dtype)};
  if (has_weight) out.weight = to.tensor_arg(n.args[target + 1]);
  Id index = to.arguments.index_arg(n.args[ignore]);
  out.ignored = to.x.index_value(index);
  return out;
}

/// The score of a class, where the batch's index has no class.
Ids score_at(std::span<const Id> batch, Id position) {
  Ids out(batch.begin(), batch.end());
  out.insert(out.begin() + 1, position);
  return out;
}
Ids batch_of(std::span<const Id> element) {
  Ids out(element.begin(), element.end());
  out.erase(out.begin() + 1);
  return out;
}

void give_number(Lowering& to, uint32_t value, const std::function<Id()>& number) {
  int32_t dtype = to.info(value).dtype;
  to.set(value,
         to.make(dtype, {}, [&](std::span<const Id>) { return to.x.cast(number(), dtype); }));
}

// -weight[target] * scores[target], as it is or folded.
bool nll_loss(Lowering& to, const node& n) {
  auto targets = targets_of(to, n, 0, 1, 4);
  if (!targets) return false;
  Expressions& x = to.x;
  const Tensor self = to.tensor_arg(n.args[0]);
  int64_t reduction = int_arg(n.args[3]);
  int32_t dtype = targets->dtype;
  std::string name = to.name_of(n.first_result);
  const Ids batch_sizes = batch_of(self.sizes);
  auto loss = [&](std::span<const Id> batch) {
    Id score = x.cast(to.at(self, score_at(batch, targets->position(batch))), dtype);
    Id product = x.apply(TN_F_MUL, dtype, score, targets->weight_of(batch));
    return targets->counted(batch, x.apply(TN_F_NEG, dtype, product));
  };
  if (reduction == reduce_none) {
    to.set(n.first_result, to.make(self.dtype, batch_sizes, [&](std::span<const Id> i) {
      return x.cast(loss(i), self.dtype);
    }));
    give_number(to, n.first_result + 1, [&] { return x.number(0.0, dtype); });
    return true;
  }
  auto sum_of = [&](auto&& value) {
    return to.folded(Fold::sum, dtype, {}, batch_sizes, name.c_str(),
                     [&](std::span<const Id>, std::span<const Id> batch) { return value(batch); });
  };
  Tensor sum = sum_of(loss);
  Tensor weights = sum_of([&](std::span<const Id> batch) { return targets->weight_of(batch); });
  give_number(to, n.first_result, [&] {
    if (reduction == reduce_sum) return sum.value;
    return x.apply(TN_F_DIV, dtype, sum.value, weights.value);
  });
  give_number(to, n.first_result + 1, [&] { return weights.value; });
  return true;
}

// -weight[target] * gradient at the target, 0 elsewhere.
bool nll_loss_backward(Lowering& to, const node& n) {
  auto targets = targets_of(to, n, 1, 2, 5);
  if (!targets) return false;
  Expressions& x = to.x;
  const Tensor gradient = to.tensor_arg(n.args[0]), self = to.tensor_arg(n.args[1]);
  const Tensor total = to.tensor_arg(n.args[6]);
  int64_t reduction = int_arg(n.args[4]);
  int32_t dtype = targets->dtype;
  to.set(n.first_result, to.make(self.dtype, self.sizes, [&](std::span<const Id> i) {
    const Ids batch = batch_of(i);
    Id g = x.cast(gradient.ndim() ? to.at(gradient, batch) : gradient.value, dtype);
    if (reduction == reduce_mean) g = x.apply(TN_F_DIV, dtype, g, x.cast(total.value, dtype));
    Id product = x.apply(TN_F_MUL, dtype, g, targets->weight_of(batch));
    Id scaled = targets->counted(batch, x.apply(TN_F_NEG, dtype, product));
    Id is_target =
        x.apply(TN_F_EQ, TN_BOOL, x.index_value(i[1]), x.index_value(targets->position(batch)));
    return x.cast(x.apply(TN_F_SELECT, dtype, is_target, scaled, x.number(0.0, dtype)), self.dtype);
  }));
  return true;
}

constexpr Rule loss_table[] = {
    {"aten.nll_loss_forward.default", nll_loss},
    {"aten.nll_loss2d_forward.default", nll_loss},
    {"aten.nll_loss_backward.default", nll_loss_backward},
    {"aten.nll_loss2d_backward.default", nll_loss_backward},
};

}  // namespace

std::span<const Rule> loss_rules() { return loss_table; }

}  // namespace loopir
