// Writes in place, into a copy of the operand or a view of the copy, and writes at positions.
#include "random_graph.h"

namespace tenon::random_graphs {

namespace {

/// What is written to, its dimension and a kind in n.
bool take_written(Chooser& c, Step& s, int kinds, int64_t ways, int64_t least = 2) {
  if (!c.take(s, kinds, false, 1)) return false;
  s.n = {c.below(c.dim(s.in[0])), c.below(ways)};
  return !c.is_empty(s.in[0]) && c.has_size(s.in[0], s.n[0], least);
}

Tensor with_written_part(const Operands& o) {
  Tensor t = o.in[0].clone();
  int64_t d = o.step.n[0];
  switch (o.step.n[1]) {
    case 0:
      t.select(d, 0).add_(1);
      break;
    case 1:
      slice(t, d, 1, std::nullopt, 2).mul_(2);
      break;
    case 2:
      t.transpose(0, d).select(0, -1).fill_(3);
      break;
    case 3:
      t.select(d, 0).copy_(t.select(d, 1));
      break;
    default:
      t.select(d, 1).add_(t.select(d, 0));
      t.select(d, 0).mul_(t.select(d, 1));
  }
  return t;
}

// The view is made before the write, and read behind it.
Tensor view_of_written(const Operands& o) {
  Tensor t = o.in[0].clone();
  Tensor view = t.transpose(0, -1);
  if (o.step.n[1] == 0) t.relu_();
  if (o.step.n[1] == 1) t.clamp_(Number(-1), Number(2));
  if (o.step.n[1] == 2) view.select(0, 0).mul_(-1);
  return view + 1;
}

void add_in_place(std::vector<RandomOp>& ops) {
  ops.push_back({"written part", 8, false,
                 [](Chooser& c, Step& s) { return take_written(c, s, numbers, 5); },
                 with_written_part});
  ops.push_back({"view of what is written", 5, false,
                 [](Chooser& c, Step& s) { return take_written(c, s, numbers, 3, 1); },
                 view_of_written});
  ops.push_back(
      {"copied into", 4, false,
       [](Chooser& c, Step& s) {
         return c.take(s, all_kinds, false, 1) && !c.is_empty(s.in[0]) && c.take(s, [&](size_t v) {
           bool fits = is_floating(c.first(s.in[0]).dtype()) || !c.is_of(v, floats);
           return fits && c.dim(v) <= c.dim(s.in[0]) && c.is_broadcastable(s.in[0], v) &&
                  c.most_elements(v) == c.most_elements(s.in[0]);
         });
       },
       [](const Operands& o) {
         Tensor t = o.in[0].clone();
         t.copy_(o.in[1].expand(t.sizes()));
         return t + o.in[0];
       }});
  ops.push_back({"masked in place", 3, false,
                 [](Chooser& c, Step& s) { return take_written(c, s, numbers, 2); },
                 [](const Operands& o) {
                   Tensor t = o.in[0].clone();
                   Tensor even = count_on(t, t.size(-1)).remainder(2) == 0;
                   if (o.step.n[1]) return t.masked_fill_(even.expand(t.sizes()), 1);
                   t.select(-1, 0).masked_fill_(t.select(-1, 0) == t.select(-1, 0), 2);
                   return t;
                 }});
}

/// Every second position of a dimension.
Tensor every_second(const Tensor& t, int64_t d) {
  return arange(Number(0), Number(t.size(d)), Number(2), Dtype::i64, {}, t.device());
}

void add_at_positions(std::vector<RandomOp>& ops) {
  ops.push_back({"index_copy", 3, false,
                 [](Chooser& c, Step& s) { return take_written(c, s, all_kinds, 2); },
                 [](const Operands& o) {
                   int64_t d = o.step.n[0];
                   const Tensor& t = o.in[0];
                   Tensor at = every_second(t, d);
                   if (o.step.n[1]) return index_fill(t, d, at, 1);
                   return index_copy(t, d, at, index_select(t.flip({d}), d, at));
                 }});
  ops.push_back({"scatter a number", 3, false,
                 [](Chooser& c, Step& s) { return take_written(c, s, all_kinds, 1); },
                 [](const Operands& o) {
                   const Tensor& t = o.in[0];
                   Tensor at = count_on(t, t.size(-1)).remainder(Number(t.size(o.step.n[0])));
                   return scatter(t, o.step.n[0], at.expand(t.sizes()), Number(1));
                 }});
  ops.push_back({"scatter_reduce", 4, true,
                 [](Chooser& c, Step& s) {
                   bool fits = take_written(c, s, floats, 5) && c.is_smooth(s.in[0]);
                   s.n.push_back(c.below(2));
                   return fits;
                 },
                 [](const Operands& o) {
                   constexpr const char* kinds[] = {"sum", "mean", "amax", "amin", "prod"};
                   const auto& n = o.step.n;
                   Tensor t = o.in[0].clamp(-2, 2);
                   Tensor at = count_on(t, t.size(-1)).remainder(2).expand(t.sizes());
                   return scatter_reduce(t, n[0], at, t.cos(), kinds[n[1]], n[2] != 0);
                 }});
  ops.push_back(
      {"index_put", 3, true, [](Chooser& c, Step& s) { return take_written(c, s, numbers, 2); },
       [](const Operands& o) {
         Tensor t = o.in[0].clone();
         Tensors at(size_t(o.step.n[0]));
         at.push_back(count_on(t, t.size(o.step.n[0])).remainder(2));
         return index_put_(
             t, at, ones_like(t.reshape({-1}).slice(0, 0, SymInt(1)).sum()).to(t.dtype()), true);
       }});
}

}  // namespace

void add_write_ops(std::vector<RandomOp>& ops) {
  add_in_place(ops);
  add_at_positions(ops);
}

}  // namespace tenon::random_graphs
