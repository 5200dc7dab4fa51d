// Which operations are on memory that the program may write.
#include "capture/host_writes.h"

#include "core/tensor/each_tensor.h"
#include "core/tensor/tensor_impl.h"

#include <algorithm>
#include <cstddef>

namespace tenon {

void HostWrites::watch(const Tensor& real) {
  std::erase_if(watched_, [](const StorageRef& storage) {
    return storage->references.load(std::memory_order_relaxed) == 1;
  });
  const StorageRef& storage = impl_of(real)->storage_ref;
  if (std::ranges::find(watched_, storage.get(), &StorageRef::get) == watched_.end())
    watched_.push_back(storage);
}

// The program may have lent the same memory twice.
static bool share_bytes(const Storage& a, const Storage& b) {
  auto end = [](const Storage& s) { return static_cast<const std::byte*>(s.data) + s.bytes; };
  return &a == &b || (a.data < end(b) && b.data < end(a));
}

bool HostWrites::touches(const CallArgs& call,
                         FunctionRef<const Tensor&(const Tensor& fake)> real_of) const {
  if (watched_.empty()) return false;
  bool any = false;
  auto look = [&](const Tensor& t) {
    if (any || !t.defined()) return;
    const Tensor& real = t.is_fake() ? real_of(t) : t;
    if (!real.defined()) return;
    const Storage& own = *impl_of(real)->storage_ref.get();
    any = std::ranges::any_of(watched_,
                              [&](const StorageRef& w) { return share_bytes(*w.get(), own); });
  };
  for (uint32_t i = 0; i < call.n_args; ++i) each_tensor(call.args[i], look);
  return any;
}

}  // namespace tenon
