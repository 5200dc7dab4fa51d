// Managers by thread, and the order of their work.
#include "manager.h"

#include "recording.h"

#include <tenon/plugin.hpp>
#include <tenon/thread_object.hpp>

#include <algorithm>

namespace tenon::cuda::trees {

namespace {

/// All managers, kept for good: tensors lie in their memory.
struct Managers {
  std::mutex choosing;  // guards what follows
  std::vector<std::unique_ptr<Manager>> all;
  std::vector<Manager*> idle;
};

Managers& managers() {
  static auto* const instance = new Managers;
  return *instance;
}

/// The thread's own, by device; idle once it has ended.
struct Own {
  std::vector<Manager*> list;
  ~Own() {
    std::lock_guard lock(managers().choosing);
    managers().idle.insert(managers().idle.end(), list.begin(), list.end());
  }
};

}  // namespace

Manager& Manager::mine(Gpu& gpu, size_t first_bytes) {
  Own& own = ThreadObject<Own>::get();
  for (Manager* m : own.list)
    if (&m->gpu() == &gpu) return *m;
  Managers& ms = managers();
  std::lock_guard lock(ms.choosing);
  auto idle = std::ranges::find_if(ms.idle, [&](Manager* m) { return &m->gpu() == &gpu; });
  if (idle != ms.idle.end()) {
    own.list.push_back(*idle);
    ms.idle.erase(idle);
  } else {
    own.list.push_back(ms.all.emplace_back(std::make_unique<Manager>(gpu, first_bytes)).get());
  }
  return *own.list.back();
}

std::vector<Manager*> Manager::all() {
  std::lock_guard lock(managers().choosing);
  std::vector<Manager*> out;
  for (const auto& m : managers().all) out.push_back(m.get());
  return out;
}

void Manager::settle() {
  if (!is_unknown_) return;
  gpu_.bind();
  auto alone = no_recording(gpu_);
  CU_TRY(gpu_, "waiting for recordings", cuCtxSynchronize, gpu_.context());
  is_unknown_ = is_marked_ = false;
}

void Manager::wait_for_last(tn_stream* stream) {
  gpu_.bind();
  if (!is_marked_ || last_stream_ == gpu_.handle_of(stream)) return;
  CU_TRY(gpu_, "waiting for a recording", cuStreamWaitEvent, gpu_.handle_of(stream), last_, 0);
}

void Manager::mark_last(tn_stream* stream) noexcept {
  bool is_done = false;
  plugin::detail::quietly("cuda", [&] {
    if (!last_)
      CU_TRY(gpu_, "marking a recording", cuEventCreate, &last_, api::event_disable_timing);
    CU_TRY(gpu_, "marking a recording", cuEventRecord, last_, gpu_.handle_of(stream));
    is_done = true;
  });
  last_stream_ = gpu_.handle_of(stream);
  is_marked_ = is_done;
  is_unknown_ = is_unknown_ || !is_done;
}

}  // namespace tenon::cuda::trees
