// Copies of tensors in fenced memory.
#include "debug/minify/edge_memory.h"

#include "core/tensor/fenced_memory.h"
#include "core/tensor/tensor_impl.h"

#include <cstring>

namespace tenon {

namespace {

struct EdgeBlock {
  void* data;
  size_t bytes;
};

void release_block(void* p) {
  auto* block = static_cast<EdgeBlock*>(p);
  give_fenced(block->data, block->bytes);
  delete block;
}

}  // namespace

Tensor at_the_edge(const Tensor& t) {
  if (!t.defined() || t.numel().guard_int() == 0) return t;
  Extent extent = extent_of(t);
  auto bytes = static_cast<size_t>(span_of(extent.sizes, extent.strides) * extent.itemsize);
  void* data = take_fenced(bytes);
  if (!data) return t;
  std::memcpy(data, t.head()->data, bytes);
  return from_memory(data, extent.sizes, t.dtype(), OptIntList(extent.strides), release_block,
                     new EdgeBlock{data, bytes});
}

}  // namespace tenon
