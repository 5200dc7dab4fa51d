// A deleter in front of the plugin's own, which holds the reference.
#include "backend/life/lent_memory.h"

#include "backend/life/shutdown.h"
#include "core/tensor/tensor_impl.h"

namespace tenon {

struct LentMemory::Record {
  PluginLife& life;
  PluginRef reference;
  void (*deleter)(void*) = nullptr;
  void* deleter_arg = nullptr;
  explicit Record(PluginLife& l) : life(l), reference(l) {}
};

LentMemory::LentMemory(const void* deleter) {
  if (const LoadedPlugin* owner = owner_of_code(deleter))
    record_ = std::make_unique<Record>(owner->net.life());
}

LentMemory::~LentMemory() = default;

void LentMemory::keep_with(const Tensor& tensor) {
  if (!record_) return;
  Storage* storage = impl_of(tensor)->storage_ref.get();
  record_->deleter = storage->deleter;
  record_->deleter_arg = storage->deleter_arg;
  storage->deleter = give_back;
  storage->deleter_arg = record_.release();
}

void LentMemory::give_back(void* record) {
  std::unique_ptr<Record> own(static_cast<Record*>(record));
  InPlugin in(own->life, InPlugin::Purpose::cleanup);
  if (in && own->deleter) own->deleter(own->deleter_arg);
}

}  // namespace tenon
