// Dispatch: the thread's modes and the one lookup.
#include "core/dispatch.h"

namespace tenon {

thread_local constinit ThreadModes thread_modes;
BoxedFn trace_key_slot = nullptr;
BoxedFn autograd_key_slot = nullptr;
bool (*stale_view_slot)(const Tensor&) = nullptr;

namespace {

uint64_t keys_of(const Tensor& t) {
  const TensorImpl* impl = impl_of(t);
  return impl->keys | (impl->storage_ref->stale_views ? bit(Key::autograd) : 0);
}

}  // namespace

uint64_t keys_of(const Value* args, uint32_t n_args) {
  uint64_t keys = 0;
  for (uint32_t i = 0; i < n_args; ++i) {
    if (args[i].tag == Tag::tensor) {
      keys |= keys_of(*args[i].as<Tensor>());
    } else if (args[i].tag == Tag::tensors) {
      for (const Tensor& t : TensorList(args[i].as<Tensor>(), args[i].count))
        if (t.defined()) keys |= keys_of(t);
    } else if (args[i].tag == Tag::device) {
      DeviceType type = args[i].device().type;
      if (type == DeviceType::meta)
        keys |= bit(Key::meta);
      else if (type != DeviceType::cpu)
        keys |= bit(Key::device);
    }
  }
  return keys;
}

}  // namespace tenon
