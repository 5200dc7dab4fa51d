// Convolution of tensors with channels first or last through oneDNN's channels-last kernels.
//
// Problem: oneDNN's own threads cannot be used (the host has one pool), and its kernels want
// channels-last or blocked data where programs mostly have NCHW.
//
// Method: the work is cut into slices, each a dense primitive of its own on one thread.
//   images          when there are as many as workers;
//   output rows     else: a slice reads its rows and the halo, with its own padding at the border
//                   (of 3-d tensors a row is all of one depth);
//   output channels else, for maps of less than 14 lines that are not depthwise: there the weights
//                   are the heavy part, and rows would make every worker read all of them.
// A slice whose tensors are not channels-last brings its part of the source into a channels-last
// tile, runs, and brings the tile of the result back: tiles stay in the second-level cache, no
// whole copy of a tensor is ever made, and no worker waits for another. A channel slice always has
// such a tile, since oneDNN's fast kernels refuse a strided channels-last result.
//
// Input channels beyond 512 products for a result are in blocks of at most 288 products, each a
// primitive that adds to the result: a chain of additions as long as oneDNN's own would have four
// times the error of other libraries. A block has a tile of its own, since oneDNN refuses a strided
// source; functions are applied behind the last one.
//
// Cost, measured on two cores with AVX-512: threads.md of the design has the table for
// channels-last; the README of kernels_onednn the one for NCHW against PyTorch.
#include "post_ops.h"
#include "tile.h"
#include "types.h"

#include <algorithm>
#include <limits>

namespace onednn {

namespace {

/// Input channels whose products are summed up in one chain.
struct Block {
  int64_t channel, channels;
  size_t packed;  // where its weights begin, in bytes
  Primitive primitive;
  Move bring;
};

/// Rows and channels of one image's result, and the source rows that they need.
struct Slice {
  int64_t row, rows, channel, channels;
  int64_t source_row, source_rows, padding_top, padding_bottom;
  std::vector<Block> blocks;
  Move bring_operand, give_back;

  const Desc& result() const { return blocks.front().primitive.result; }
};

// With the groups as a dimension of its own, where there are some.
Dims weights_sizes(const ConvolutionShape& c, int64_t out_channels) {
  Dims sizes{out_channels, c.channels / c.groups};
  sizes.insert(sizes.end(), c.kernel + c.first(), c.kernel + 3);
  if (c.groups == 1) return sizes;
  sizes[0] /= c.groups;
  sizes.insert(sizes.begin(), c.groups);
  return sizes;
}

// Rows of one image; the dimensions behind them are whole.
Dims slice_sizes(int64_t channels, int64_t rows, const int64_t (&space)[3], int first) {
  Dims sizes{1, channels, rows};
  sizes.insert(sizes.end(), space + first + 1, space + 3);
  return sizes;
}

/// The geometry of a slice as oneDNN's operation.
dnnl::convolution_forward::desc describe_slice(const ConvolutionShape& c, const Slice& s,
                                               const Desc* weights_layout) {
  using tag = dnnl::memory::format_tag;
  using conv = dnnl::convolution_forward;
  auto type = data_type(c.dtype);
  int first = c.first();
  tag last = first == 0 ? tag::ndhwc : tag::nhwc;
  Desc source(slice_sizes(c.channels, s.source_rows, c.source, first), type, last);
  Desc result(slice_sizes(s.channels, s.rows, c.result, first), type, last);
  Desc weights =
      weights_layout ? *weights_layout : Desc(weights_sizes(c, s.channels), type, tag::any);
  Desc bias = c.bias ? Desc({s.channels}, data_type(c.bias_dtype()), tag::x) : Desc();
  Dims stride(c.stride + first, c.stride + 3), dilation;
  for (int d = first; d < 3; ++d) dilation.push_back(c.dilation[d] - 1);
  Dims begin{s.padding_top}, end{s.padding_bottom};
  for (int d = first + 1; d < 3; ++d) {
    begin.push_back(c.padding[d]);
    end.push_back(c.padding_behind(d));
  }
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
  if (!pd || (c.dtype == TN_BF16 && emulates_bf16(pd))) return {};
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
  int d = c.first();
  int64_t first = s.row * c.stride[d] - c.padding[d];
  int64_t last = first + (s.rows - 1) * c.stride[d] + (c.kernel[d] - 1) * c.dilation[d];
  s.padding_top = std::max<int64_t>(0, -first);
  s.source_row = std::max<int64_t>(0, first);
  // What is left of the source below the last slice is not read.
  s.padding_bottom = std::max<int64_t>(0, last - (c.source[d] - 1));
  s.source_rows = std::min(last + 1, c.source[d]) - s.source_row;
}

int64_t volume(const int64_t (&space)[3]) { return space[0] * space[1] * space[2]; }

/// How the result of one image is cut.
struct Cut {
  int64_t rows, channels;  // of a slice
};

Cut choose_cut(const ConvolutionShape& c, int64_t workers) {
  constexpr int64_t few_lines = 14, channel_block = 64;
  constexpr int64_t tile_bytes = 1 << 20;  // source and result tile fit the second-level cache
  int64_t rows = c.result[c.first()];
  Cut whole{rows, c.out_channels};
  // A depthwise one loads as often as it multiplies, and takes ten times as long.
  int64_t effort = c.is_depthwise() ? 8 : 1;
  if (c.multiply_adds() * effort < small_work) return whole;
  int64_t parts = c.images >= workers ? 1 : divide_up(workers, c.images);
  bool few_rows = c.result[0] * c.result[1] < few_lines || (c.first() == 0 && rows < parts);
  bool heavy_weights = few_rows && !c.is_depthwise();
  if (heavy_weights && c.groups == 1 && parts > 1)
    return {rows, divide_up(c.out_channels, parts * channel_block) * channel_block};
  bool tiles = !is_channels_last(c.out_channels, c.result, c.result_strides);
  int64_t bytes =
      (c.channels * volume(c.source) + c.out_channels * volume(c.result)) * element_size(c.dtype);
  if (tiles && !heavy_weights) parts *= divide_up(bytes, parts * tile_bytes);
  return {divide_up(rows, std::min(parts, rows)), c.out_channels};
}

int64_t channels_of_block(const ConvolutionShape& c) {
  constexpr int64_t long_chain = 512, chain = 288, vector = 16;
  int64_t taps = volume(c.kernel);
  if (c.dtype != TN_F32 || c.groups != 1 || c.channels * taps <= long_chain) return c.channels;
  return std::max(vector, chain / taps / vector * vector);
}

/// What is done behind each block: the blocks before it are added, then come the functions.
struct BlockAttributes {
  std::optional<dnnl::primitive_attr> only, first, middle, last;

  explicit BlockAttributes(std::span<const PostOp> post_ops) : only(attributes(post_ops)) {
    // An operand that is added at once is what the first block adds to.
    bool adds_first = !post_ops.empty() && post_ops.front() == PostOp::add;
    std::vector<PostOp> rest{PostOp::add};
    rest.insert(rest.end(), post_ops.begin() + adds_first, post_ops.end());
    if (std::count(rest.begin(), rest.end(), PostOp::add) > 1) return;
    const PostOp add[] = {PostOp::add};
    first = adds_first ? attributes(add) : attributes({});
    middle = attributes(add);
    last = attributes(rest);
  }
  bool can_be_cut() const { return first && middle && last; }
  const dnnl::primitive_attr& of(size_t block, size_t count) const {
    return count == 1 ? *only : block == 0 ? *first : block + 1 == count ? *last : *middle;
  }
};

}  // namespace

struct PreparedConvolution::Plan {
  ConvolutionShape shape;
  bool adds;
  std::optional<PostOp> behind;  // done to a slice that oneDNN has written
  int64_t sets;                  // of arguments: images that run the same slice at the same time
  std::vector<Slice> slices;     // of each image
  size_t packed_bytes = 0;
  uint64_t layout = 0;

  bool by_channels() const { return slices.front().channels != shape.out_channels; }
  void add_moves(Slice& s) const;
  bool add_blocks(Slice& s, const Slice* first, const BlockAttributes& attributes);
  bool add(int64_t row, int64_t channel, const Cut& cut, const BlockAttributes& attributes);
  bool cut(int64_t workers, const BlockAttributes& attributes);
};

void PreparedConvolution::Plan::add_moves(Slice& s) const {
  const int64_t *from = shape.source_strides, *to = shape.result_strides;
  if (s.blocks.size() > 1 || !is_channels_last(shape.channels, shape.source, from))
    for (Block& b : s.blocks)
      b.bring = Move({from, shape.dtype}, b.primitive.source, Move::Direction::to_tile, sets);
  Part result{to, shape.dtype};
  if (s.channels == shape.out_channels && is_channels_last(s.channels, shape.result, to)) return;
  s.give_back = Move(result, s.result(), Move::Direction::from_tile, sets);
  if (adds) s.bring_operand = Move(result, s.result(), Move::Direction::to_tile, sets);
}

// One layout for all rows: they share the packed weights.
bool PreparedConvolution::Plan::add_blocks(Slice& s, const Slice* first,
                                           const BlockAttributes& attributes) {
  int64_t most = attributes.can_be_cut() ? channels_of_block(shape) : shape.channels;
  auto count = static_cast<size_t>(divide_up(shape.channels, most));
  for (size_t i = 0; i < count; ++i) {
    Block b{};
    b.channel = static_cast<int64_t>(i) * most;
    b.channels = std::min(most, shape.channels - b.channel);
    ConvolutionShape own = shape;
    own.channels = b.channels;
    own.bias = shape.bias && i == 0;
    const Block* known = first ? &first->blocks[i] : nullptr;
    b.primitive = make_primitive(own, s, attributes.of(i, count),
                                 known ? &known->primitive.weights : nullptr, sets);
    if (!b.primitive) return false;
    b.packed = known ? known->packed : packed_bytes;
    if (!known) {
      packed_bytes += round_up_to_line(b.primitive.weights.get_size());
      layout = layout * 31 + fingerprint(b.primitive.weights);
    }
    s.blocks.push_back(std::move(b));
  }
  return true;
}

bool PreparedConvolution::Plan::add(int64_t row, int64_t channel, const Cut& cut,
                                    const BlockAttributes& attributes) {
  Slice s{};
  s.row = row;
  s.rows = std::min(cut.rows, shape.result[shape.first()] - row);
  s.channel = channel;
  s.channels = std::min(cut.channels, shape.out_channels - channel);
  find_source_rows(shape, s);
  if (s.source_rows <= 0) return false;  // a slice of padding only
  if (!add_blocks(s, row > 0 ? &slices.back() : nullptr, attributes)) return false;
  add_moves(s);
  slices.push_back(std::move(s));
  return true;
}

bool PreparedConvolution::Plan::cut(int64_t workers, const BlockAttributes& attributes) {
  sets = std::min(workers, shape.images);
  Cut cut = choose_cut(shape, workers);
  for (int64_t channel = 0; channel < shape.out_channels; channel += cut.channels)
    for (int64_t row = 0; row < shape.result[shape.first()]; row += cut.rows)
      if (!add(row, channel, cut, attributes)) return false;
  return true;
}

bool ConvolutionShape::fits_32_bits() const {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  for (int d = 0; d < 3; ++d) {
    int64_t reach, room;
    bool overflows = __builtin_mul_overflow(dilation[d], kernel[d], &reach) ||
                     __builtin_mul_overflow(padding[d], 2, &room) ||
                     __builtin_add_overflow(room, source[d], &room);
    if (overflows || reach > most || room > most || stride[d] > most) return false;
  }
  return true;
}

std::shared_ptr<const PreparedConvolution> PreparedConvolution::make(
    const ConvolutionShape& shape, std::span<const PostOp> post_ops, int64_t workers) {
  if (!shape.fits_32_bits() || shape.channels == 0 || shape.images == 0) return nullptr;
  return unless_unsupported([&]() -> std::shared_ptr<const PreparedConvolution> {
    OneThread limit;
    if (shape.is_depthwise() && shape.first() == 0) return nullptr;  // 6 GF/s
    auto plan = std::make_unique<Plan>();
    plan->shape = shape;
    plan->adds = has_operand(post_ops);
    plan->behind = done_behind(post_ops);
    BlockAttributes attributes(post_ops.first(post_ops.size() - plan->behind.has_value()));
    if (!attributes.only || !plan->cut(workers, attributes)) return nullptr;
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

void PreparedConvolution::pack(const void* weights, const int64_t (&strides)[5],
                               void* packed) const {
  for (int64_t part = 0; part < pack_parts(); ++part) pack_part(part, weights, strides, packed);
}

void PreparedConvolution::pack_part(int64_t part, const void* weights, const int64_t (&strides)[5],
                                    void* packed) const {
  OneThread limit;
  const ConvolutionShape& c = plan_->shape;
  const Slice& s = plan_->slices[static_cast<size_t>(part)];
  for (const Block& b : s.blocks) {
    ConvolutionShape own = c;
    own.channels = b.channels;
    Dims sizes = weights_sizes(own, s.channels), by{strides[0], strides[1]};
    by.insert(by.end(), strides + 2 + c.first(), strides + 5);
    if (c.groups > 1) by.insert(by.begin(), sizes[1] * strides[0]);
    Reorder(Desc(sizes, data_type(c.dtype), by), b.primitive.weights)(
        at(weights, s.channel * strides[0] + b.channel * strides[1], c.dtype),
        static_cast<std::byte*>(packed) + b.packed);
  }
}

void PreparedConvolution::run(int64_t slice, const void* source, const void* packed,
                              const void* bias, const void* operand, void* result) const {
  OneThread limit;
  const ConvolutionShape& c = plan_->shape;
  auto per_image = static_cast<int64_t>(plan_->slices.size());
  const Slice& s = plan_->slices[static_cast<size_t>(slice % per_image)];
  int64_t image = slice / per_image;
  const int64_t *in = c.source_strides, *out = c.result_strides;
  int row = 2 + c.first();
  int64_t in_source = image * in[0] + s.source_row * in[row];
  int64_t in_result = image * out[0] + s.channel * out[1] + s.row * out[row];
  void *place = at(result, in_result, c.dtype), *to = place;
  if (s.give_back) to = scratch(Scratch::result_tile, s.result().get_size());
  if (plan_->adds) {
    const void* added = at(operand, in_result, c.dtype);
    if (s.bring_operand)
      s.bring_operand(added, to);
    else if (added != to)
      std::memcpy(to, added, s.result().get_size());
  }
  for (const Block& b : s.blocks) {
    const void* from = at(source, in_source + b.channel * in[1], c.dtype);
    if (b.bring) {
      void* tile = scratch(Scratch::source_tile, b.primitive.source.get_size());
      b.bring(from, tile);
      from = tile;
    }
    bool has_bias = c.bias && b.channel == 0;
    b.primitive.run({from, static_cast<const std::byte*>(packed) + b.packed,
                     has_bias ? at(bias, s.channel, c.bias_dtype()) : nullptr, to});
  }
  if (plan_->behind) apply(*plan_->behind, to, s.result().get_size(), c.dtype);
  if (s.give_back) s.give_back(to, place);
}

}  // namespace onednn
