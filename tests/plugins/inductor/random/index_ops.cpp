// Reads and writes at positions that are data.
#include "random_graph.h"

namespace tenon::random_graphs {

namespace {

/// Any integers as positions of a dimension of `size` elements, negative ones too.
Tensor positions(const Tensor& t, SymInt size) {
  Tensor wide = t.to(Dtype::i64);
  return wide.remainder(Number(size * 2)) - Number(size);
}
Tensor positive_positions(const Tensor& t, SymInt size) {
  return t.to(Dtype::i64).remainder(Number(size));
}

/// What is read, its dimension in n, and integers.
bool take_indexed(Chooser& c, Step& s, int64_t most_dims) {
  if (!c.take(s, all_kinds, false, 1)) return false;
  int64_t d = c.below(c.dim(s.in[0]));
  s.n.push_back(d);
  return c.has_size(s.in[0], d, 1) && c.take(s, [&](size_t v) {
    return c.is_of(v, integers | bools) && c.dim(v) <= most_dims && c.most_elements(v) <= 200;
  });
}

void add_reads(std::vector<RandomOp>& ops) {
  ops.push_back({"index_select", 4, false,
                 [](Chooser& c, Step& s) { return take_indexed(c, s, 4); },
                 [](const Operands& o) {
                   Tensor at = positive_positions(o.in[1].reshape({-1}), o.in[0].size(o.step.n[0]));
                   return index_select(o.in[0], o.step.n[0], at);
                 }});
  ops.push_back({"index", 5, false, [](Chooser& c, Step& s) { return take_indexed(c, s, 2); },
                 [](const Operands& o) {
                   Tensors at(size_t(o.step.n[0]));
                   at.push_back(positions(o.in[1], o.in[0].size(o.step.n[0])));
                   return index(o.in[0], at);
                 }});
  ops.push_back(
      {"index twice", 4, false,
       [](Chooser& c, Step& s) {
         s.n.push_back(c.below(2));
         return c.take(s, [&](size_t v) {
           return c.dim(v) >= 2 && c.has_size(v, 0, 1) && c.has_size(v, -1, 1);
         }) && c.take(s, [&](size_t v) { return c.is_of(v, integers | bools) && c.dim(v) <= 2; });
       },
       [](const Operands& o) {
         Tensors at(size_t(o.in[0].dim()));
         at.front() = positions(o.in[1], o.in[0].size(0));
         size_t other = o.step.n[0] ? at.size() - 1 : 1;
         at[other] = positions(o.in[1] + 1, o.in[0].size(int64_t(other)));
         return index(o.in[0], at);
       }});
}

/// A tensor of these kinds, a dimension of it, and integers that are nowhere else larger.
bool take_index_along(Chooser& c, Step& s, int kinds) {
  if (!c.take(s, kinds, false, 1)) return false;
  s.n.push_back(c.below(c.dim(s.in[0])));
  return !c.is_empty(s.in[0]) && c.take(s, [&](size_t v) {
    if (c.dim(v) != c.dim(s.in[0]) || !c.is_of(v, integers | bools)) return false;
    for (size_t r = 0; r < c.pool[v].narrow.size(); ++r)
      for (int64_t d = 0; d < c.dim(v); ++d)
        if (d != s.n[0] &&
            c.pool[v].narrow[r].size(d).guard_int() > c.pool[s.in[0]].narrow[r].size(d).guard_int())
          return false;
    return true;
  });
}

void add_lookups(std::vector<RandomOp>& ops) {
  ops.push_back({"gather", 4, false,
                 [](Chooser& c, Step& s) { return take_index_along(c, s, all_kinds); },
                 [](const Operands& o) {
                   Tensor at = positive_positions(o.in[1], o.in[0].size(o.step.n[0]));
                   return gather(o.in[0], o.step.n[0], at);
                 }});
  ops.push_back({"embedding", 4, false,
                 [](Chooser& c, Step& s) {
                   return c.take(s, [&](size_t v) {
                     return c.dim(v) == 2 && c.is_of(v, floats) && c.has_size(v, 0, 1);
                   }) && c.take(s, [&](size_t v) { return c.is_of(v, integers) && c.dim(v) <= 2; });
                 },
                 [](const Operands& o) {
                   return embedding(o.in[0], positive_positions(o.in[1], o.in[0].size(0)));
                 }});
}

void add_writes(std::vector<RandomOp>& ops) {
  ops.push_back(
      {"index_add", 2, false,
       [](Chooser& c, Step& s) { return c.take(s, numbers, true, 1) && c.has_size(s.in[0], 0, 2); },
       [](const Operands& o) {
         Tensor at = count_on(o.in[0], o.in[0].size(0)).remainder(2);
         return index_add(o.in[0], 0, at, o.in[0]);
       }});
  ops.push_back({"scatter_add", 3, true,
                 [](Chooser& c, Step& s) { return take_index_along(c, s, numbers); },
                 [](const Operands& o) {
                   Tensor at = positive_positions(o.in[1], o.in[0].size(o.step.n[0]));
                   return scatter_add(o.in[0], o.step.n[0], at, full_like(at, 3, o.in[0].dtype()));
                 }});
  ops.push_back({"index_put", 2, false,
                 [](Chooser& c, Step& s) {
                   return take_indexed(c, s, 1) && c.dim(s.in[1]) == 1 && c.fixed_size(s.in[1], 0);
                 },
                 [](const Operands& o) {
                   Tensors at(size_t(o.step.n[0]));
                   at.push_back(positions(o.in[1], o.in[0].size(o.step.n[0])));
                   return index_put(o.in[0], at,
                                    full_like(o.in[0].reshape({-1}).slice(0, 0, SymInt(1)).sum(), 3,
                                              o.in[0].dtype()));
                 }});
  ops.push_back({"arange", 3, false,
                 [](Chooser& c, Step& s) {
                   s.dtype = c.once_in(2) ? Dtype::i64 : c.once_in(2) ? Dtype::i32 : Dtype::f32;
                   return c.take(s, all_kinds, false, 1);
                 },
                 [](const Operands& o) { return count_on(o.in[0], o.in[0].size(-1), o.dtype()); }});
  ops.push_back({"a size", 2, false,
                 [](Chooser& c, Step& s) { return c.take(s, numbers, false, 1); },
                 [](const Operands& o) { return o.in[0] + Number(o.in[0].size(0)); }});
}

}  // namespace

void add_index_ops(std::vector<RandomOp>& ops) {
  add_reads(ops);
  add_lookups(ops);
  add_writes(ops);
}

}  // namespace tenon::random_graphs
