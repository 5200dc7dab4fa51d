// Windows, and what is made of them.
#include "convolution_steps.h"

#include <limits>

namespace inductor_cuda {

using loopir::Convolution;
using loopir::ConvolutionGradient;
using loopir::EpilogueOp;
using loopir::none;
using loopir::Product;
using loopir::View;

namespace {

constexpr int64_t small_work = 1 << 18;  // multiplications

}  // namespace

/// A convolution of `source` and `weights`, whichever of its three tensors is wanted.
struct ConvolutionSteps::Shape {
  View source, weights;  // [n, c, 3 of space], [o, c of a group, 3 of taps]
  Ids pixels;            // of a result, 3
  const int64_t *stride, *padding, *dilation;
  int64_t groups;
  int32_t dtype;
  std::string name;
  Id images, channels, results, taps, depth, pixel_count;  // channels and results: of a group

  /// Whether its windows are its source.
  bool is_pointwise = true;
};

/// Images [first, first + count).
struct ConvolutionSteps::Part {
  Id first, count;
};

ConvolutionSteps::Shape ConvolutionSteps::shape_of(const View& source, const View& weights,
                                                   const View& result, const int64_t* stride,
                                                   const int64_t* padding, const int64_t* dilation,
                                                   int64_t groups, int32_t dtype,
                                                   std::string name) {
  Shape s{.source = source,
          .weights = weights,
          .pixels = {result.sizes.begin() + 2, result.sizes.end()},
          .stride = stride,
          .padding = padding,
          .dilation = dilation,
          .groups = groups,
          .dtype = dtype,
          .name = std::move(name),
          .images = result.sizes[0],
          .channels = weights.sizes[1],
          .results = x_.floordiv(weights.sizes[0], x_.constant(groups)),
          .taps = x_.product_of(std::span(weights.sizes).subspan(2)),
          .depth = none,
          .pixel_count = none};
  s.depth = x_.multiply(s.channels, s.taps);
  s.pixel_count = x_.product_of(s.pixels);
  s.is_pointwise = groups == 1 && x_.is(s.taps, 1);
  // A source may have more than its windows reach: what a transposed convolution adds at its end.
  for (size_t d = 0; d < 3; ++d)
    s.is_pointwise &= stride[d] == 1 && padding[d] == 0 && source.sizes[2 + d] == s.pixels[d];
  return s;
}

bool ConvolutionSteps::is_better_as_sum(const Shape& s) const {
  bool is_depthwise = s.groups > 1 && x_.is(s.channels, 1);
  int64_t work = s.groups;
  for (Id factor : {s.images, s.results, s.depth, s.pixel_count}) {
    auto known = x_.number_of(factor);
    if (!known) return is_depthwise;
    if (*known == 0) return true;
    work = work > small_work ? work : work * *known;
  }
  return is_depthwise || work <= small_work;
}

std::vector<ConvolutionSteps::Part> ConvolutionSteps::parts_of(const Shape& s) const {
  auto images = x_.number_of(s.images), depth = x_.number_of(s.depth),
       pixels = x_.number_of(s.pixel_count);
  if (!images || !depth || !pixels) return {{x_.constant(0), s.images}};
  int64_t image_bytes =
      loopir::checked_multiply(loopir::checked_multiply(*depth, s.groups), *pixels) *
      loopir::item_size(s.dtype);
  int64_t together =
      std::max<int64_t>(options_.windows_bytes / std::max<int64_t>(image_bytes, 1), 1);
  std::vector<Part> out;
  for (int64_t first = 0; first < *images; first += together)
    out.push_back({x_.constant(first), x_.constant(std::min(together, *images - first))});
  return out;
}

/// The dimensions behind the first `kept` as one, where they lie so.
std::optional<View> ConvolutionSteps::flat(const View& v, size_t kept) const {
  Id step = none, next = none;
  for (size_t d = v.sizes.size(); d-- > kept;) {
    if (x_.is(v.sizes[d], 1)) continue;
    if (step == none) step = next = v.strides[d];
    if (v.strides[d] != next) return std::nullopt;
    next = x_.multiply(next, v.sizes[d]);
  }
  View out = v;
  out.sizes.resize(kept), out.strides.resize(kept);
  out.sizes.push_back(x_.product_of(std::span(v.sizes).subspan(kept)));
  out.strides.push_back(step == none ? x_.constant(1) : step);
  return out;
}

View ConvolutionSteps::dense(const View& v, const std::string& name) {
  if (v.strides == l_.dense_strides(v.sizes)) return v;
  View out = l_.temporary(l_.dtype_of(v), v.sizes, name);
  Ids own = l_.variables(v.sizes);
  l_.store(out, own, l_.at(v, own), name);
  return out;
}

void ConvolutionSteps::multiply(const Shape& s, View left, View right, View result, bool adds) {
  Product p;
  p.name = s.name;
  if (adds) p.epilogue.push_back({EpilogueOp::Kind::add, result});
  p.left = std::move(left), p.right = std::move(right), p.result = std::move(result);
  add_product_(std::move(p));
}

// [groups, channels, taps, images, pixels]; read as [groups, depth, images and pixels].
View ConvolutionSteps::windows(const Shape& s, const Part& part) {
  Ids sizes{x_.constant(s.groups), s.channels};
  sizes.insert(sizes.end(), s.weights.sizes.begin() + 2, s.weights.sizes.end());
  sizes.push_back(part.count);
  sizes.insert(sizes.end(), s.pixels.begin(), s.pixels.end());
  View out = l_.temporary(l_.dtype_of(s.source), sizes, s.name);
  Ids i = l_.variables(sizes);
  Ids source{x_.add(part.first, i[5]), x_.add(x_.multiply(i[0], s.channels), i[1])};
  Id mask = none;
  for (size_t d = 0; d < 3; ++d) {
    Id begin = x_.add(x_.multiply(i[6 + d], x_.constant(s.stride[d])), x_.constant(-s.padding[d]));
    source.push_back(x_.add(begin, x_.multiply(i[2 + d], x_.constant(s.dilation[d]))));
    if (s.padding[d]) mask = l_.both(mask, l_.is_within(source.back(), s.source.sizes[2 + d]));
  }
  l_.store(out, i, l_.at(s.source, source, mask), s.name);
  Id columns = x_.multiply(part.count, s.pixel_count);
  return {out.buffer,
          x_.constant(0),
          {x_.constant(s.groups), s.depth, columns},
          {x_.multiply(s.depth, columns), columns, x_.constant(1)}};
}

// Images of results as [groups, results, images and pixels].
View ConvolutionSteps::by_channels(const Shape& s, const View& images, const Part& part) {
  Id groups = x_.constant(s.groups), columns = x_.multiply(part.count, s.pixel_count);
  std::optional<View> matrix = flat(images, 2);
  if (x_.is(s.images, 1) && matrix)
    return {matrix->buffer,
            matrix->offset,
            {groups, s.results, columns},
            {x_.multiply(s.results, matrix->strides[1]), matrix->strides[1], matrix->strides[2]}};
  Ids sizes{images.sizes[1], part.count};
  sizes.insert(sizes.end(), s.pixels.begin(), s.pixels.end());
  View out = l_.temporary(l_.dtype_of(images), sizes, s.name);
  Ids i = l_.variables(sizes);
  l_.store(out, i, l_.at(images, {x_.add(part.first, i[1]), i[0], i[2], i[3], i[4]}), s.name);
  return {out.buffer,
          x_.constant(0),
          {groups, s.results, columns},
          {x_.multiply(s.results, columns), columns, x_.constant(1)}};
}

// result[n] = left x source[n] + bias, each image by itself; left is [rows, channels].
bool ConvolutionSteps::pixel_by_pixel(const Shape& s, const View& left, const View& source,
                                      const View& result, const std::optional<View>& bias) {
  std::optional<View> from = flat(source, 2), to = flat(result, 2);
  if (!s.is_pointwise || !from || !to) return false;
  View repeated = left;
  repeated.sizes.insert(repeated.sizes.begin(), s.images);
  repeated.strides.insert(repeated.strides.begin(), x_.constant(0));
  if (!bias) {
    multiply(s, repeated, *from, *to);
    return true;
  }
  int32_t sums = summed_in(s.dtype);
  View made = l_.temporary(sums, result.sizes, s.name);
  multiply(s, repeated, *from, *flat(made, 2));
  Ids i = l_.variables(result.sizes);
  Id added = x_.cast(l_.at(*bias, {i[1]}), sums);
  l_.store(result, i, x_.apply(TN_F_ADD, sums, l_.at(made, i), added), s.name);
  return true;
}

bool ConvolutionSteps::add(const Convolution& c) {
  Shape s = shape_of(c.source, c.weights, c.result, c.stride, c.padding, c.dilation, c.groups,
                     c.dtype, c.name);
  if (is_better_as_sum(s)) return false;
  if (dnn_ && dnn_->add(c)) return true;
  s.weights = dense(c.weights, c.name);
  View left = *flat(s.weights, 1);
  if (pixel_by_pixel(s, left, c.source, c.result, c.bias)) return true;

  // Sums as [results, images, pixels], and a loop that puts them in their places.
  int32_t sums = c.bias ? summed_in(c.dtype) : l_.dtype_of(c.result);
  Ids sizes{c.result.sizes[1], c.result.sizes[0]};
  sizes.insert(sizes.end(), s.pixels.begin(), s.pixels.end());
  View made = l_.temporary(sums, sizes, c.name);
  Id groups = x_.constant(c.groups), all = x_.multiply(s.images, s.pixel_count);
  View of_group{left.buffer,
                left.offset,
                {groups, s.results, s.depth},
                {x_.multiply(s.results, s.depth), s.depth, x_.constant(1)}};
  for (const Part& part : parts_of(s)) {
    View columns = windows(s, part);
    View result{made.buffer,
                x_.multiply(part.first, s.pixel_count),
                {groups, s.results, columns.sizes[2]},
                {x_.multiply(s.results, all), all, x_.constant(1)}};
    multiply(s, of_group, columns, result);
  }
  Ids i = l_.variables(c.result.sizes);
  Id value = l_.at(made, {i[1], i[0], i[2], i[3], i[4]});
  if (c.bias) value = x_.apply(TN_F_ADD, sums, value, x_.cast(l_.at(*c.bias, {i[1]}), sums));
  l_.store(c.result, i, value, c.name);
  return true;
}

// Sums over parts of the images are in the dtype of sums.
void ConvolutionSteps::gradient_of_weights(const Shape& s, const View& gradient,
                                           const View& result) {
  std::vector<Part> parts = parts_of(s);
  bool is_direct = parts.size() == 1 && result.strides == l_.dense_strides(result.sizes);
  View to = is_direct ? result : l_.temporary(summed_in(s.dtype), result.sizes, s.name);
  View rows = *flat(to, 1);
  Id groups = x_.constant(s.groups);
  View of_group{rows.buffer,
                rows.offset,
                {groups, s.results, s.depth},
                {x_.multiply(s.results, s.depth), s.depth, x_.constant(1)}};
  for (size_t p = 0; p < parts.size(); ++p) {
    View left = by_channels(s, gradient, parts[p]), right = windows(s, parts[p]);
    std::swap(right.sizes[1], right.sizes[2]), std::swap(right.strides[1], right.strides[2]);
    multiply(s, left, right, of_group, p > 0);
  }
  if (is_direct) return;
  Ids i = l_.variables(result.sizes);
  l_.store(result, i, l_.at(to, i), s.name);
}

// Each element of the source takes in the windows that have it.
void ConvolutionSteps::put_together(const Shape& s, const View& columns, const Part& part,
                                    const View& result) {
  Ids sizes = result.sizes;
  sizes[0] = part.count;
  Ids i = l_.variables(sizes);
  Ids taps = l_.variables({s.weights.sizes.begin() + 2, s.weights.sizes.end()});
  Ids from{
      x_.floordiv(i[1], s.channels), x_.mod(i[1], s.channels), taps[0], taps[1], taps[2], i[0]};
  Id mask = none;
  for (size_t d = 0; d < 3; ++d) {
    Id first = x_.add(i[2 + d], x_.constant(s.padding[d]));
    Id moved = x_.subtract(first, x_.multiply(taps[d], x_.constant(s.dilation[d])));
    Id stride = x_.constant(s.stride[d]);
    from.push_back(x_.floordiv(moved, stride));
    mask = l_.both(mask, l_.is_within(from.back(), s.pixels[d]));
    if (s.stride[d] > 1)
      mask = l_.both(mask, x_.apply(TN_F_EQ, TN_BOOL, x_.index_value(x_.mod(moved, stride)),
                                    x_.number(int64_t{0}, TN_I64)));
  }
  int32_t dtype = l_.dtype_of(columns);
  View sums = l_.sum(sizes, i, taps, l_.at(columns, from, mask), dtype, s.name);
  Ids own = l_.variables(sizes);
  View to = result;
  to.offset = x_.add(to.offset, x_.multiply(part.first, to.strides[0]));
  l_.store(to, own, l_.at(sums, own), s.name);
}

// result[n, c, y] = sum over taps of columns[c, tap, n, (y + padding - tap * dilation) / stride].
void ConvolutionSteps::gradient_of_source(const Shape& s, const View& gradient,
                                          const View& result) {
  Id groups = x_.constant(s.groups);
  View left{s.weights.buffer,
            s.weights.offset,
            {groups, s.depth, s.results},
            {x_.multiply(s.results, s.depth), x_.constant(1), s.depth}};
  int32_t sums = summed_in(s.dtype);
  for (const Part& part : parts_of(s)) {
    Ids sizes{groups, s.channels};
    sizes.insert(sizes.end(), s.weights.sizes.begin() + 2, s.weights.sizes.end());
    sizes.push_back(part.count);
    sizes.insert(sizes.end(), s.pixels.begin(), s.pixels.end());
    View columns = l_.temporary(sums, sizes, s.name);
    Id count = x_.multiply(part.count, s.pixel_count);
    multiply(s, left, by_channels(s, gradient, part),
             {columns.buffer,
              x_.constant(0),
              {groups, s.depth, count},
              {x_.multiply(s.depth, count), count, x_.constant(1)}});
    put_together(s, columns, part, result);
  }
}

bool ConvolutionSteps::add(const ConvolutionGradient& g) {
  const View& weights = g.of_weights ? g.result : g.operand;
  const View& source = g.of_weights ? g.operand : g.result;
  Shape s = shape_of(source, weights, g.gradient, g.stride, g.padding, g.dilation, g.groups,
                     g.dtype, g.name);
  if (is_better_as_sum(s)) return false;
  if (dnn_ && dnn_->add(g)) return true;
  if (g.of_weights) {
    gradient_of_weights(s, g.gradient, g.result);
    return true;
  }
  s.weights = dense(weights, g.name);
  View transposed = *flat(s.weights, 1);
  std::swap(transposed.sizes[0], transposed.sizes[1]);
  std::swap(transposed.strides[0], transposed.strides[1]);
  if (!pixel_by_pixel(s, transposed, g.gradient, g.result, std::nullopt))
    gradient_of_source(s, g.gradient, g.result);
  return true;
}

}  // namespace inductor_cuda
