// What becomes of operands that an op has kept.
#include "lent_operands.h"

#include <tenon/memory.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace inductor {

using tenon::plugin::check;
using tenon::plugin::host;
using tenon::plugin::tensor;

namespace {

/// Null of a host that cannot tell.
const tn_memory_api* memory_api() {
  static const auto* api =
      static_cast<const tn_memory_api*>(host->extension(TN_MEMORY_ID, TN_MEMORY_VERSION));
  return api && api->struct_size >= offsetof(tn_memory_api, tell_end) ? api : nullptr;
}

bool is_kept(const tensor& t) {
  const tn_memory_api* api = memory_api();
  return api && api->is_kept(t.get());
}

bool is_within(const Memory& m, const tn_tensor* t) {
  auto* data = static_cast<const std::byte*>(t->data);
  return m.data() && data >= m.data() && data < m.data() + m.size();
}

/// With the same place in a storage of its own.
tensor own_copy_of(const tensor& t) {
  int64_t item = loopir::item_size(t->dtype), one = 1;
  int64_t elements = static_cast<int64_t>(t->storage_bytes) / item;
  tensor whole = tensor::strided({&elements, 1}, {&one, 1}, t->dtype);
  std::memcpy(whole->data, t->storage, t->storage_bytes);
  auto rank = static_cast<size_t>(t->ndim);
  return whole.as_strided({t->sizes, rank}, {t->strides, rank}, t->storage_offset);
}

void leave_to_keeper(const Memory& memory, const tensor& t) {
  auto* share = new std::shared_ptr<std::byte>(memory.share());
  check(memory_api()->leave(
      t.get(), [](void* s) { delete static_cast<std::shared_ptr<std::byte>*>(s); }, share));
}

}  // namespace

bool LentOperands::is_lent(const tn_tensor* t) const {
  if (!t) return false;
  auto has = [&](const Memory& m) { return is_within(m, t); };
  return has(memory_.arena) || (memory_.prepacked && has(memory_.prepacked->memory)) ||
         std::ranges::any_of(memory_.blocks, has);
}

tn_tensor* LentOperands::give(tensor t) {
  if (keeps_.load(std::memory_order_relaxed) && is_lent(t.get())) t = own_copy_of(t);
  return operands_.emplace_back(std::move(t)).get();
}

void LentOperands::take_back() {
  std::erase_if(operands_, [&](const tensor& t) { return !is_lent(t.get()) || !is_kept(t); });
  if (operands_.empty()) return;
  keeps_.store(true, std::memory_order_relaxed);
  for (const tensor& t : operands_) {
    if (memory_.prepacked && is_within(memory_.prepacked->memory, t.get())) {
      leave_to_keeper(memory_.prepacked->memory, t);
      memory_.prepacked->is_left = true;
    }
    if (is_within(memory_.arena, t.get())) leave_to_keeper(memory_.arena, t);
    for (const Memory& block : memory_.blocks)
      if (is_within(block, t.get())) leave_to_keeper(block, t);
  }
  operands_.clear();
  move_out_of(memory_.arena);
  for (Memory& block : memory_.blocks) move_out_of(block);
}

// Where the memory has been left to somebody, the call goes on in a copy.
void LentOperands::move_out_of(Memory& left) {
  if (!left.is_shared()) return;
  Memory copy(left.size());
  std::memcpy(copy.data(), left.data(), left.size());
  const std::byte *begin = left.data(), *end = begin + left.size();
  for (size_t b = 0; b < memory_.in_arena.size(); ++b) {
    auto* at = static_cast<std::byte*>(memory_.pointers[b]);
    if (memory_.in_arena[b] && at >= begin && at <= end)
      memory_.pointers[b] = copy.data() + (at - begin);
  }
  left = std::move(copy);
}

}  // namespace inductor
