// 2-d convolution of NCHW or channels-last tensors through oneDNN's channels-last kernels.
//
// Problem: oneDNN's own threads cannot be used (the host has one pool), and its kernels want
// channels-last or blocked data where programs mostly have NCHW.
//
// Method: the work is cut into slices, each a dense primitive of its own on one thread.
//   images          when there are as many as workers;
//   output rows     else: a slice reads its rows and the halo, with its own padding at the border;
//   output channels else, for maps of less than 14 rows that are not depthwise: there the weights
//                   are the heavy part, and rows would make every worker read all of them.
// A slice whose tensors are not channels-last brings its part of the source into a channels-last
// tile, runs, and brings the tile of the result back: tiles stay in the second-level cache, no
// whole copy of a tensor is ever made, and no worker waits for another. A channel slice always has
// such a tile, since oneDNN's fast kernels refuse a strided channels-last result.
//
// Cost, measured on two cores with AVX-512: threads.md of the design has the table for
// channels-last; the README of kernels_onednn the one for NCHW against PyTorch.
#include "post_ops.h"
#include "tile.h"
#include "types.h"

#include <algorithm>

namespace onednn {

namespace {

/// Rows and channels of one image's result, and the source rows that they need.
struct Slice {
  int64_t row, rows, channel, channels;
  int64_t source_row, source_rows, padding_top, padding_bottom;
  size_t packed;  // where its weights begin, in bytes
  Primitive primitive;
  Move bring, bring_operand, give_back;
};

bool is_depthwise(const ConvolutionShape& c) { return c.groups > 1 && c.groups == c.channels; }

// With the groups as a dimension of its own, where there are some.
Dims weights_sizes(const ConvolutionShape& c, int64_t out_channels) {
  Dims sizes{out_channels, c.channels / c.groups, c.kernel[0], c.kernel[1]};
  if (c.groups == 1) return sizes;
  sizes[0] /= c.groups;
  sizes.insert(sizes.begin(), c.groups);
  return sizes;
}

/// The geometry of a slice as oneDNN's operation.
dnnl::convolution_forward::desc describe_slice(const ConvolutionShape& c, const Slice& s,
                                               const Desc* weights_layout) {
  using tag = dnnl::memory::format_tag;
  using conv = dnnl::convolution_forward;
  auto type = data_type(c.dtype);
  Desc source({1, c.channels, s.source_rows, c.width}, type, tag::nhwc);
  Desc result({1, s.channels, s.rows, c.out_width}, type, tag::nhwc);
  Desc weights =
      weights_layout ? *weights_layout : Desc(weights_sizes(c, s.channels), type, tag::any);
  Desc bias = c.bias ? Desc({s.channels}, type, tag::x) : Desc();
  Dims stride{c.stride[0], c.stride[1]}, dilation{c.dilation[0] - 1, c.dilation[1] - 1};
  int64_t right = (c.out_width - 1) * c.stride[1] + (c.kernel[1] - 1) * c.dilation[1] + 1 -
                  c.width - c.padding[1];
  Dims begin{s.padding_top, c.padding[1]}, end{s.padding_bottom, right};
  auto kind = dnnl::prop_kind::forward_inference;
  auto direct = dnnl::algorithm::convolution_direct;
  return c.bias
             ? conv::desc(kind, direct, source, weights, bias, result, stride, dilation, begin, end)
             : conv::desc(kind, direct, source, weights, result, stride, dilation, begin, end);
}

Primitive make_primitive(const ConvolutionShape& c, const Slice& s,
                         const dnnl::primitive_attr& attr, const Desc* weights_layout,
                         int64_t sets) {
  using conv = dnnl::convolution_forward;
  auto pd = describe<conv::primitive_desc>(describe_slice(c, s, weights_layout), attr);
  if (!pd) return {};
  Call call(conv(pd), pd.scratchpad_desc(),
            {{DNNL_ARG_SRC, pd.src_desc()},
             {DNNL_ARG_WEIGHTS, as_bytes(pd.weights_desc())},
             {DNNL_ARG_BIAS, pd.bias_desc()},
             {DNNL_ARG_DST, pd.dst_desc()}},
            sets);
  return {std::move(call), pd.src_desc(), pd.weights_desc(), pd.dst_desc()};
}

// The source rows of result rows [row, row + rows), and how many of them lie outside.
void find_source_rows(const ConvolutionShape& c, Slice& s) {
  int64_t first = s.row * c.stride[0] - c.padding[0];
  int64_t last = first + (s.rows - 1) * c.stride[0] + (c.kernel[0] - 1) * c.dilation[0];
  s.padding_top = std::max<int64_t>(0, -first);
  s.source_row = std::max<int64_t>(0, first);
  // What is left of the source below the last slice is not read.
  s.padding_bottom = std::max<int64_t>(0, last - (c.height - 1));
  s.source_rows = std::min(last + 1, c.height) - s.source_row;
}

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// How the result of one image is cut.
struct Cut {
  int64_t rows, channels;  // of a slice
};

Cut choose_cut(const ConvolutionShape& c, int64_t workers) {
  constexpr int64_t few_rows = 14, channel_block = 64;
  constexpr int64_t tile_bytes = 1 << 20;  // source and result tile fit the second-level cache
  Cut whole{c.out_height, c.out_channels};
  int64_t per_image = c.out_channels * c.out_height * c.out_width * (c.channels / c.groups) *
                      c.kernel[0] * c.kernel[1];
  // A depthwise one loads as often as it multiplies, and takes ten times as long.
  int64_t effort = is_depthwise(c) ? 8 : 1;
  if (per_image * c.images * effort < small_work) return whole;
  int64_t parts = c.images >= workers ? 1 : divide_up(workers, c.images);
  bool heavy_weights = c.out_height < few_rows && !is_depthwise(c);
  if (heavy_weights && c.groups == 1 && parts > 1)
    return {c.out_height, divide_up(c.out_channels, parts * channel_block) * channel_block};
  bool tiles = !is_channels_last(c.out_channels, c.out_width, c.result_strides);
  int64_t bytes = (c.channels * c.height * c.width + whole.channels * c.out_height * c.out_width) *
                  element_size(c.dtype);
  if (tiles && !heavy_weights) parts *= divide_up(bytes, parts * tile_bytes);
  return {divide_up(c.out_height, std::min(parts, c.out_height)), c.out_channels};
}

}  // namespace

struct PreparedConvolution::Plan {
  ConvolutionShape shape;
  bool adds;
  int64_t sets;               // of arguments: images that run the same slice at the same time
  std::vector<Slice> slices;  // of each image
  size_t packed_bytes = 0;
  uint64_t layout = 0;

  bool by_channels() const { return slices.front().channels != shape.out_channels; }
  void add_moves(Slice& s) const;
  bool add(int64_t row, int64_t channel, const Cut& cut, const dnnl::primitive_attr& attr);
  bool cut(int64_t workers, const dnnl::primitive_attr& attr);
};

void PreparedConvolution::Plan::add_moves(Slice& s) const {
  const int64_t *from = shape.source_strides, *to = shape.result_strides;
  Part source{shape.channels, s.source_rows, shape.width, from, shape.dtype};
  if (!is_channels_last(shape.channels, shape.width, from))
    s.bring = Move(source, s.primitive.source, Move::Direction::to_tile, sets);
  Part result{s.channels, s.rows, shape.out_width, to, shape.dtype};
  if (s.channels == shape.out_channels && is_channels_last(s.channels, shape.out_width, to)) return;
  s.give_back = Move(result, s.primitive.result, Move::Direction::from_tile, sets);
  if (adds) s.bring_operand = Move(result, s.primitive.result, Move::Direction::to_tile, sets);
}

bool PreparedConvolution::Plan::add(int64_t row, int64_t channel, const Cut& cut,
                                    const dnnl::primitive_attr& attr) {
  Slice s{};
  s.row = row;
  s.rows = std::min(cut.rows, shape.out_height - row);
  s.channel = channel;
  s.channels = std::min(cut.channels, shape.out_channels - channel);
  find_source_rows(shape, s);
  if (s.source_rows <= 0) return false;  // a slice of padding only
  // One layout for all rows: they share the packed weights.
  const Slice* first = row > 0 ? &slices.back() : nullptr;
  s.primitive = make_primitive(shape, s, attr, first ? &first->primitive.weights : nullptr, sets);
  if (!s.primitive) return false;
  s.packed = first ? first->packed : packed_bytes;
  if (!first) {
    packed_bytes += round_up_to_line(s.primitive.weights.get_size());
    layout = layout * 31 + fingerprint(s.primitive.weights);
  }
  add_moves(s);
  slices.push_back(std::move(s));
  return true;
}

bool PreparedConvolution::Plan::cut(int64_t workers, const dnnl::primitive_attr& attr) {
  sets = std::min(workers, shape.images);
  Cut cut = choose_cut(shape, workers);
  for (int64_t channel = 0; channel < shape.out_channels; channel += cut.channels)
    for (int64_t row = 0; row < shape.out_height; row += cut.rows)
      if (!add(row, channel, cut, attr)) return false;
  return true;
}

std::shared_ptr<const PreparedConvolution> PreparedConvolution::make(
    const ConvolutionShape& shape, std::span<const PostOp> post_ops, int64_t workers) {
  return unless_unsupported([&]() -> std::shared_ptr<const PreparedConvolution> {
    OneThread limit;
    auto plan = std::make_unique<Plan>();
    plan->shape = shape;
    plan->adds = has_operand(post_ops);
    std::optional<dnnl::primitive_attr> attr = attributes(post_ops);
    if (!attr || !plan->cut(workers, *attr)) return nullptr;
    return std::shared_ptr<const PreparedConvolution>(new PreparedConvolution(std::move(plan)));
  });
}

PreparedConvolution::PreparedConvolution(std::unique_ptr<const Plan> plan)
    : plan_(std::move(plan)) {}
PreparedConvolution::~PreparedConvolution() = default;

size_t PreparedConvolution::packed_bytes() const { return plan_->packed_bytes; }
uint64_t PreparedConvolution::packed_layout() const { return plan_->layout; }
int64_t PreparedConvolution::slices() const {
  return plan_->shape.images * static_cast<int64_t>(plan_->slices.size());
}
int64_t PreparedConvolution::pack_parts() const {
  return plan_->by_channels() ? static_cast<int64_t>(plan_->slices.size()) : 1;
}

PreparedConvolution::Piece PreparedConvolution::piece(int64_t slice) const {
  auto per_image = static_cast<int64_t>(plan_->slices.size());
  const Slice& s = plan_->slices[static_cast<size_t>(slice % per_image)];
  return {slice / per_image, s.row, s.rows, s.channel, s.channels};
}

void PreparedConvolution::pack(const void* weights, const int64_t (&strides)[4],
                               void* packed) const {
  for (int64_t part = 0; part < pack_parts(); ++part) pack_part(part, weights, strides, packed);
}

void PreparedConvolution::pack_part(int64_t part, const void* weights, const int64_t (&strides)[4],
                                    void* packed) const {
  OneThread limit;
  const ConvolutionShape& c = plan_->shape;
  const Slice& s = plan_->slices[static_cast<size_t>(part)];
  Dims sizes = weights_sizes(c, s.channels), by(strides, strides + 4);
  if (c.groups > 1) by.insert(by.begin(), sizes[1] * strides[0]);
  Reorder(Desc(sizes, data_type(c.dtype), by), s.primitive.weights)(
      at(weights, s.channel * strides[0], c.dtype), static_cast<std::byte*>(packed) + s.packed);
}

void PreparedConvolution::run(int64_t slice, const void* source, const void* packed,
                              const void* bias, const void* operand, void* result) const {
  OneThread limit;
  const ConvolutionShape& c = plan_->shape;
  auto per_image = static_cast<int64_t>(plan_->slices.size());
  const Slice& s = plan_->slices[static_cast<size_t>(slice % per_image)];
  int64_t image = slice / per_image;
  const int64_t *in = c.source_strides, *out = c.result_strides;
  const void* from = at(source, image * in[0] + s.source_row * in[2], c.dtype);
  if (s.bring) {
    void* tile = scratch(Scratch::source_tile, s.primitive.source.get_size());
    s.bring(from, tile);
    from = tile;
  }
  int64_t in_result = image * out[0] + s.channel * out[1] + s.row * out[2];
  void *place = at(result, in_result, c.dtype), *to = place;
  if (s.give_back) to = scratch(Scratch::result_tile, s.primitive.result.get_size());
  if (plan_->adds) {
    const void* added = at(operand, in_result, c.dtype);
    if (s.bring_operand)
      s.bring_operand(added, to);
    else
      copy_rows({added, 0}, {to, 0}, 1, s.rows * c.out_width * c.out_channels, c.dtype);
  }
  const void* weights = static_cast<const std::byte*>(packed) + s.packed;
  s.primitive.run({from, weights, c.bias ? at(bias, s.channel, c.dtype) : nullptr, to});
  if (s.give_back) s.give_back(to, place);
}

}  // namespace onednn
