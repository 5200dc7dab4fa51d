// Blocks of an image as columns, and columns added up to an image: im2col and col2im.
#include "core/threads/thread_pool.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops/nn.h>

namespace tenon::ops {

namespace {

struct BlockGrid {
  std::array<int64_t, 2> kernel, dilation, padding, stride;
};

std::array<int64_t, 2> pair_of(std::string_view name, IntList values) {
  require(values.size() == 1 || values.size() == 2, "im2col: {} must have 2 values, found {}", name,
          values);
  return {values[0], values.back()};
}

BlockGrid grid_of(IntList kernel, IntList dilation, IntList padding, IntList stride) {
  BlockGrid g{pair_of("kernel_size", kernel), pair_of("dilation", dilation),
              pair_of("padding", padding), pair_of("stride", stride)};
  for (size_t d = 0; d < 2; ++d)
    require(g.kernel[d] > 0 && g.dilation[d] > 0 && g.stride[d] > 0 && g.padding[d] >= 0,
            "im2col: kernel_size, dilation and stride must be positive, padding not negative");
  return g;
}

SymInt block_count(const BlockGrid& g, SymInt size, size_t d) {
  SymInt reach = SymInt(g.dilation[d]) * (g.kernel[d] - 1) + 1;
  SymInt n = (size + SymInt(g.padding[d]) * 2 - reach) / g.stride[d] + 1;
  require(expect_true(n >= 1), "im2col: the block does not fit into the padded size {}", size);
  return n;
}

// Calls f(image offset within a channel or -1, column row within the channel, column position).
template <class F>
void for_each_pair(const BlockGrid& g, int64_t height, int64_t width, const F& f) {
  int64_t rows = block_count(g, height, 0), columns = block_count(g, width, 1);
  for (int64_t i = 0; i < g.kernel[0]; ++i)
    for (int64_t j = 0; j < g.kernel[1]; ++j)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
          int64_t y = r * g.stride[0] - g.padding[0] + i * g.dilation[0];
          int64_t x = c * g.stride[1] - g.padding[1] + j * g.dilation[1];
          bool inside = y >= 0 && y < height && x >= 0 && x < width;
          f(inside ? y * width + x : -1, i * g.kernel[1] + j, r * columns + c);
        }
}

TensorMeta im2col_meta(const Tensor& self, IntList kernel, IntList dilation, IntList padding,
                       IntList stride) {
  require(self.dim() == 3 || self.dim() == 4,
          "im2col: input must have 3 or 4 dimensions, found shape {}", self.sizes());
  BlockGrid g = grid_of(kernel, dilation, padding, stride);
  Dims sizes;
  if (self.dim() == 4) sizes.push_back(self.size(0));
  sizes.push_back(self.size(-3) * g.kernel[0] * g.kernel[1]);
  sizes.push_back(block_count(g, self.size(-2), 0) * block_count(g, self.size(-1), 1));
  return contiguous_meta(list_of(sizes), self.dtype(), self.device());
}

void im2col_kernel(Tensor& out, const Tensor& self, IntList kernel, IntList dilation,
                   IntList padding, IntList stride) {
  BlockGrid g = grid_of(kernel, dilation, padding, stride);
  Tensor image = contiguous_of(self);
  int64_t height = self.size(-2), width = self.size(-1), plane = height * width;
  if (numel_of(out) == 0) return;
  int64_t positions = out.size(-1), block = g.kernel[0] * g.kernel[1],
          channels = numel_of(out) / (block * positions);
  dispatch_itemsize(self.dtype(), [&]<class T>() {
    parallel_for(0, channels, 1, [&](int64_t lo, int64_t hi) {
      for (int64_t c = lo; c < hi; ++c) {
        const T* from = data_of<T>(image) + c * plane;
        T* to = data_of<T>(out) + c * block * positions;
        for_each_pair(g, height, width, [&](int64_t at, int64_t row, int64_t position) {
          to[row * positions + position] = at < 0 ? T{} : from[at];
        });
      }
    });
  });
}

TensorMeta col2im_meta(const Tensor& self, SymIntList size, IntList kernel, IntList dilation,
                       IntList padding, IntList stride) {
  require(self.dim() == 2 || self.dim() == 3,
          "col2im: input must have 2 or 3 dimensions, found shape {}", self.sizes());
  require(size.size() == 2, "col2im: output_size must have 2 values, found {}", size);
  BlockGrid g = grid_of(kernel, dilation, padding, stride);
  SymInt block = SymInt(g.kernel[0]) * g.kernel[1];
  require(sizes_match(self.size(-2) % block, 0) &&
              sizes_match(self.size(-1), block_count(g, size[0], 0) * block_count(g, size[1], 1)),
          "col2im: columns of shape {} do not fit output_size {}", self.sizes(), size);
  Dims sizes;
  if (self.dim() == 3) sizes.push_back(self.size(0));
  sizes.push_back(self.size(-2) / block);
  sizes.push_back(size[0]);
  sizes.push_back(size[1]);
  return contiguous_meta(list_of(sizes), self.dtype(), self.device());
}

void col2im_kernel(Tensor& out, const Tensor& self, SymIntList, IntList kernel, IntList dilation,
                   IntList padding, IntList stride) {
  BlockGrid g = grid_of(kernel, dilation, padding, stride);
  int64_t height = out.size(-2), width = out.size(-1), plane = height * width;
  if (numel_of(out) == 0) return;
  Tensor columns = contiguous_of(self);
  int64_t channels = numel_of(out) / plane, positions = self.size(-1),
          block = g.kernel[0] * g.kernel[1];
  dispatch_dtype(self.dtype(), "col2im", [&]<class T>() {
    using C = ComputeOf<T>;
    parallel_for(0, channels, 1, [&](int64_t lo, int64_t hi) {
      std::vector<C> sums(static_cast<size_t>(plane));
      for (int64_t c = lo; c < hi; ++c) {
        std::fill(sums.begin(), sums.end(), C(0));
        const T* from = data_of<T>(columns) + c * block * positions;
        for_each_pair(g, height, width, [&](int64_t at, int64_t row, int64_t position) {
          if (at >= 0)
            sums[static_cast<size_t>(at)] = static_cast<C>(
                sums[static_cast<size_t>(at)] + static_cast<C>(from[row * positions + position]));
        });
        for (int64_t i = 0; i < plane; ++i)
          data_of<T>(out)[c * plane + i] =
              static_cast<T>(static_cast<C>(sums[static_cast<size_t>(i)]));
      }
    });
  });
}

}  // namespace

static constexpr OpDef nn_fold_rows[] = {
    {.schema = "im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] "
               "stride) -> Tensor",
     .meta = fn<im2col_meta>,
     .eager = fn<im2col_kernel>,
     .vjp = {{"self", "grad, self.sizes, kernel_size, dilation, padding, stride",
              [](const Tensor& g, SymIntList sizes, IntList kernel, IntList dilation,
                 IntList padding, IntList stride) {
                size_t rank = sizes.size();
                return col2im(g, {sizes[rank - 2], sizes[rank - 1]}, kernel, dilation, padding,
                              stride);
              }}},
     .linear = "self"},
    {.schema = "col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, "
               "int[2] padding, "
               "int[2] stride) -> Tensor",
     .core = true,
     .meta = fn<col2im_meta>,
     .eager = fn<col2im_kernel>,
     .vjp = {{"self", "grad, kernel_size, dilation, padding, stride",
              [](const Tensor& g, IntList kernel, IntList dilation, IntList padding,
                 IntList stride) { return im2col(g, kernel, dilation, padding, stride); }}},
     .linear = "self"},
};

extern constinit const OpFamily op_family_nn_fold{nn_fold_rows};

}  // namespace tenon::ops
