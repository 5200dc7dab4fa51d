// The signature of a call.
#include "signature.h"

#include <tenon/cuda.h>

#include <bit>

namespace tenon::cuda::trees {

namespace {

/// Which input was the first of a storage: a table of open places, kept by the thread.
class FirstOfStorage {
 public:
  explicit FirstOfStorage(size_t n) {
    size_t room = std::bit_ceil(2 * n + 2);
    if (slots().size() < room) slots().assign(room, {});
    ++turn();
    mask_ = slots().size() - 1;
  }
  /// The input that had the storage first; `input` itself where there was none.
  uint32_t find(uint64_t storage_id, uint32_t input) {
    for (size_t at = storage_id * 0x9E3779B97F4A7C15u >> 32;; ++at) {
      Slot& s = slots()[at & mask_];
      if (s.turn != turn()) return s = {turn(), storage_id, input}, input;
      if (s.storage_id == storage_id) return s.input;
    }
  }

 private:
  struct Slot {
    uint64_t turn = 0, storage_id = 0;
    uint32_t input = 0;
  };
  static std::vector<Slot>& slots() {
    static thread_local std::vector<Slot> all;
    return all;
  }
  static uint64_t& turn() {
    static thread_local uint64_t now = 0;
    return now;
  }
  size_t mask_;
};

}  // namespace

void write_signature(const tn_call& call, std::span<const uint32_t> input_flags,
                     std::vector<int64_t>& out) {
  out.assign(call.syms, call.syms + call.n_syms);
  FirstOfStorage firsts(call.n_inputs);
  for (uint32_t i = 0; i < call.n_inputs; ++i) {
    const tn_tensor* t = call.inputs[i];
    if (!t) {
      out.push_back(-1);
      continue;
    }
    out.push_back(int64_t{t->ndim} << 32 | int64_t{t->device_type} << 16 | t->dtype);
    out.insert(out.end(), t->sizes, t->sizes + t->ndim);
    out.insert(out.end(), t->strides, t->strides + t->ndim);
    uint32_t first = t->storage_bytes ? firsts.find(t->storage_id, i) : i;
    out.push_back(first == i ? -1 : first);
    if (first != i)
      out.push_back(static_cast<const char*>(t->data) -
                    static_cast<const char*>(call.inputs[first]->data));
    if (input_flags[i] & TN_CUDA_INPUT_BY_PLACE) out.push_back(t->storage_offset);
  }
}

}  // namespace tenon::cuda::trees
