// The extension "tenon.memory": what plugins may keep of a tensor's content.
#include "backend/abi/extensions.h"
#include "core/tensor/exposure.h"
#include "core/tensor/tensor_impl.h"

#include <tenon/memory.h>

namespace tenon {

namespace {

// A tensor that no storage of ours stands behind is somebody else's.
int32_t is_private(const tn_tensor* t) {
  const auto* impl = static_cast<const TensorImpl*>(static_cast<const detail::TensorHead*>(t));
  return t && impl->storage_ref && !is_exposed(*impl->storage_ref.get());
}

const tn_memory_api memory_api = {
    .struct_size = sizeof(tn_memory_api), ._r0 = 0, .is_private = is_private};

const struct OfferMemory {
  OfferMemory() { add_extension(TN_MEMORY_ID, TN_MEMORY_VERSION, &memory_api); }
} offer_memory;

}  // namespace

}  // namespace tenon
