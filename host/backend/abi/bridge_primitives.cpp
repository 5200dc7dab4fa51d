// The extension "tenon.primitives": the loops of the host's kernels, for plugins that make no code.
#include "backend/abi/extensions.h"
#include "core/scalar/scalar_constant.h"

#include <tenon/primitives.h>

namespace tenon {

namespace {

tn_primitive_fn find(uint32_t code, int32_t dtype) {
  bool is_known = code < TN_F_COUNT && (dtype == TN_F32 || dtype == TN_F64);
  if (!is_known) return nullptr;
  auto type = static_cast<int>(dtype == TN_F32 ? BlockType::f32 : BlockType::f64);
  return block_kernels().primitive[code][type];
}

const tn_primitives_api primitives_api = {
    .struct_size = sizeof(tn_primitives_api), ._r0 = 0, .find = find};

const struct OfferPrimitives {
  OfferPrimitives() { add_extension(TN_PRIMITIVES_ID, TN_PRIMITIVES_VERSION, &primitives_api); }
} offer_primitives;

}  // namespace

}  // namespace tenon
