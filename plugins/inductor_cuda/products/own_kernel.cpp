// Code and launches of tiled products.
#include "own_kernel.h"

#include "../image.h"

#include <loopir/making/digest.h>

#include <limits>

namespace inductor_cuda {

using tenon::plugin::error;

namespace {

IrModule emitted(const ProductKernel& kernel, const std::string& symbol, std::string_view arch) {
  IrModule out;
  auto target = target_of(arch);
  emit_product(*out.module, kernel, symbol, *target);
  return out;
}

int64_t tiles_of(int64_t n) { return (n + product_tile - 1) / product_tile; }

}  // namespace

OwnProduct::OwnProduct(const CodeStore& store, const Device& device, const ProductKernel& kernel,
                       CodeStatistics& statistics)
    : api_(device.api) {
  std::string key = kernel.text() + " " + text_of(device, {.contracts = kernel.contracts});
  std::string symbol = "k_" + loopir::digest(key);
  auto make = [&] {
    return image_of([&](std::string_view arch) { return emitted(kernel, symbol, arch); },
                    device.arch);
  };
  code_name_ = "cuda-" + loopir::digest(key);
  code_ = code_of(store, device, code_name_, make, statistics, ptx_);
  function_ = code_->kernel(symbol);
}

ProductKernel OwnProduct::kernel_of(const Problem& p, bool contracts) {
  ProductKernel out{.dtype = p.dtype,
                    .result_dtype = p.result_dtype,
                    .adds = p.added.has_value(),
                    .function = p.function,
                    .contracts = contracts};
  if (p.bias) out.bias_dtype = p.bias_dtype;
  return out;
}

void OwnProduct::run(const Problem& p, std::span<void* const> pointers, tn_stream* stream) const {
  if (p.is_empty()) return;
  int64_t tiles =
      loopir::checked_multiply(loopir::checked_multiply(tiles_of(p.m), tiles_of(p.n)), p.batches);
  if (tiles > std::numeric_limits<int32_t>::max())
    throw error(TN_UNIMPLEMENTED, "a product would need more than 2^31 blocks");
  ProductArguments arguments{
      .left = place_of(p.left, p.dtype, pointers),
      .right = place_of(p.right, p.dtype, pointers),
      .bias = p.bias ? place_of(*p.bias, p.bias_dtype, pointers) : nullptr,
      .added = p.added ? place_of(*p.added, p.result_dtype, pointers) : nullptr,
      .result = place_of(p.result, p.result_dtype, pointers),
      .m = p.m,
      .n = p.n,
      .k = p.k,
      .left_batch = p.left.batch,
      .left_row = p.left.row,
      .left_column = p.left.column,
      .right_batch = p.right.batch,
      .right_row = p.right.row,
      .right_column = p.right.column,
      .result_batch = p.result.batch,
      .result_row = p.result.row,
      .result_column = p.result.column,
      .bias_column = p.bias ? p.bias->column : 0,
      .alpha = p.alpha};
  void* places[product_words];
  for (size_t word = 0; word < product_words; ++word)
    places[word] = reinterpret_cast<char*>(&arguments) + 8 * word;
  tn_cuda_launch launch{};
  launch.struct_size = sizeof launch;
  launch.grid[0] = static_cast<uint32_t>(tiles);
  launch.grid[1] = launch.grid[2] = 1;
  launch.block[0] = product_threads;
  launch.block[1] = launch.block[2] = 1;
  launch.stream = stream;
  launch.args = places;
  tenon::plugin::check(api_->launch(function_, &launch));
}

}  // namespace inductor_cuda
