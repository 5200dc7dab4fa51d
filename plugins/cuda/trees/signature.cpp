// The signature of a call.
#include "signature.h"

#include <tenon/cuda.h>
#include <tenon/thread_object.hpp>

#include <algorithm>
#include <bit>

namespace tenon::cuda::trees {

namespace {

/// Which input was the first of a storage: a table of open places, kept by the thread.
class FirstOfStorage {
 public:
  explicit FirstOfStorage(size_t n) {
    Kept& kept = ThreadObject<Kept>::get();
    size_t room = std::bit_ceil(2 * n + 2);
    if (kept.slots.size() < room) kept.slots.assign(room, {});
    turn_ = ++kept.turn;
    slots_ = kept.slots.data();
    mask_ = kept.slots.size() - 1;
  }
  /// The input that had the storage first; `input` itself where there was none.
  uint32_t find(uint64_t storage_id, uint32_t input) {
    for (size_t at = storage_id * 0x9E3779B97F4A7C15u >> 32;; ++at) {
      Slot& s = slots_[at & mask_];
      if (s.turn != turn_) return s = {turn_, storage_id, input}, input;
      if (s.storage_id == storage_id) return s.input;
    }
  }

 private:
  struct Slot {
    uint64_t turn = 0, storage_id = 0;
    uint32_t input = 0;
  };
  struct Kept {
    std::vector<Slot> slots;
    uint64_t turn = 0;
  };
  Slot* slots_;
  uint64_t turn_;
  size_t mask_;
};

/// Words that a call's signature has at most.
size_t most_words(const tn_call& call) {
  constexpr size_t beside_dimensions = 4;
  size_t out = call.n_syms;
  for (uint32_t i = 0; i < call.n_inputs; ++i)
    out += beside_dimensions +
           (call.inputs[i] ? 2 * static_cast<size_t>(call.inputs[i]->ndim) : size_t{0});
  return out;
}

}  // namespace

void write_signature(const tn_call& call, std::span<const uint32_t> input_flags,
                     std::vector<int64_t>& out) {
  out.resize(most_words(call));
  int64_t* at = std::copy_n(call.syms, call.n_syms, out.data());
  FirstOfStorage firsts(call.n_inputs);
  for (uint32_t i = 0; i < call.n_inputs; ++i) {
    const tn_tensor* t = call.inputs[i];
    if (!t) {
      *at++ = -1;
      continue;
    }
    *at++ = int64_t{t->ndim} << 32 | int64_t{t->device_type} << 16 | t->dtype;
    for (int32_t d = 0; d < t->ndim; ++d) *at++ = t->sizes[d];
    for (int32_t d = 0; d < t->ndim; ++d) *at++ = t->strides[d];
    uint32_t first = t->storage_bytes ? firsts.find(t->storage_id, i) : i;
    *at++ = first == i ? -1 : int64_t{first};
    if (first != i)
      *at++ =
          static_cast<const char*>(t->data) - static_cast<const char*>(call.inputs[first]->data);
    if (input_flags[i] & TN_CUDA_INPUT_BY_PLACE) *at++ = t->storage_offset;
  }
  out.resize(static_cast<size_t>(at - out.data()));
}

}  // namespace tenon::cuda::trees
