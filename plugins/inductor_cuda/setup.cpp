// Memory and versions.
#include "setup.h"

#include <loopir/memory.h>

#include <algorithm>
#include <set>

namespace inductor_cuda {

using loopir::Buffer;
using loopir::Id;
using tenon::plugin::tensor;

void Setup::plan(const loopir::Program& program, const std::vector<loopir::Access>& accesses,
                 const std::vector<bool>& is_static) {
  std::set<Id> written;
  std::set<uint32_t> watched;
  for (size_t i = 0; i < accesses.size(); ++i) {
    if (!is_static[i]) continue;
    written.insert(accesses[i].writes.begin(), accesses[i].writes.end());
    for (Id b : accesses[i].reads)
      if (program.buffers[b].place == Buffer::Place::input) watched.insert(program.buffers[b].slot);
  }
  buffers_.assign(written.begin(), written.end());
  watched_.assign(watched.begin(), watched.end());
  constexpr int64_t alignment = 256;
  for (Id b : buffers_) {
    offsets_.push_back(bytes_);
    int64_t bytes = std::max<int64_t>(loopir::bytes_of(program, program.buffers[b], {}), 1);
    bytes_ += (bytes + alignment - 1) / alignment * alignment;
  }
}

void Setup::place(const Place& tell) const {
  for (size_t i = 0; i < buffers_.size(); ++i)
    tell(buffers_[i], memory_.data<std::byte>() + offsets_[i]);
}

std::vector<uint64_t> Setup::versions_of(tn_tensor* const* inputs) const {
  std::vector<uint64_t> out;
  out.reserve(3 * watched_.size());
  for (uint32_t i : watched_) {
    const tn_tensor* t = inputs[i];
    out.insert(out.end(), {t->storage_id, TN_VERSION(t), reinterpret_cast<uint64_t>(t->data)});
  }
  return out;
}

void Setup::prepare(tn_tensor* const* inputs, const Device& device, tn_stream* stream,
                    const std::function<void()>& make) {
  if (is_empty()) return;
  std::lock_guard lock(guarding_);
  std::vector<uint64_t> versions = versions_of(inputs);
  if (is_made_ && versions == versions_) return;
  is_made_ = false;
  if (!memory_) memory_ = tensor::empty({&bytes_, 1}, TN_U8, device.type, device.index);
  make();
  // A byte that the host waits for, as other streams know nothing of this one.
  int64_t one = 1;
  tn_tensor* first = nullptr;
  tenon::plugin::check(tenon::plugin::host->tensor->from_memory(
      memory_->data, &one, &one, 1, TN_U8, device.type, device.index, nullptr, nullptr, &first));
  tensor there(first), here = tensor::empty({&one, 1}, TN_U8, TN_DEV_CPU, -1);
  tenon::plugin::check(tenon::plugin::host->tensor->copy(here.get(), there.get(), stream));
  versions_ = std::move(versions);
  is_made_ = true;
}

}  // namespace inductor_cuda
