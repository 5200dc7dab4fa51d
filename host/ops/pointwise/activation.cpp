// Activations: functions of one value, same shape.
#include "ops/op.h"

#include <tenon/ops.h>

namespace tenon::ops {

static constexpr OpDef rows[] = {
    {.schema = "relu(Tensor self) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise<all>([](auto x) { return select(x <= 0, x * 0, x); })},
    {.schema = "silu(Tensor self) -> Tensor",
     .variants = in_place,
     .formula = pointwise([](auto x) { return x * sigmoid(x); })},
};

extern constinit const OpFamily op_family_pointwise_activation{rows};

}  // namespace tenon::ops
