// Channels exchanged with space and with each other: pixel_shuffle, pixel_unshuffle,
// channel_shuffle.
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

// Batch dimensions, then `rest`.
Dims with_batch_of(const Tensor& self, std::initializer_list<SymInt> rest) {
  Dims sizes(self.sizes().begin(), self.sizes().end() - 3);
  for (SymInt s : rest) sizes.push_back(s);
  return sizes;
}

std::vector<int64_t> permutation_of_last(const Tensor& self, std::initializer_list<int64_t> last) {
  int64_t batch = self.dim() - 3;
  std::vector<int64_t> order;
  for (int64_t d = 0; d < batch; ++d) order.push_back(d);
  for (int64_t d : last) order.push_back(batch + d);
  return order;
}

Tensor in_format_of(const Tensor& out, const Tensor& self) {
  MemoryFormat format = suggest_memory_format(self);
  return format == MemoryFormat::contiguous ? out : contiguous(out, format);
}

void check_image(std::string_view op, const Tensor& self, int64_t factor) {
  require(self.dim() >= 3, "{}: input needs a channel dimension and two of space, found shape {}",
          op, self.sizes());
  require(factor > 0, "{}: the factor must be positive, found {}", op, factor);
}

Tensor pixel_shuffle_decomp(const Tensor& self, int64_t factor) {
  check_image("pixel_shuffle", self, factor);
  SymInt channels = self.size(-3), r = factor, height = self.size(-2), width = self.size(-1);
  require(sizes_match(channels % (r * r), 0),
          "pixel_shuffle: {} channels do not divide by {} squared", channels, factor);
  SymInt out = channels / (r * r);
  Tensor split = reshape(self, list_of(with_batch_of(self, {out, r, r, height, width})));
  Tensor mixed = permute(split, permutation_of_last(self, {0, 3, 1, 4, 2}));
  return in_format_of(reshape(mixed, list_of(with_batch_of(self, {out, height * r, width * r}))),
                      self);
}

Tensor pixel_unshuffle_decomp(const Tensor& self, int64_t factor) {
  check_image("pixel_unshuffle", self, factor);
  SymInt channels = self.size(-3), r = factor, height = self.size(-2), width = self.size(-1);
  require(sizes_match(height % r, 0) && sizes_match(width % r, 0),
          "pixel_unshuffle: height and width of shape {} do not divide by {}", self.sizes(),
          factor);
  Tensor split =
      reshape(self, list_of(with_batch_of(self, {channels, height / r, r, width / r, r})));
  Tensor mixed = permute(split, permutation_of_last(self, {0, 2, 4, 1, 3}));
  return in_format_of(
      reshape(mixed, list_of(with_batch_of(self, {channels * r * r, height / r, width / r}))),
      self);
}

Tensor channel_shuffle_decomp(const Tensor& self, SymInt groups) {
  require(self.dim() >= 3,
          "channel_shuffle: input needs a batch, a channel dimension and space, found shape {}",
          self.sizes());
  SymInt channels = self.size(1);
  require(sizes_match(channels % groups, 0),
          "channel_shuffle: {} channels do not divide into {} groups", channels, groups);
  Tensor split =
      reshape(self, {self.size(0), groups, channels / groups, product(self.sizes().slice(2))});
  return reshape(contiguous(permute(split, {0, 2, 1, 3})), self.sizes());
}

}  // namespace

static constexpr OpDef nn_shuffle_rows[] = {
    {.schema = "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
     .decomp = fn<pixel_shuffle_decomp>},
    {.schema = "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
     .decomp = fn<pixel_unshuffle_decomp>},
    {.schema = "channel_shuffle(Tensor self, SymInt groups) -> Tensor",
     .decomp = fn<channel_shuffle_decomp>},
    {.schema = "native_channel_shuffle(Tensor self, SymInt groups) -> Tensor",
     .decomp = fn<channel_shuffle_decomp>},
};

extern constinit const OpFamily op_family_nn_shuffle{nn_shuffle_rows};

}  // namespace tenon::ops
