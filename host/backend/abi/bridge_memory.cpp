// The extension "tenon.memory": what plugins may keep of a tensor's content and how long, and who keeps
// theirs.
#include "backend/abi/bridge.h"
#include "backend/abi/extensions.h"
#include "backend/abi/status.h"
#include "backend/life/lent_memory.h"
#include "backend/life/shutdown.h"
#include "core/tensor/exposure.h"
#include "core/tensor/storage_end.h"
#include "core/tensor/tensor_impl.h"

#include <tenon/memory.h>

#include <algorithm>
#include <array>
#include <mutex>

namespace tenon {

namespace {

// A tensor that no storage of ours stands behind is somebody else's.
int32_t is_private(const tn_tensor* t) {
  const auto* impl = static_cast<const TensorImpl*>(static_cast<const detail::TensorHead*>(t));
  return t && impl->storage_ref && !is_exposed(*impl->storage_ref.get());
}

int32_t is_kept(const tn_tensor* t) {
  const auto* impl = static_cast<const TensorImpl*>(static_cast<const detail::TensorHead*>(t));
  auto is_sole = [](const std::atomic<int32_t>& references) {
    return references.load(std::memory_order_acquire) == 1;
  };
  return !is_sole(impl->references) ||
         (impl->storage_ref && !is_sole(impl->storage_ref->references));
}

/// Gives memory back that was left to a tensor, behind what its storage had to do before.
struct LeftMemory {
  void (*deleter)(void*);
  void* deleter_arg;
  void (*before)(void*);
  void* before_arg;

  static void give_back(void* self) {
    std::unique_ptr<LeftMemory> own(static_cast<LeftMemory*>(self));
    if (own->before) own->before(own->before_arg);
    own->deleter(own->deleter_arg);
  }
};

tn_status* leave(tn_tensor* t, void (*deleter)(void*), void* deleter_arg) {
  tn_status* status = guarded([&] {
    LentMemory lent(reinterpret_cast<const void*>(deleter));
    Tensor keeping = share_tensor(t);
    Storage* storage = impl_of(keeping)->storage_ref.get();
    storage->deleter_arg =
        new LeftMemory{deleter, deleter_arg, storage->deleter, storage->deleter_arg};
    storage->deleter = &LeftMemory::give_back;
    lent.keep_with(keeping);
  });
  if (status) deleter(deleter_arg);
  return status;
}

using Ended = void (*)(uint64_t storage_id);

/// Functions of plugins that are told of ends. Entries stay, and are read without the lock.
class Listeners {
 public:
  bool add(Ended ended) {
    if (has(ended)) return true;
    std::lock_guard lock(adding_);
    const size_t n = n_.load(std::memory_order_relaxed);
    if (has(ended)) return true;
    if (n == all_.size()) return false;
    const LoadedPlugin* owner = owner_of_code(reinterpret_cast<const void*>(ended));
    all_[n] = {ended, owner ? &owner->net.life() : nullptr};
    n_.store(n + 1, std::memory_order_release);
    return true;
  }

  void tell(uint64_t storage_id) const {
    for (const Listener& listener : known()) {
      if (!listener.life) {
        listener.ended(storage_id);
        continue;
      }
      InPlugin in(*listener.life, InPlugin::Purpose::cleanup);
      if (in) listener.ended(storage_id);
    }
  }

 private:
  struct Listener {
    Ended ended = nullptr;
    const PluginLife* life = nullptr;  ///< null: of no plugin
  };

  std::span<const Listener> known() const {
    return {all_.data(), n_.load(std::memory_order_acquire)};
  }
  bool has(Ended ended) const {
    return std::ranges::any_of(known(), [&](const Listener& l) { return l.ended == ended; });
  }

  std::mutex adding_;
  std::array<Listener, 16> all_;
  std::atomic<size_t> n_{0};
};

constinit Listeners listeners;

int32_t tell_end(const tn_tensor* t, Ended ended) {
  const auto* impl = static_cast<const TensorImpl*>(static_cast<const detail::TensorHead*>(t));
  if (!t || !impl->storage_ref || !listeners.add(ended)) return 0;
  watch_end(*impl->storage_ref.get());
  return 1;
}

const tn_memory_api memory_api = {.struct_size = sizeof(tn_memory_api),
                                  ._r0 = 0,
                                  .is_private = is_private,
                                  .is_kept = is_kept,
                                  .leave = leave,
                                  .tell_end = tell_end};

const struct OfferMemory {
  OfferMemory() {
    storage_ended_slot = [](uint64_t storage_id) { listeners.tell(storage_id); };
    add_extension(TN_MEMORY_ID, TN_MEMORY_VERSION, &memory_api);
  }
} offer_memory;

}  // namespace

}  // namespace tenon
