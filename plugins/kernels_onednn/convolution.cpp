// Convolution: plans by shape and strides; what a slice is and how it runs.
#include "convolution.h"

#include "engine.h"
#include "packed_weights.h"
#include "plan_cache.h"
#include "transpose.h"
#include "types.h"

#include <tenon/plugin.hpp>

#include <algorithm>

namespace onednn {

namespace {

/// How a part of an image gets into a channels-last tile, or out of one.
struct Move {
  enum class Kind { none, transpose, reorder };  // none: the tensor itself is channels-last
  Kind kind = Kind::none;
  int64_t channels = 0, positions = 0, plane = 0;
  Reorder reorder;
};

/// Rows and channels of one image's result, and the source rows that they need.
struct Slice {
  int64_t row, rows, channel, channels;
  int64_t source_row, source_rows, padding_top, padding_bottom;
  Primitive primitive;
  Move bring, give_back;
};

struct Plan {
  std::vector<Slice> slices;
};

bool is_depthwise(const Convolution& c) { return c.groups > 1 && c.groups == c.channels; }

bool is_channels_last(int64_t channels, int64_t width, const int64_t* strides) {
  return (strides[1] == 1 || channels == 1) && (strides[3] == channels || width == 1) &&
         strides[2] == channels * width;
}

// ---- making

Primitive make_primitive(const Convolution& c, const Slice& s, const Desc* weights_layout) {
  using tag = dnnl::memory::format_tag;
  auto type = data_type(c.dtype);
  Desc source({1, c.channels, s.source_rows, c.width}, type, tag::nhwc);
  Desc result({1, s.channels, s.rows, c.out_width}, type, tag::nhwc);
  Dims weights_sizes{s.channels, c.channels / c.groups, c.kernel[0], c.kernel[1]};
  if (c.groups > 1) {
    weights_sizes[0] /= c.groups;
    weights_sizes.insert(weights_sizes.begin(), c.groups);
  }
  Desc weights = weights_layout ? *weights_layout : Desc(weights_sizes, type, tag::any);
  Desc bias = c.bias ? Desc({s.channels}, type, tag::x) : Desc();
  Dims stride{c.stride[0], c.stride[1]}, dilation{c.dilation[0] - 1, c.dilation[1] - 1};
  int64_t right = (c.out_width - 1) * c.stride[1] + (c.kernel[1] - 1) * c.dilation[1] + 1 -
                  c.width - c.padding[1];
  Dims begin{s.padding_top, c.padding[1]}, end{s.padding_bottom, right};
  using conv = dnnl::convolution_forward;
  auto kind = dnnl::prop_kind::forward_inference;
  auto direct = dnnl::algorithm::convolution_direct;
  auto desc =
      c.bias ? conv::desc(kind, direct, source, weights, bias, result, stride, dilation, begin, end)
             : conv::desc(kind, direct, source, weights, result, stride, dilation, begin, end);
  conv::primitive_desc pd(desc, attributes(), engine());
  if (is_reference(pd)) return {};
  return {conv(pd), source, pd.weights_desc(), bias, result, pd.scratchpad_desc()};
}

// The source rows of result rows [row, row + rows), and how many of them lie outside.
void find_source_rows(const Convolution& c, Slice& s) {
  int64_t first = s.row * c.stride[0] - c.padding[0];
  int64_t last = first + (s.rows - 1) * c.stride[0] + (c.kernel[0] - 1) * c.dilation[0];
  s.padding_top = std::max<int64_t>(0, -first);
  s.source_row = std::max<int64_t>(0, first);
  s.padding_bottom = last - (c.height - 1);  // negative: rows that the last slice does not read
  int64_t end = std::min(last + 1, c.height);
  if (s.padding_bottom < 0) s.padding_bottom = 0;
  s.source_rows = end - s.source_row;
}

// A part of one image in given strides (c, h, w); the image dimension spans all of it.
Desc part_of_image(int64_t channels, int64_t rows, int64_t width, const int64_t* strides,
                   int32_t dtype) {
  int64_t span = std::max({channels * strides[1], rows * strides[2], width * strides[3]});
  return Desc({1, channels, rows, width}, data_type(dtype),
              Dims{span, strides[1], strides[2], strides[3]});
}

/// Between `rows` rows of a tensor and a tile; `from_tensor` tells the direction.
Move make_move(int64_t channels, int64_t rows, int64_t width, const int64_t* strides, int32_t dtype,
               const Desc& tile, bool from_tensor) {
  Move m{Move::Kind::transpose, channels, rows * width, strides[1], {}};
  bool planes = strides[3] == 1 && (strides[2] == width || rows == 1);
  if (planes && transposes_well(channels, rows * width)) return m;
  m.kind = Move::Kind::reorder;
  Desc part = part_of_image(channels, rows, width, strides, dtype);
  m.reorder = from_tensor ? Reorder(part, tile) : Reorder(tile, part);
  return m;
}

void add_moves(const Convolution& c, Slice& s) {
  const int64_t *from = c.source_strides, *to = c.result_strides;
  if (!is_channels_last(c.channels, c.width, from))
    s.bring =
        make_move(c.channels, s.source_rows, c.width, from, c.dtype, s.primitive.source, true);
  if (s.channels != c.out_channels || !is_channels_last(c.out_channels, c.out_width, to))
    s.give_back =
        make_move(s.channels, s.rows, c.out_width, to, c.dtype, s.primitive.result, false);
}

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// How the result of one image is cut.
struct Cut {
  int64_t rows, channels;  // of a slice
};

Cut choose_cut(const Convolution& c, int64_t workers) {
  constexpr int64_t few_rows = 14, channel_block = 64;
  constexpr int64_t tile_bytes = 1 << 20;  // source and result tile fit the second-level cache
  Cut whole{c.out_height, c.out_channels};
  int64_t per_image = c.out_channels * c.out_height * c.out_width * (c.channels / c.groups) *
                      c.kernel[0] * c.kernel[1];
  if (per_image * c.images < small_work) return whole;
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

std::shared_ptr<Plan> make_plan(const Convolution& c, int64_t workers) {
  OneThread limit;
  Cut cut = choose_cut(c, workers);
  auto plan = std::make_shared<Plan>();
  for (int64_t channel = 0; channel < c.out_channels; channel += cut.channels) {
    const Desc* layout = nullptr;  // one for all rows: they share the packed weights
    size_t first = plan->slices.size();
    for (int64_t row = 0; row < c.out_height; row += cut.rows) {
      Slice s{};
      s.row = row;
      s.rows = std::min(cut.rows, c.out_height - row);
      s.channel = channel;
      s.channels = std::min(cut.channels, c.out_channels - channel);
      find_source_rows(c, s);
      if (s.source_rows <= 0) return nullptr;  // a slice of padding only
      s.primitive = make_primitive(c, s, layout);
      if (!s.primitive) return nullptr;
      add_moves(c, s);
      plan->slices.push_back(std::move(s));
      layout = &plan->slices[first].primitive.weights;
    }
  }
  return plan;
}

PlanKey key_of(const Convolution& c, int64_t workers) {
  PlanKey key{c.dtype,  workers, c.bias != nullptr, c.images, c.channels,
              c.height, c.width, c.out_channels,    c.groups};
  for (const auto& pair : {c.kernel, c.stride, c.padding, c.dilation})
    key.insert(key.end(), pair, pair + 2);
  for (const auto& strides : {c.source_strides, c.result_strides})
    key.insert(key.end(), strides, strides + 4);
  return key;
}

// ---- running

PackedPtr packed_weights(const Convolution& c, const Slice& s) {
  const int64_t* by = c.weights_strides;
  WeightsKey key(*c.weights, {s.channel, s.channels, c.groups}, s.primitive.weights);
  if (PackedPtr known = find_packed(key)) return known;
  Dims sizes{s.channels, c.channels / c.groups, c.kernel[0], c.kernel[1]};
  Dims strides{by[0], by[1], by[2], by[3]};
  if (c.groups > 1) {
    sizes[0] /= c.groups;
    sizes.insert(sizes.begin(), c.groups);
    strides.insert(strides.begin(), sizes[1] * by[0]);
  }
  auto packed = std::make_shared<Packed>(s.primitive.weights.get_size());
  Reorder pack(Desc(sizes, data_type(c.dtype), strides), s.primitive.weights);
  pack(at(c.weights->data, s.channel * by[0], c.dtype), packed->data());
  keep_packed(key, packed);
  return packed;
}

/// The channels-last source of a slice: in the tensor, or brought into a tile.
const void* bring(const Move& m, const Desc& tile_desc, const void* place, int32_t dtype) {
  if (m.kind == Move::Kind::none) return place;
  void* tile = scratch(Scratch::source_tile, tile_desc.get_size());
  if (m.kind == Move::Kind::reorder)
    m.reorder(place, tile);
  else
    to_channels_last(place, m.plane, tile, m.channels, m.positions, element_size(dtype));
  return tile;
}

void give_back(const Move& m, const void* tile, void* place, int32_t dtype) {
  if (m.kind == Move::Kind::reorder) m.reorder(tile, place);
  if (m.kind != Move::Kind::transpose) return;
  from_channels_last(tile, place, m.plane, m.channels, m.positions, element_size(dtype));
}

void run_slice(const Convolution& c, int64_t image, const Slice& s, const Packed& weights) {
  const Primitive& p = s.primitive;
  const int64_t *from = c.source_strides, *to = c.result_strides;
  const void* source = bring(
      s.bring, p.source, at(c.source, image * from[0] + s.source_row * from[2], c.dtype), c.dtype);
  void* place = at(c.result, image * to[0] + s.channel * to[1] + s.row * to[2], c.dtype);
  bool tiled = s.give_back.kind != Move::Kind::none;
  void* result = tiled ? scratch(Scratch::result_tile, p.result.get_size()) : place;
  execute(p.run, p.scratchpad,
          {{DNNL_ARG_SRC, p.source, source},
           {DNNL_ARG_WEIGHTS, p.weights, weights.data()},
           {DNNL_ARG_BIAS, p.bias, c.bias ? at(c.bias, s.channel, c.dtype) : nullptr},
           {DNNL_ARG_DST, p.result, result}});
  give_back(s.give_back, result, place, c.dtype);
}

}  // namespace

bool run_convolution(const Convolution& c) {
  static auto& plans = *new PlanCache<Plan>;
  int64_t workers = tenon::plugin::host->svc->num_threads();
  std::shared_ptr<const Plan> plan = plans.get(key_of(c, workers), [&] {
    return unless_unsupported([&] { return make_plan(c, workers); });
  });
  if (!plan) return false;
  auto slices = int64_t(plan->slices.size());
  PackedPtr shared;  // rows and images: packed once, before the workers read it
  if (plan->slices.front().channels == c.out_channels) {
    OneThread limit;
    shared = packed_weights(c, plan->slices.front());
  }
  tenon::plugin::parallel_chunks(c.images * slices, [&](int64_t chunk, int32_t) {
    OneThread limit;
    const Slice& s = plan->slices[size_t(chunk % slices)];
    PackedPtr weights = shared ? shared : packed_weights(c, s);
    run_slice(c, chunk / slices, s, *weights);
  });
  return true;
}

}  // namespace onednn
