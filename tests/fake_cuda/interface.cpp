// What the double exports: the driver's one symbol, and what tests ask of it.
#include "world.h"

#include <cstdlib>
#include <string_view>

namespace fake_cuda {

namespace {

const api::Driver& functions() {
  static const api::Driver filled = [] {
    api::Driver d;
    fill_driver(d);
    fill_graphs(d);
    fill_kernels(d);
    return d;
  }();
  return filled;
}

const char* architecture() {
  const char* named = std::getenv("TENON_FAKE_CUDA_ARCH");
  return named ? named : "simt";
}

void* find(std::string_view name) {
#define FAKE_CUDA_FIND(function, parameters) \
  if (name == #function) return reinterpret_cast<void*>(functions().function);
  TENON_CUDA_DRIVER_FUNCTIONS(FAKE_CUDA_FIND)
#undef FAKE_CUDA_FIND
  if (name == "tenonArchitecture") return reinterpret_cast<void*>(&architecture);
  return nullptr;
}

}  // namespace

}  // namespace fake_cuda

extern "C" {

__attribute__((visibility("default"))) int32_t cuGetProcAddress_v2(const char* symbol, void** out,
                                                                   int version, uint64_t,
                                                                   int32_t* found) {
  *out = fake_cuda::find(symbol);
  if (found) *found = *out ? 0 : 1;
  return *out && version == tenon::cuda::api::driver_version ? 0 : 500;
}

__attribute__((visibility("default"))) FakeCudaCounts fake_cuda_counts() {
  fake_cuda::World& w = fake_cuda::world();
  std::lock_guard lock(w.lock);
  return {w.calls,
          w.memory.live(),
          w.memory.live_bytes(),
          w.streams.alive(),
          w.events,
          w.pinned.size(),
          w.code.alive(),
          w.launches,
          w.graphs.graphs.size() + w.graphs.executables.size(),
          w.graph_launches,
          w.memory.mapped_bytes()};
}

__attribute__((visibility("default"))) void fake_cuda_fail(const char* function, uint64_t nth,
                                                           int32_t result) {
  fake_cuda::World& w = fake_cuda::world();
  std::lock_guard lock(w.lock);
  w.failure = {function, nth, result, nullptr};
}

__attribute__((visibility("default"))) const char* fake_cuda_failed() {
  fake_cuda::World& w = fake_cuda::world();
  std::lock_guard lock(w.lock);
  return w.failure.happened;
}

__attribute__((visibility("default"))) void fake_cuda_seed(uint64_t seed) {
  fake_cuda::World& w = fake_cuda::world();
  std::lock_guard lock(w.lock);
  w.streams.seed(seed);
}

__attribute__((visibility("default"))) void fake_cuda_revive() {
  fake_cuda::World& w = fake_cuda::world();
  std::lock_guard lock(w.lock);
  w.lost = 0;
}

__attribute__((visibility("default"))) void fake_cuda_set_code(const FakeCudaCode* code) {
  fake_cuda::World& w = fake_cuda::world();
  std::lock_guard lock(w.lock);
  w.code.set(code);
}

__attribute__((visibility("default"))) int32_t fake_cuda_enqueue(void* stream,
                                                                 const FakeCudaWork* work) {
  fake_cuda::World& w = fake_cuda::world();
  std::lock_guard lock(w.lock);
  return fake_cuda::enqueue_foreign(w, static_cast<fake_cuda::api::Stream>(stream), *work);
}

__attribute__((visibility("default"))) void fake_cuda_join(void* stream) {
  fake_cuda::World& w = fake_cuda::world();
  std::lock_guard lock(w.lock);
  fake_cuda::state_of(w, static_cast<fake_cuda::api::Stream>(stream))->is_joined = true;
}

__attribute__((visibility("default"))) int fake_cuda_current() { return fake_cuda::current; }

__attribute__((visibility("default"))) int32_t fake_cuda_instead_of(const char* function) {
  fake_cuda::World& w = fake_cuda::world();
  std::lock_guard lock(w.lock);
  return fake_cuda::interrupted(w, function);
}
}
