// Which operations are on memory that the program may write.
#include "capture/host_writes.h"

#include "core/tensor/each_tensor.h"
#include "core/tensor/tensor_impl.h"
#include "graph/graph.h"
#include "guards/overlap.h"

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

bool HostWrites::reach(const Tensor& real) const {
  const Storage& own = *impl_of(real)->storage_ref.get();
  return std::ranges::any_of(watched_,
                             [&](const StorageRef& w) { return share_bytes(*w.get(), own); });
}

bool HostWrites::touches(const CallArgs& call,
                         FunctionRef<const Tensor&(const Tensor& fake)> real_of) const {
  if (watched_.empty()) return false;
  bool any = false;
  auto look = [&](const Tensor& t) {
    if (any || !t.defined()) return;
    const Tensor& real = t.is_fake() ? real_of(t) : t;
    any = real.defined() && reach(real);
  };
  for (uint32_t i = 0; i < call.n_args; ++i) each_tensor(call.args[i], look);
  return any;
}

// Whoever reads or writes a view of an input comes behind the operation that has made it.
bool use_memory_of(const Tensor& lent, const Graph& graph, size_t n_nodes,
                   FunctionRef<const Tensor&(size_t input)> real_of) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Tensor& real = real_of(i);
    if (!real.defined() || !share_lent_memory(real, lent)) continue;
    bool is_used = false;
    for (const Node& node : graph.nodes().first(n_nodes))
      Graph::for_each_use(node, [&](ValueId v) { is_used = is_used || v == graph.inputs()[i]; });
    if (is_used) return true;
  }
  return false;
}

}  // namespace tenon
