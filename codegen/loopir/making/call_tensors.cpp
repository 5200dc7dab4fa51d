#include "call_tensors.h"

#include "call_sizes.h"
#include "loopir/memory.h"

#include <algorithm>

namespace loopir {

using tenon::plugin::tensor;

namespace {

tensor over_memory(void* data, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                   int32_t dtype, const CallPlace& place) {
  tn_tensor* out = nullptr;
  tenon::plugin::check(tenon::plugin::host->tensor->from_memory(
      data, sizes.data(), strides.data(), static_cast<int32_t>(sizes.size()), dtype,
      place.device_type, place.device_index, nullptr, nullptr, &out));
  return tensor(out);
}

tensor over_tensor(tn_tensor* base, std::span<const int64_t> sizes,
                   std::span<const int64_t> strides, int64_t offset) {
  bool is_same = offset == 0 && static_cast<int32_t>(sizes.size()) == base->ndim &&
                 std::equal(sizes.begin(), sizes.end(), base->sizes) &&
                 std::equal(strides.begin(), strides.end(), base->strides);
  if (is_same) return tensor::share(base);
  return tensor::share(base).as_strided(sizes, strides, base->storage_offset + offset);
}

}  // namespace

std::vector<int64_t> evaluated(const Expressions& x, const Ids& ids,
                               std::span<const int64_t> table) {
  std::vector<int64_t> out;
  for (Id id : ids) out.push_back(x.evaluate(id, table));
  return out;
}

tensor tensor_of(const Program& program, const View& view, std::span<const int64_t> table,
                 const BufferMemory& memory, bool in_whole_storage, const CallPlace& place) {
  const Expressions& x = program.expressions;
  const Buffer& info = program.buffers[view.buffer];
  bool is_whole = memory.tensor && x.is(view.offset, 0) && view.sizes == info.sizes &&
                  view.strides == info.strides;
  if (is_whole) return tensor::share(memory.tensor);
  CallSizes all_sizes(x, view.sizes, table), all_strides(x, view.strides, table);
  std::span<const int64_t> sizes = all_sizes.span(), strides = all_strides.span();
  int64_t offset = x.evaluate(view.offset, table);
  if (memory.tensor) return over_tensor(memory.tensor, sizes, strides, offset);
  auto* data = static_cast<std::byte*>(memory.data);
  int64_t item = item_size(info.dtype), one = 1;
  if (!in_whole_storage)
    return over_memory(data + offset * item, sizes, strides, info.dtype, place);
  int64_t elements = bytes_of(program, info, table) / item;
  return over_memory(data, {&elements, 1}, {&one, 1}, info.dtype, place)
      .as_strided(sizes, strides, offset);
}

}  // namespace loopir
