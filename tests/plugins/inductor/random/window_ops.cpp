// Windows that networks move over rows, images and volumes: pools, interpolation, pads, im2col.
#include "random_graph.h"

#include <algorithm>

namespace tenon::random_graphs {

namespace {

bool has_no_specials(const Chooser& c, size_t v) {
  return std::ranges::all_of(c.pool[v].narrow,
                             [](const Tensor& t) { return isfinite(t).all().item<bool>(); });
}

/// Floats with a batch, channels and one to three dimensions of `least` elements each.
bool take_volume(Chooser& c, Step& s, int64_t least, int64_t low = 3, int64_t high = 5) {
  return c.take(s, [&](size_t v) {
    if (!c.is_of(v, floats) || c.dim(v) < low || c.dim(v) > high || c.is_empty(v)) return false;
    for (int64_t d = 2; d < c.dim(v); ++d)
      if (!c.has_size(v, d, least)) return false;
    return true;
  });
}

/// Of a pool, as n tells them: whether its last window may be cut, whether padding counts, and for
/// each dimension kernel, stride, padding, dilation.
struct Pool {
  bool ceil, counts;
  std::vector<int64_t> kernel, stride, padding, dilation;
  explicit Pool(const std::vector<int64_t>& n) : ceil(n[0]), counts(n[1]) {
    for (size_t i = 2; i + 3 < n.size(); i += 4) {
      kernel.push_back(n[i]), stride.push_back(n[i + 1]);
      padding.push_back(n[i + 2]), dilation.push_back(n[i + 3]);
    }
  }
};

bool choose_pool(Chooser& c, Step& s) {
  s.n = {c.once_in(3), c.below(2)};
  if (!take_volume(c, s, 3)) return false;
  for (int64_t d = 2; d < c.dim(s.in[0]); ++d) {
    int64_t kernel = c.between(1, 3), dilation = c.once_in(6) && kernel == 2 ? 2 : 1;
    s.n.insert(s.n.end(), {kernel, c.between(1, 3), c.below(kernel / 2 + 1), dilation});
    // Whether the last window is cut is a guard on a symbolic size, as in PyTorch.
    if (!c.fixed_size(s.in[0], d)) s.n[0] = 0;
  }
  return true;
}

Tensor max_pooled(const Operands& o) {
  Pool p(o.step.n);
  auto of = o.in[0].dim() == 3 ? max_pool1d : o.in[0].dim() == 4 ? max_pool2d : max_pool3d;
  return of(o.in[0], p.kernel, p.stride, p.padding, p.dilation, p.ceil);
}

Tensor averaged(const Operands& o) {
  Pool p(o.step.n);
  if (o.in[0].dim() == 3)
    return avg_pool1d(o.in[0], p.kernel, p.stride, p.padding, p.ceil, p.counts);
  auto of = o.in[0].dim() == 4 ? avg_pool2d : avg_pool3d;
  return of(o.in[0], p.kernel, p.stride, p.padding, p.ceil, p.counts, std::nullopt);
}

/// Sizes of results in n, behind a kind.
bool choose_sizes(Chooser& c, Step& s, int64_t kinds) {
  s.n = {c.below(kinds)};
  if (!take_volume(c, s, 1)) return false;
  for (int64_t d = 2; d < c.dim(s.in[0]); ++d) s.n.push_back(c.between(1, 9));
  return true;
}

std::vector<int64_t> sizes_of(const Step& step) { return {step.n.begin() + 1, step.n.end()}; }

void add_pools(std::vector<RandomOp>& ops) {
  ops.push_back({"max_pool", 4, false, choose_pool, max_pooled});
  ops.push_back(
      {"avg_pool", 4, true,
       [](Chooser& c, Step& s) { return choose_pool(c, s) && has_no_specials(c, s.in[0]); },
       averaged});
  ops.push_back({"adaptive_avg_pool", 3, true,
                 [](Chooser& c, Step& s) { return choose_sizes(c, s, 1); },
                 [](const Operands& o) {
                   std::vector<int64_t> sizes = sizes_of(o.step);
                   if (sizes.size() == 1) return adaptive_avg_pool1d(o.in[0], sizes);
                   auto of = sizes.size() == 2 ? adaptive_avg_pool2d : adaptive_avg_pool3d;
                   return of(o.in[0], SymIntList(sizes));
                 }});
  ops.push_back({"adaptive_max_pool", 2, false,
                 [](Chooser& c, Step& s) { return choose_sizes(c, s, 1) && c.dim(s.in[0]) == 4; },
                 [](const Operands& o) {
                   return std::get<0>(adaptive_max_pool2d(o.in[0], sizes_of(o.step)));
                 }});
}

Tensor resized(const Operands& o) {
  const Tensor& t = o.in[0];
  std::vector<int64_t> sizes = sizes_of(o.step);
  int64_t kind = o.step.n[0];
  SymIntList to(sizes);
  bool aligned = kind % 2;
  if (t.dim() == 3) return kind < 2 ? upsample_nearest1d(t, to) : upsample_linear1d(t, to, aligned);
  if (t.dim() == 5)
    return kind < 2 ? upsample_nearest3d(t, to) : upsample_trilinear3d(t, to, aligned);
  if (kind >= 4) return upsample_bicubic2d(t, to, aligned);
  if (kind >= 2) return upsample_bilinear2d(t, to, aligned);
  return aligned ? _upsample_nearest_exact2d(t, to) : upsample_nearest2d(t, to);
}

Tensor twice_as_large(const Operands& o) {
  const Tensor& t = o.in[0];
  SymInt h = t.size(2) * 2, w = t.size(3) * 2;
  return o.step.n[0] ? upsample_bilinear2d(t, {h, w}, false) : upsample_nearest2d(t, {h, w});
}

void add_interpolation(std::vector<RandomOp>& ops) {
  ops.push_back(
      {"resized", 4, true,
       [](Chooser& c, Step& s) { return choose_sizes(c, s, 6) && has_no_specials(c, s.in[0]); },
       resized});
  ops.push_back({"larger image", 2, true,
                 [](Chooser& c, Step& s) {
                   s.n = {c.below(2)};
                   return take_volume(c, s, 1, 4, 4) && has_no_specials(c, s.in[0]);
                 },
                 twice_as_large, false, true});
  ops.push_back({"grid_sample", 2, true,
                 [](Chooser& c, Step& s) {
                   s.n = {c.below(2), c.below(3), c.below(2)};
                   return take_volume(c, s, 2, 4, 4) && has_no_specials(c, s.in[0]) &&
                          c.is_smooth(s.in[0]);
                 },
                 [](const Operands& o) {
                   // A grid of its own numbers, which lie between the places that rounding decides.
                   const Tensor& t = o.in[0];
                   Tensor x = count_on(t, t.size(2), t.dtype()).unsqueeze(1) * 0.37 - 0.93;
                   Tensor y = count_on(t, t.size(3), t.dtype()) * 0.29 - 0.81;
                   Tensor grid = stack({x + y * 0.5, y - x * 0.25}, -1).unsqueeze(0);
                   grid = grid.expand({t.size(0), t.size(2), t.size(3), SymInt(2)});
                   return grid_sampler_2d(t, grid, 0, o.step.n[1], o.step.n[2]);
                 }});
}

void add_pads(std::vector<RandomOp>& ops) {
  ops.push_back({"padded", 6, false,
                 [](Chooser& c, Step& s) {
                   s.n = {c.below(3)};
                   if (!take_volume(c, s, 3)) return false;
                   for (int64_t d = 2; d < c.dim(s.in[0]); ++d)
                     s.n.insert(s.n.end(), {c.below(3), c.below(3)});
                   return true;
                 },
                 [](const Operands& o) {
                   constexpr const char* modes[] = {"reflect", "replicate", "circular"};
                   return pad(o.in[0], SymIntList(sizes_of(o.step)), modes[o.step.n[0]]);
                 }});
}

void add_columns(std::vector<RandomOp>& ops) {
  ops.push_back({"im2col", 2, false,
                 [](Chooser& c, Step& s) {
                   s.n = {c.between(1, 3), c.between(1, 2), c.below(2), c.between(1, 2)};
                   return take_volume(c, s, 3, 4, 4);
                 },
                 [](const Operands& o) {
                   const auto& n = o.step.n;
                   return im2col(o.in[0], {n[0], n[1]}, {1, 1}, {n[2], 0}, {n[3], 1});
                 }});
  ops.push_back(
      {"columns and back", 2, true,
       [](Chooser& c, Step& s) {
         s.n = {c.between(1, 3), c.between(1, 2)};
         return take_volume(c, s, 3, 4, 4);
       },
       [](const Operands& o) {
         const Tensor& t = o.in[0];
         const auto& n = o.step.n;
         Tensor columns = im2col(t, {n[0], n[0]}, {1, 1}, {1, 0}, {n[1], n[1]});
         return col2im(columns, {t.size(2), t.size(3)}, {n[0], n[0]}, {1, 1}, {1, 0}, {n[1], n[1]});
       }});
  ops.push_back({"pixel_shuffle", 2, false,
                 [](Chooser& c, Step& s) {
                   s.n = {c.between(2, 3)};
                   return take_volume(c, s, 1, 4, 4) &&
                          c.fixed_size(s.in[0], 1).value_or(1) % (s.n[0] * s.n[0]) == 0;
                 },
                 [](const Operands& o) { return pixel_shuffle(o.in[0], o.step.n[0]); }});
}

}  // namespace

void add_window_ops(std::vector<RandomOp>& ops) {
  add_pools(ops);
  add_interpolation(ops);
  add_pads(ops);
  add_columns(ops);
}

}  // namespace tenon::random_graphs
