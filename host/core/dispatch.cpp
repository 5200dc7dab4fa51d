// Dispatch: the thread's modes and the one lookup.
#include "core/dispatch.h"

namespace tenon {

thread_local constinit ThreadModes thread_modes;
BoxedFn trace_key_slot = nullptr;

uint64_t keys_of(const Value* args, uint32_t n_args) {
  uint64_t keys = 0;
  for (uint32_t i = 0; i < n_args; ++i) {
    if (args[i].tag == Tag::tensor) {
      keys |= args[i].as<Tensor>()->head()->keys;
    } else if (args[i].tag == Tag::tensors) {
      for (const Tensor& t : TensorList(args[i].as<Tensor>(), args[i].count))
        if (t.defined()) keys |= t.head()->keys;
    }
  }
  return keys;
}

}  // namespace tenon
