// Views and copies that move elements: transposes, reshapes, slices, windows, pads, joins.
#include "random_graph.h"

#include <algorithm>

namespace tenon::random_graphs {

namespace {

/// One operand with a dimension of at least this many elements, which comes first in n.
bool take_with_dim(Chooser& c, Step& s, int64_t least = 0, int64_t least_dims = 1) {
  if (!c.take(s, all_kinds, false, least_dims)) return false;
  int64_t d = c.below(c.dim(s.in[0]));
  s.n.push_back(d);
  // Whether a part has one element decides how it broadcasts: symbolic ones keep more than that.
  if (least > 1 && !c.fixed_size(s.in[0], d)) least = 10;
  return c.has_size(s.in[0], d, least);
}

void add_orders(std::vector<RandomOp>& ops) {
  ops.push_back({"transpose", 6, false,
                 [](Chooser& c, Step& s) {
                   if (!take_with_dim(c, s, 0, 2)) return false;
                   s.n.push_back(c.below(c.dim(s.in[0])) - c.dim(s.in[0]));
                   return true;
                 },
                 [](const Operands& o) { return o.in[0].transpose(o.step.n[0], o.step.n[1]); }});
  ops.push_back({"permute", 6, false,
                 [](Chooser& c, Step& s) {
                   if (!c.take(s, all_kinds, false, 2)) return false;
                   for (int64_t d = 0; d < c.dim(s.in[0]); ++d) s.n.push_back(d);
                   std::shuffle(s.n.begin(), s.n.end(), c.random);
                   return true;
                 },
                 [](const Operands& o) { return o.in[0].permute(o.step.n); }});
  ops.push_back({"flip", 3, false, [](Chooser& c, Step& s) { return take_with_dim(c, s); },
                 [](const Operands& o) { return o.in[0].flip({o.step.n[0]}); }});
  ops.push_back({"contiguous", 2, false, [](Chooser& c, Step& s) { return c.take(s, all_kinds); },
                 [](const Operands& o) { return o.in[0].contiguous(); }});
  ops.push_back({"roll", 2, false,
                 [](Chooser& c, Step& s) {
                   bool fits = take_with_dim(c, s, 1);
                   s.n.push_back(c.between(-3, 3));
                   return fits;
                 },
                 [](const Operands& o) { return roll(o.in[0], {o.step.n[1]}, {o.step.n[0]}); }});
}

void add_shapes(std::vector<RandomOp>& ops) {
  ops.push_back({"flatten two", 6, false,
                 [](Chooser& c, Step& s) {
                   if (!c.take(s, all_kinds, false, 2)) return false;
                   s.n.push_back(c.below(c.dim(s.in[0]) - 1));
                   return true;
                 },
                 [](const Operands& o) { return o.in[0].flatten(o.step.n[0], o.step.n[0] + 1); }});
  ops.push_back({"flatten", 2, false, [](Chooser& c, Step& s) { return c.take(s, all_kinds); },
                 [](const Operands& o) { return o.in[0].reshape({-1}); }});
  ops.push_back({"split a dimension", 6, false,
                 [](Chooser& c, Step& s) {
                   if (!take_with_dim(c, s, 2)) return false;
                   auto size = c.fixed_size(s.in[0], s.n[0]);
                   if (!size) return false;
                   for (int64_t part : {4, 3, 2, 5, 10})
                     if (*size % part == 0 && !c.once_in(3)) {
                       s.n.push_back(part);
                       return true;
                     }
                   return false;
                 },
                 [](const Operands& o) {
                   return o.in[0].unflatten(o.step.n[0], {-1, o.step.n[1]});
                 }});
}

void add_dimensions(std::vector<RandomOp>& ops) {
  ops.push_back({"unsqueeze", 3, false,
                 [](Chooser& c, Step& s) {
                   if (!c.take(s, all_kinds)) return false;
                   s.n.push_back(c.below(c.dim(s.in[0]) + 1));
                   return c.dim(s.in[0]) < 5;
                 },
                 [](const Operands& o) { return o.in[0].unsqueeze(o.step.n[0]); }});
  ops.push_back({"squeeze", 2, false, [](Chooser& c, Step& s) { return take_with_dim(c, s); },
                 [](const Operands& o) { return o.in[0].squeeze(o.step.n[0]); }});
  ops.push_back({"expand like", 5, false,
                 [](Chooser& c, Step& s) {
                   return c.take(s, all_kinds) && c.take(s, [&](size_t v) {
                     if (c.dim(v) < c.dim(s.in[0]) || !c.is_broadcastable(s.in[0], v)) return false;
                     for (int64_t d = -1; d >= -c.dim(s.in[0]); --d)
                       if (c.fixed_size(v, d) == 1 && c.fixed_size(s.in[0], d) != 1) return false;
                     return true;
                   });
                 },
                 [](const Operands& o) { return o.in[0].expand(o.in[1].sizes()); }});
  ops.push_back({"repeat", 3, false,
                 [](Chooser& c, Step& s) {
                   if (!c.take(s, all_kinds)) return false;
                   for (int64_t d = 0; d < c.dim(s.in[0]); ++d) s.n.push_back(c.between(1, 3));
                   if (c.once_in(3)) s.n.insert(s.n.begin(), 2);
                   return true;
                 },
                 [](const Operands& o) { return o.in[0].repeat(o.step.n); }});
}

void add_parts(std::vector<RandomOp>& ops) {
  ops.push_back({"slice", 10, false,
                 [](Chooser& c, Step& s) {
                   if (!take_with_dim(c, s, 4)) return false;
                   s.n.push_back(c.below(3));
                   s.n.push_back(c.below(2));
                   s.n.push_back(c.once_in(3) && c.fixed_size(s.in[0], s.n[0]) ? 2 : 1);
                   return true;
                 },
                 [](const Operands& o) {
                   const auto& n = o.step.n;
                   SymInt end = o.in[0].size(n[0]) - n[2];
                   return slice(o.in[0], n[0], SymInt(n[1]), end, SymInt(n[3]));
                 }});
  ops.push_back(
      {"slice from the end", 3, false, [](Chooser& c, Step& s) { return take_with_dim(c, s, 4); },
       [](const Operands& o) { return slice(o.in[0], o.step.n[0], SymInt(-3), SymInt(-1)); }});
  ops.push_back({"select", 5, false,
                 [](Chooser& c, Step& s) {
                   bool fits = take_with_dim(c, s, 1);
                   s.n.push_back(c.once_in(2) ? 0 : -1);
                   return fits;
                 },
                 [](const Operands& o) { return o.in[0].select(o.step.n[0], o.step.n[1]); }});
}

void add_windows(std::vector<RandomOp>& ops) {
  ops.push_back({"diagonal", 2, false,
                 [](Chooser& c, Step& s) {
                   s.n.push_back(c.between(-1, 1));
                   return c.take(s, [&](size_t v) {
                     return c.dim(v) >= 2 && c.has_size(v, 0, 2) && c.has_size(v, 1, 2);
                   });
                 },
                 [](const Operands& o) { return o.in[0].diagonal(o.step.n[0], 0, 1); }});
  ops.push_back(
      {"unfold", 3, false,
       [](Chooser& c, Step& s) {
         if (!take_with_dim(c, s, 3)) return false;
         s.n.push_back(c.between(2, 3));
         s.n.push_back(c.fixed_size(s.in[0], s.n[0]) ? c.between(1, 2) : 1);
         return true;
       },
       [](const Operands& o) { return o.in[0].unfold(o.step.n[0], o.step.n[1], o.step.n[2]); }});
  ops.push_back(
      {"split", 3, false,
       [](Chooser& c, Step& s) { return take_with_dim(c, s, 4) && c.fixed_size(s.in[0], s.n[0]); },
       [](const Operands& o) { return split(o.in[0], SymInt(2), o.step.n[0])[1]; }});
  ops.push_back({"tril", 2, false,
                 [](Chooser& c, Step& s) {
                   s.n.push_back(c.between(-1, 1));
                   return c.take(s, all_kinds, false, 2);
                 },
                 [](const Operands& o) { return o.in[0].tril(o.step.n[0]); }});
}

void add_joins(std::vector<RandomOp>& ops) {
  ops.push_back({"cat", 8, false,
                 [](Chooser& c, Step& s) {
                   if (!take_with_dim(c, s)) return false;
                   size_t a = s.in[0];
                   auto fits = [&](size_t v) {
                     if (c.dim(v) != c.dim(a)) return false;
                     for (int64_t d = 0; d < c.dim(a); ++d)
                       for (size_t r = 0; d != s.n[0] && r < c.pool[a].narrow.size(); ++r)
                         if (c.pool[a].narrow[r].size(d).guard_int() !=
                             c.pool[v].narrow[r].size(d).guard_int())
                           return false;
                     return true;
                   };
                   for (int64_t more = c.between(1, 3); more > 0; --more) c.take(s, fits);
                   return true;
                 },
                 [](const Operands& o) { return cat(o.in, o.step.n[0]); }});
  ops.push_back({"stack", 3, false,
                 [](Chooser& c, Step& s) {
                   if (!c.take(s, all_kinds) || c.dim(s.in[0]) > 4) return false;
                   s.n.push_back(c.below(c.dim(s.in[0]) + 1));
                   return true;
                 },
                 [](const Operands& o) {
                   return stack({o.in[0], o.in[0] + 1}, o.step.n[0]);
                 }});
}

void add_replaced_parts(std::vector<RandomOp>& ops) {
  ops.push_back({"constant_pad", 6, false,
                 [](Chooser& c, Step& s) {
                   if (!c.take(s, all_kinds, false, 1)) return false;
                   int64_t dims = c.between(1, std::min<int64_t>(c.dim(s.in[0]), 3));
                   for (int64_t i = 0; i < 2 * dims; ++i) s.n.push_back(c.between(0, 2));
                   if (c.once_in(3) && c.has_size(s.in[0], -1, 3)) s.n[0] = -1;
                   s.number.push_back(double(c.below(3)));
                   return true;
                 },
                 [](const Operands& o) {
                   return constant_pad_nd(o.in[0], SymIntList(o.step.n), o.step.number[0]);
                 }});
  ops.push_back({"slice_scatter", 2, false,
                 [](Chooser& c, Step& s) { return take_with_dim(c, s, 4); },
                 [](const Operands& o) {
                   Tensor part = slice(o.in[0], o.step.n[0], SymInt(1), SymInt(3));
                   return slice_scatter(o.in[0], part * 2, o.step.n[0], SymInt(1), SymInt(3));
                 }});
  ops.push_back({"select_scatter", 2, false,
                 [](Chooser& c, Step& s) { return take_with_dim(c, s, 1); },
                 [](const Operands& o) {
                   Tensor part = o.in[0].select(o.step.n[0], 0);
                   return select_scatter(o.in[0], part + part, o.step.n[0], -1);
                 }});
}

}  // namespace

void add_view_ops(std::vector<RandomOp>& ops) {
  add_orders(ops);
  add_shapes(ops);
  add_dimensions(ops);
  add_parts(ops);
  add_windows(ops);
  add_joins(ops);
  add_replaced_parts(ops);
}

}  // namespace tenon::random_graphs
