// Which operations are on memory that the program may write.
#include "capture/host_writes.h"

#include "capture/inputs.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/tensor_impl.h"

#include <algorithm>

namespace tenon {

bool HostWrites::touches(const CallArgs& call) const {
  if (watched_.empty()) return false;
  bool any = false;
  auto look = [&](const Tensor& t) {
    if (!t.defined()) return;
    const Tensor& real = t.is_fake() ? concrete_of(t) : t;
    if (!real.defined()) return;
    any = any ||
          std::ranges::any_of(watched_, [&](const Tensor& w) { return shares_storage(w, real); });
  };
  for (uint32_t i = 0; i < call.n_args; ++i) each_tensor(call.args[i], look);
  return any;
}

}  // namespace tenon
