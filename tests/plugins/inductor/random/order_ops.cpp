// Orders and positions: sorts, running products, joined and parted rows, strides, losses of classes.
#include "random_graph.h"

namespace tenon::random_graphs {

namespace {

/// One operand and a dimension of it with elements, n[0]; exact where positions are asked for.
bool take_line(Chooser& c, Step& s, int kinds, bool exact = false, int64_t least = 1) {
  if (!c.take(s, kinds, exact, 1) || c.is_empty(s.in[0])) return false;
  s.n = {c.below(c.dim(s.in[0]))};
  return c.has_size(s.in[0], s.n[0], least);
}

void add_sorts(std::vector<RandomOp>& ops) {
  ops.push_back({"sorted", 3, false,
                 [](Chooser& c, Step& s) {
                   bool fits = take_line(c, s, numbers);
                   s.n.push_back(c.below(2));
                   return fits;
                 },
                 [](const Operands& o) {
                   return std::get<0>(sort_stable(o.in[0], true, o.step.n[0], o.step.n[1]));
                 }});
  ops.push_back({"order", 3, false,
                 [](Chooser& c, Step& s) {
                   bool fits = take_line(c, s, numbers, true);
                   s.n.push_back(c.below(2));
                   return fits;
                 },
                 [](const Operands& o) {
                   return std::get<1>(sort_stable(o.in[0], true, o.step.n[0], o.step.n[1]));
                 }});
  ops.push_back({"topk", 3, false,
                 [](Chooser& c, Step& s) {
                   bool fits = take_line(c, s, numbers, false, 3);
                   s.n.insert(s.n.end(), {c.between(1, 3), c.below(2)});
                   return fits;
                 },
                 [](const Operands& o) {
                   const auto& n = o.step.n;
                   return std::get<0>(topk(o.in[0], n[1], n[0], n[2]));
                 }});
}

void add_runs(std::vector<RandomOp>& ops) {
  ops.push_back(
      {"cumprod", 2, true,
       [](Chooser& c, Step& s) { return take_line(c, s, floats) && c.is_smooth(s.in[0]); },
       [](const Operands& o) { return cumprod(o.in[0].clamp(-1.25, 1.25), o.step.n[0]); }});
  ops.push_back({"cummax", 2, false,
                 [](Chooser& c, Step& s) { return take_line(c, s, numbers, true); },
                 [](const Operands& o) {
                   auto [value, position] = cummax(o.in[0], o.step.n[0]);
                   return value + position;
                 }});
  ops.push_back(
      {"logcumsumexp", 2, true,
       [](Chooser& c, Step& s) { return take_line(c, s, floats) && c.is_smooth(s.in[0]); },
       [](const Operands& o) { return logcumsumexp(o.in[0], o.step.n[0]); }});
  ops.push_back({"diff", 2, false,
                 [](Chooser& c, Step& s) {
                   bool fits = take_line(c, s, numbers, true, 3);
                   s.n.push_back(c.between(1, 2));
                   return fits;
                 },
                 [](const Operands& o) { return diff(o.in[0], o.step.n[1], o.step.n[0]); }});
}

void add_lines(std::vector<RandomOp>& ops) {
  ops.push_back({"first and last", 3, false,
                 [](Chooser& c, Step& s) {
                   return take_line(c, s, numbers) &&
                          c.fixed_size(s.in[0], s.n[0]).value_or(100) <= 20;
                 },
                 [](const Operands& o) {
                   std::vector<Tensor> lines = unbind(o.in[0], o.step.n[0]);
                   return lines.front() + lines.back();
                 }});
  ops.push_back({"parts in another order", 3, false,
                 [](Chooser& c, Step& s) {
                   bool fits = take_line(c, s, all_kinds, false, 3);
                   s.n.push_back(c.between(1, 2));
                   return fits && c.fixed_size(s.in[0], s.n[0]);
                 },
                 [](const Operands& o) {
                   int64_t d = o.step.n[0], first = o.step.n[1];
                   auto parts = split_with_sizes(o.in[0], {first, o.in[0].size(d) - first}, d);
                   return cat({parts[1], parts[0]}, d);
                 }});
  ops.push_back({"as_strided", 3, false,
                 [](Chooser& c, Step& s) {
                   s.n = {c.between(1, 4), c.between(1, 5), c.below(4), c.below(4), c.below(3)};
                   const auto& n = s.n;
                   int64_t last = n[4] + (n[0] - 1) * n[2] + (n[1] - 1) * n[3];
                   return c.take(s, [&](size_t v) {
                     for (int64_t d = 0; d < c.dim(v); ++d)
                       if (!c.fixed_size(v, d)) return false;
                     return c.most_elements(v) > last && !c.is_empty(v);
                   });
                 },
                 [](const Operands& o) {
                   const auto& n = o.step.n;
                   Tensor t = o.in[0].clone().contiguous();
                   return as_strided(t, {n[0], n[1]}, {n[2], n[3]}, SymInt(n[4]));
                 }});
  ops.push_back({"rot90", 2, false,
                 [](Chooser& c, Step& s) {
                   s.n = {c.between(-1, 3)};
                   return c.take(s, all_kinds, false, 2);
                 },
                 [](const Operands& o) {
                   return rot90(o.in[0], o.step.n[0], {0, -1});
                 }});
}

/// Classes of all rows, or of all but some.
Tensor classes_of(const Tensor& t, SymInt classes) {
  std::vector<SymInt> sizes{t.size(0)};
  SymInt n = t.size(0);
  for (int64_t d = 2; d < t.dim(); ++d) sizes.push_back(t.size(d)), n = n * t.size(d);
  return count_on(t, n).remainder(Number(classes)).view(SymIntList(sizes));
}

void add_losses(std::vector<RandomOp>& ops) {
  ops.push_back({"cross_entropy", 3, true,
                 [](Chooser& c, Step& s) {
                   s.n = {c.below(3), c.below(3)};
                   return c.take(s, [&](size_t v) {
                     return c.is_of(v, floats) && c.dim(v) >= 2 && c.dim(v) <= 4 &&
                            !c.is_empty(v) && c.is_smooth(v) && c.fixed_size(v, 1).value_or(0) > 1;
                   });
                 },
                 [](const Operands& o) {
                   const Tensor& t = o.in[0];
                   int64_t ignored = o.step.n[1] ? -100 : 0;
                   return cross_entropy_loss(t, classes_of(t, t.size(1)), {}, o.step.n[0], ignored,
                                             o.step.n[1] == 2 ? 0.25 : 0.0);
                 }});
  ops.push_back({"batched product", 2, true,
                 [](Chooser& c, Step& s) {
                   return c.take(s, [&](size_t v) {
                     return c.is_of(v, floats) && c.dim(v) == 3 && !c.is_empty(v);
                   });
                 },
                 [](const Operands& o) {
                   Tensor t = o.in[0] * 0.25;
                   return baddbmm(t.select(2, 0).unsqueeze(2), t, t.transpose(1, 2), 0.5, 0.25);
                 }});
}

}  // namespace

void add_order_ops(std::vector<RandomOp>& ops) {
  add_sorts(ops);
  add_runs(ops);
  add_lines(ops);
  add_losses(ops);
}

}  // namespace tenon::random_graphs
