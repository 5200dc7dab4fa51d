// Layers of networks with parameters of their own, and the views that networks put between them.
#include "random_graph.h"

#include <algorithm>

namespace tenon::random_graphs {

namespace {

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

/// Eighths between -1 and 1, or above 0.
Tensor eighths(Chooser& c, const std::vector<int64_t>& sizes, Dtype dtype, bool positive = false) {
  std::vector<double> values;
  for (int64_t i = product(sizes); i-- > 0;)
    values.push_back(double(positive ? c.between(2, 16) : c.between(-8, 8)) / 8);
  return tensor(values, IntList(sizes)).to(dtype);
}

/// An operand of these ranks with few channels, as many in all runs, in a dimension.
std::optional<int64_t> take_channels(Chooser& c, Step& s, int64_t d, int64_t low, int64_t high) {
  auto fits = [&](size_t v) {
    return c.is_of(v, floats) && c.dim(v) >= low && c.dim(v) <= high && !c.is_empty(v) &&
           c.is_smooth(v) && c.fixed_size(v, d).value_or(1000) <= 100;
  };
  if (!c.take(s, fits)) return std::nullopt;
  return c.fixed_size(s.in[0], d);
}

// Neighbours with a weight of 0 count where they are infinite, or do not.
bool is_finite(const Value& v) {
  return std::ranges::all_of(v.narrow,
                             [](const Tensor& t) { return isfinite(t).all().item<bool>(); });
}

Dtype dtype_of(const Chooser& c, const Step& s) { return c.first(s.in[0]).dtype(); }

void add_linear(std::vector<RandomOp>& ops) {
  ops.push_back({"linear", 6, true,
                 [](Chooser& c, Step& s) {
                   auto channels = take_channels(c, s, -1, 1, 4);
                   if (!channels) return false;
                   constexpr int64_t sizes[] = {1, 3, 4, 8, 16, 17, 33};
                   int64_t n = sizes[c.below(7)];
                   s.weights.push_back(eighths(c, {n, *channels}, dtype_of(c, s)));
                   if (c.once_in(2)) s.weights.push_back(eighths(c, {n}, dtype_of(c, s)));
                   s.terms = double(*channels);
                   return true;
                 },
                 [](const Operands& o) { return linear(o.in[0], o.weight(0), o.weight(1)); }, false,
                 true});
}

// n: stride, padding, dilation, groups.
void add_convolutions(std::vector<RandomOp>& ops) {
  auto choose = [](Chooser& c, Step& s, int64_t low, bool transposed) {
    auto channels = take_channels(c, s, 1, low, 4);
    if (!channels) return false;
    int64_t groups = c.once_in(4) ? *channels : c.once_in(4) && *channels % 2 == 0 ? 2 : 1;
    int64_t out = groups * c.between(1, groups > 4 ? 2 : 8), kernel = c.between(1, 3);
    s.n = {c.between(1, 2), c.below(kernel), c.once_in(4) ? 2 : 1, groups};
    std::vector<int64_t> sizes{out, *channels / groups};
    if (transposed) sizes = {*channels, out / groups};
    s.terms = double(*channels / groups);
    for (int64_t d = c.dim(s.in[0]); d > 2; --d) sizes.push_back(kernel), s.terms *= double(kernel);
    s.weights.push_back(eighths(c, sizes, dtype_of(c, s)));
    if (c.once_in(2)) s.weights.push_back(eighths(c, {out}, dtype_of(c, s)));
    return true;
  };
  ops.push_back({"convolution", 10, true,
                 [choose](Chooser& c, Step& s) { return choose(c, s, 3, false); },
                 [](const Operands& o) {
                   const auto& n = o.step.n;
                   std::vector<SymInt> stride(size_t(o.in[0].dim() - 2), n[0]),
                       padding(stride.size(), n[1]), dilation(stride.size(), n[2]);
                   auto of = stride.size() == 1 ? conv1d : conv2d;
                   return of(o.in[0], o.weight(0), o.weight(1), stride, padding, dilation, n[3]);
                 },
                 false, true});
  ops.push_back({"transposed convolution", 2, true,
                 [choose](Chooser& c, Step& s) { return choose(c, s, 4, true); },
                 [](const Operands& o) {
                   const auto& n = o.step.n;
                   return conv_transpose2d(o.in[0], o.weight(0), o.weight(1), {n[0], n[0]},
                                           {n[1], n[1]}, {0, 0}, n[3], {n[2], n[2]});
                 },
                 false, true});
}

void add_norms(std::vector<RandomOp>& ops) {
  ops.push_back({"norm of channels", 8, true,
                 [](Chooser& c, Step& s) {
                   auto channels = take_channels(c, s, 1, 2, 5);
                   if (!channels) return false;
                   for (int i = 0; i < 4; ++i)
                     s.weights.push_back(eighths(c, {*channels}, dtype_of(c, s), i == 3));
                   return true;
                 },
                 [](const Operands& o) {
                   return batch_norm(o.in[0], o.weight(0), o.weight(1), o.weight(2), o.weight(3),
                                     false, 0.1, 1e-3, false);
                 },
                 false, true});
  ops.push_back({"norm of rows", 4, true,
                 [](Chooser& c, Step& s) {
                   auto channels = take_channels(c, s, -1, 1, 5);
                   if (!channels) return false;
                   for (int i = 0; i < 2; ++i)
                     s.weights.push_back(eighths(c, {*channels}, dtype_of(c, s)));
                   return true;
                 },
                 [](const Operands& o) {
                   return layer_norm(o.in[0], {o.in[0].size(-1)}, o.weight(0), o.weight(1), 0.25);
                 },
                 false, true});
}

void add_functions(std::vector<RandomOp>& ops) {
  ops.push_back({"activation", 8, true,
                 [](Chooser& c, Step& s) {
                   s.n = {c.below(8)};
                   return c.take(s, floats) && c.is_smooth(s.in[0]);
                 },
                 [](const Operands& o) {
                   using F = Tensor (*)(const Tensor&);
                   constexpr F functions[] = {relu,
                                              silu,
                                              hardswish,
                                              hardsigmoid,
                                              sigmoid,
                                              tanh,
                                              [](const Tensor& t) { return gelu(t); },
                                              [](const Tensor& t) { return gelu(t, "tanh"); }};
                   return functions[o.step.n[0]](o.in[0]);
                 },
                 false, true});
  ops.push_back({"residual", 6, true,
                 [](Chooser& c, Step& s) {
                   return c.take(s, floats) && c.take(s, [&](size_t v) {
                     return c.first(v).dtype() == dtype_of(c, s) && c.dim(v) == c.dim(s.in[0]) &&
                            c.is_broadcastable(v, s.in[0]);
                   });
                 },
                 [](const Operands& o) { return o.in[0] + o.in[1]; }, false, true});
  ops.push_back({"attention", 4, true,
                 [](Chooser& c, Step& s) {
                   s.n = {c.below(2)};
                   return take_channels(c, s, -1, 3, 4).has_value();
                 },
                 [](const Operands& o) {
                   const Tensor& t = o.in[0];
                   return scaled_dot_product_attention(t * 0.25, t * 0.25, t, {}, 0, o.step.n[0]);
                 },
                 false, true});
  ops.push_back({"gate", 2, true,
                 [](Chooser& c, Step& s) {
                   auto channels = take_channels(c, s, 1, 2, 4);
                   return channels && *channels % 2 == 0;
                 },
                 [](const Operands& o) { return glu(o.in[0], 1); }, false, true});
}

void add_views(std::vector<RandomOp>& ops) {
  ops.push_back({"some channels", 6, false,
                 [](Chooser& c, Step& s) {
                   auto channels = take_channels(c, s, 1, 2, 5);
                   if (!channels || *channels < 2) return false;
                   int64_t first = c.once_in(2) ? 0 : c.below(*channels - 1);
                   s.n = {first, c.between(1, *channels - first)};
                   return true;
                 },
                 [](const Operands& o) { return o.in[0].narrow(1, o.step.n[0], o.step.n[1]); },
                 false, true});
  ops.push_back({"joined channels", 3, false,
                 [](Chooser& c, Step& s) {
                   if (!take_channels(c, s, 1, 2, 4)) return false;
                   return c.take(s, [&](size_t v) {
                     bool fits = c.first(v).dtype() == dtype_of(c, s) &&
                                 c.dim(v) == c.dim(s.in[0]) && !c.is_empty(v);
                     for (int64_t d = 0; fits && d < c.dim(v); ++d)
                       for (size_t r = 0; r < c.pool[v].narrow.size(); ++r)
                         fits &= d == 1 || c.pool[v].narrow[r].size(d).guard_int() ==
                                               c.pool[s.in[0]].narrow[r].size(d).guard_int();
                     return fits;
                   });
                 },
                 [](const Operands& o) { return cat(o.in, 1); }, false, true});
  ops.push_back({"shuffled channels", 3, false,
                 [](Chooser& c, Step& s) {
                   auto channels = take_channels(c, s, 1, 3, 4);
                   return channels && *channels % 2 == 0;
                 },
                 [](const Operands& o) {
                   return o.in[0].unflatten(1, {2, -1}).transpose(1, 2).flatten(1, 2);
                 },
                 false, true});
  ops.push_back({"rows of an image", 3, false,
                 [](Chooser& c, Step& s) { return take_channels(c, s, 1, 3, 4).has_value(); },
                 [](const Operands& o) { return o.in[0].flatten(2).transpose(1, 2); }, false,
                 true});
  ops.push_back({"heads", 3, false,
                 [](Chooser& c, Step& s) {
                   auto channels = take_channels(c, s, -1, 3, 3);
                   return channels && *channels % 2 == 0;
                 },
                 [](const Operands& o) {
                   return o.in[0].unflatten(-1, {2, -1}).transpose(1, 2);
                 },
                 false, true});
  ops.push_back({"larger image", 2, true,
                 [](Chooser& c, Step& s) {
                   s.n = {c.below(2)};
                   return take_channels(c, s, 1, 4, 4) && is_finite(c.pool[s.in[0]]);
                 },
                 [](const Operands& o) {
                   SymInt h = o.in[0].size(2) * 2, w = o.in[0].size(3) * 2;
                   return o.step.n[0] ? upsample_bilinear2d(o.in[0], {h, w}, false)
                                      : upsample_nearest2d(o.in[0], {h, w});
                 },
                 false, true});
}

}  // namespace

void add_layer_ops(std::vector<RandomOp>& ops) {
  add_linear(ops);
  add_convolutions(ops);
  add_norms(ops);
  add_functions(ops);
  add_views(ops);
}

}  // namespace tenon::random_graphs
