// Reductions, softmax and norms, products.
#include "random_graph.h"

namespace tenon::random_graphs {

namespace {

OptIntList dims_of(const Operands& o) {
  return o.step.n.empty() ? OptIntList() : OptIntList(o.step.n);
}
bool keeps(const Operands& o) { return o.step.number[0] != 0; }

using Reduce = Tensor (*)(const Operands&);

/// Over some dimensions, which stand in n; number: whether they are kept.
void add_reduction(std::vector<RandomOp>& ops, const char* name, int weight, int kinds, bool exact,
                   bool rounds, Reduce f, bool needs_elements = false) {
  ops.push_back({name, weight, rounds,
                 [=](Chooser& c, Step& s) {
                   if (!c.take(s, kinds, exact)) return false;
                   c.take_dims(s);
                   s.number.push_back(double(c.below(2)));
                   return !needs_elements || !c.is_empty(s.in[0]);
                 },
                 f, false});
}

void add_folds(std::vector<RandomOp>& ops) {
  add_reduction(ops, "sum", 12, all_kinds, false, false,
                [](const Operands& o) { return o.in[0].sum(dims_of(o), keeps(o)); });
  add_reduction(ops, "mean", 8, floats, false, true,
                [](const Operands& o) { return o.in[0].mean(dims_of(o), keeps(o)); });
  auto amax = [](const Operands& o) { return o.in[0].amax(o.step.n, keeps(o)); };
  auto amin = [](const Operands& o) { return o.in[0].amin(o.step.n, keeps(o)); };
  add_reduction(ops, "amax", 6, all_kinds, false, false, amax, true);
  add_reduction(ops, "amin", 6, all_kinds, false, false, amin, true);
  add_reduction(ops, "any", 3, all_kinds, true, false,
                [](const Operands& o) { return any(o.in[0], dims_of(o), keeps(o)); });
  add_reduction(ops, "all", 3, all_kinds, true, false,
                [](const Operands& o) { return all(o.in[0], dims_of(o), keeps(o)); });
  add_reduction(ops, "var", 6, floats, false, true, [](const Operands& o) {
    return var(o.in[0], dims_of(o), std::optional<Number>(keeps(o) ? 0 : 1), keeps(o));
  });
  add_reduction(ops, "std + 1/2", 3, floats, false, true, [](const Operands& o) {
    return (var(o.in[0], dims_of(o), std::optional<Number>(1), keeps(o)) + 0.5).sqrt();
  });
  add_reduction(
      ops, "logsumexp", 4, floats, false, true,
      [](const Operands& o) {
        std::vector<int64_t> all;
        for (int64_t d = 0; d < o.in[0].dim(); ++d) all.push_back(d);
        return logsumexp(o.in[0], o.step.n.empty() ? IntList(all) : IntList(o.step.n), keeps(o));
      },
      true);
  add_reduction(ops, "norm", 3, floats, false, true, [](const Operands& o) {
    return linalg_vector_norm(o.in[0], 2, dims_of(o), keeps(o));
  });
  add_reduction(ops, "prod of halves", 2, floats, false, true, [](const Operands& o) {
    Tensor t = o.in[0].clamp(-1.25, 1.25);
    return o.step.n.empty() ? t.prod() : t.prod(o.step.n[0], keeps(o));
  });
  add_reduction(ops, "prod", 2, integers | bools, false, false, [](const Operands& o) {
    return o.step.n.empty() ? o.in[0].prod() : o.in[0].prod(o.step.n[0], keeps(o));
  });
}

void add_positions(std::vector<RandomOp>& ops) {
  auto first_dim = [](const Operands& o) {
    return o.step.n.empty() ? std::optional<int64_t>() : o.step.n[0];
  };
  static const auto dim = first_dim;
  add_reduction(
      ops, "argmax", 5, numbers, true, false,
      [](const Operands& o) { return argmax(o.in[0], dim(o), !o.step.n.empty() && keeps(o)); },
      true);
  add_reduction(
      ops, "argmin", 5, numbers, true, false,
      [](const Operands& o) { return argmin(o.in[0], dim(o), !o.step.n.empty() && keeps(o)); },
      true);
  add_reduction(
      ops, "max and position", 3, numbers, true, false,
      [](const Operands& o) {
        if (o.step.n.empty()) return o.in[0].max();
        auto [value, position] = o.in[0].max(o.step.n[0], keeps(o));
        return value + position;
      },
      true);
  add_reduction(ops, "cumsum", 2, numbers, false, false, [](const Operands& o) {
    return o.in[0].cumsum(o.step.n.empty() ? -1 : o.step.n[0]);
  });
}

/// Along one dimension, n[0].
bool take_row(Chooser& c, Step& s) {
  if (!c.take(s, floats, false, 1)) return false;
  s.n.push_back(c.once_in(2) ? -1 : c.below(c.dim(s.in[0])));
  return !c.is_empty(s.in[0]) && c.is_smooth(s.in[0]);
}

// Normalised numbers with a scale that makes up for rows of equal ones, where 1 / deviation is all
// that is left of the rounding errors.
void add_rows(std::vector<RandomOp>& ops) {
  ops.push_back({"softmax", 10, true, take_row,
                 [](const Operands& o) { return softmax(o.in[0], o.step.n[0]); }});
  ops.push_back({"log_softmax", 6, true, take_row,
                 [](const Operands& o) { return log_softmax(o.in[0], o.step.n[0]); }});
  ops.push_back({"layer_norm", 10, true,
                 [](Chooser& c, Step& s) {
                   if (!take_row(c, s)) return false;
                   s.n[0] = c.between(1, std::min<int64_t>(2, c.dim(s.in[0])));
                   return true;
                 },
                 [](const Operands& o) {
                   std::vector<SymInt> sizes = o.in[0].sizes().vec();
                   sizes.erase(sizes.begin(), sizes.end() - o.step.n[0]);
                   Tensor scale = o.in[0].detach();
                   for (int64_t d = o.in[0].dim(); d > o.step.n[0]; --d) scale = scale.select(0, 0);
                   return layer_norm(o.in[0], sizes, scale.tanh(), scale, 0.25);
                 }});
  ops.push_back({"rms_norm", 4, true, take_row, [](const Operands& o) {
                   return rms_norm(o.in[0], {o.in[0].size(-1)}, {}, 0.25);
                 }});
  ops.push_back({"batch_norm", 6, true,
                 [](Chooser& c, Step& s) {
                   s.n.push_back(c.below(2));
                   return c.take(s, [&](size_t v) {
                     return c.is_of(v, floats) && c.dim(v) >= 2 && c.dim(v) <= 5 &&
                            c.has_size(v, 0, 2) && !c.is_empty(v) && c.is_smooth(v);
                   });
                 },
                 [](const Operands& o) {
                   Tensor mean = o.in[0];
                   while (mean.dim() > 2) mean = mean.select(-1, 0);
                   mean = mean.select(0, 0);
                   Tensor scale = mean.tanh(), variance = mean.abs() + 0.5;
                   if (o.step.n[0])
                     return batch_norm(o.in[0], scale, variance, {}, {}, true, 0.1, 0.25, false);
                   return batch_norm(o.in[0], scale, mean, mean, variance, false, 0.1, 0.25, false);
                 }});
  ops.push_back({"group_norm", 4, true,
                 [](Chooser& c, Step& s) {
                   if (!c.take(s, [&](size_t v) {
                         return c.is_of(v, floats) && c.dim(v) >= 2 && !c.is_empty(v) &&
                                c.is_smooth(v) && c.fixed_size(v, 1).value_or(1) % 2 == 0;
                       }))
                     return false;
                   s.n.push_back(c.between(1, 2));
                   return true;
                 },
                 [](const Operands& o) { return group_norm(o.in[0], o.step.n[0], {}, {}, 0.25); }});
}

void add_products(std::vector<RandomOp>& ops) {
  ops.push_back(
      {"matmul with its transpose", 3, true,
       [](Chooser& c, Step& s) { return c.take(s, floats, false, 2); },
       [](const Operands& o) { return matmul(o.in[0], o.in[0].transpose(-1, -2)) * 0.125; }});
  ops.push_back({"matmul", 3, true,
                 [](Chooser& c, Step& s) {
                   return c.take(s, floats, false, 2) && c.take(s, [&](size_t v) {
                     return c.first(v).dtype() == c.first(s.in[0]).dtype() && c.dim(v) == 2 &&
                            c.is_broadcastable(v, s.in[0]) && c.fixed_size(v, -1) &&
                            c.fixed_size(v, -1) == c.fixed_size(s.in[0], -1);
                   });
                 },
                 [](const Operands& o) { return linear(o.in[0], o.in[1]) * 0.125; }});
}

}  // namespace

void add_reduction_ops(std::vector<RandomOp>& ops) {
  add_folds(ops);
  add_positions(ops);
  add_rows(ops);
  add_products(ops);
}

}  // namespace tenon::random_graphs
