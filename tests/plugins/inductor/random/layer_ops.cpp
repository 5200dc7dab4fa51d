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

/// Of each dimension of the windows, as n tells them after the groups.
struct Windows {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  explicit Windows(const std::vector<int64_t>& n) {
    for (size_t i = 1; i + 3 < n.size(); i += 4) {
      stride.push_back(n[i]), padding.push_back(n[i + 1]);
      dilation.push_back(n[i + 2]), output_padding.push_back(n[i + 3]);
    }
  }
};

/// Windows of every dimension; their sizes go to the weight's.
void choose_windows(Chooser& c, Step& s, std::vector<int64_t>& sizes) {
  for (int64_t d = 2; d < c.dim(s.in[0]); ++d) {
    // Whether one window is left would be a guard.
    bool is_fixed = c.fixed_size(s.in[0], d).has_value();
    int64_t kernel = c.between(1, 3) + c.once_in(5);
    int64_t stride = is_fixed ? c.between(1, 2) + c.once_in(6) : 1;
    int64_t dilation = c.once_in(4) ? 2 : 1;
    sizes.push_back(kernel), s.terms *= double(kernel);
    s.n.insert(s.n.end(), {stride, c.below(kernel), dilation, c.below(std::max(stride, dilation))});
  }
}

bool choose_convolution(Chooser& c, Step& s, bool transposed) {
  auto channels = take_channels(c, s, 1, 3, 5);
  // In bf16 oneDNN adds a tap of weight 0 to an odd number of them, as in PyTorch.
  if (!channels || (epsilon_of(dtype_of(c, s)) > 1e-4 && !is_finite(c.pool[s.in[0]]))) return false;
  int64_t groups = c.once_in(4) ? *channels : c.once_in(4) && *channels % 2 == 0 ? 2 : 1;
  int64_t out = groups * c.between(1, groups > 4 ? 2 : 8);
  s.n = {groups};
  std::vector<int64_t> sizes{out, *channels / groups};
  if (transposed) sizes = {*channels, out / groups};
  s.terms = double(*channels / groups);
  choose_windows(c, s, sizes);
  s.weights.push_back(eighths(c, sizes, dtype_of(c, s)));
  if (c.once_in(2)) s.weights.push_back(eighths(c, {out}, dtype_of(c, s)));
  return true;
}

void add_convolutions(std::vector<RandomOp>& ops) {
  ops.push_back({"convolution", 10, true,
                 [](Chooser& c, Step& s) { return choose_convolution(c, s, false); },
                 [](const Operands& o) {
                   Windows w(o.step.n);
                   auto of = w.stride.size() == 1 ? conv1d : w.stride.size() == 2 ? conv2d : conv3d;
                   return of(o.in[0], o.weight(0), o.weight(1), SymIntList(w.stride),
                             SymIntList(w.padding), SymIntList(w.dilation), o.step.n[0]);
                 },
                 false, true});
  ops.push_back({"transposed convolution", 4, true,
                 [](Chooser& c, Step& s) { return choose_convolution(c, s, true); },
                 [](const Operands& o) {
                   Windows w(o.step.n);
                   auto of = w.stride.size() == 1   ? conv_transpose1d
                             : w.stride.size() == 2 ? conv_transpose2d
                                                    : conv_transpose3d;
                   return of(o.in[0], o.weight(0), o.weight(1), SymIntList(w.stride),
                             SymIntList(w.padding), SymIntList(w.output_padding), o.step.n[0],
                             SymIntList(w.dilation));
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

/// The mask of a kind: none, two of truth, of which the second leaves rows without a key, numbers.
Tensor mask_of(int64_t kind, const Tensor& query, const Tensor& key) {
  Tensor row = count_on(query, query.size(-2)).unsqueeze(1);
  Tensor column = count_on(key, key.size(-2));
  if (kind == 2) return row + 2 > column;
  if (kind == 3) return logical_and(row.remainder(3) != 0, column != row);
  return kind == 4 ? (row - column).to(query.dtype()) * 0.125 : Tensor();
}

void add_attention(std::vector<RandomOp>& ops) {
  ops.push_back({"attention", 6, true,
                 [](Chooser& c, Step& s) {
                   // What numbers that are none do behind a mask is the library's choice on a GPU.
                   if (!take_channels(c, s, -1, 3, 4) || !is_finite(c.pool[s.in[0]])) return false;
                   // Keys and values may be fewer than queries where these are of a fixed number.
                   auto rows = c.fixed_size(s.in[0], -2);
                   s.n = {c.below(5), rows && c.once_in(3) ? c.below(*rows) : 0, c.below(3)};
                   return true;
                 },
                 [](const Operands& o) {
                   Tensor query = o.in[0] * 0.25, value = o.in[0];
                   if (o.step.n[1]) value = value.narrow(-2, 0, value.size(-2) - o.step.n[1]);
                   Tensor key = value * 0.25;
                   auto scale = o.step.n[2] ? std::nullopt : std::optional<double>(0.3);
                   return scaled_dot_product_attention(query, key, value,
                                                       mask_of(o.step.n[0], query, key), 0,
                                                       o.step.n[0] == 1, scale);
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
}

}  // namespace

void add_layer_ops(std::vector<RandomOp>& ops) {
  add_linear(ops);
  add_convolutions(ops);
  add_norms(ops);
  add_attention(ops);
  add_functions(ops);
  add_views(ops);
}

}  // namespace tenon::random_graphs
