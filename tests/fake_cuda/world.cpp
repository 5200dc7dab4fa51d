// The double's one world, and calls that are made to fail.
#include "world.h"

#include <cstdio>
#include <cstdlib>

namespace fake_cuda {

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv((std::string("TENON_FAKE_CUDA_") + name).c_str());
  return text ? std::atoll(text) : otherwise;
}

Failure failure_of_environment() {
  const char* text = std::getenv("TENON_FAKE_CUDA_FAIL");
  char function[64] = {};
  unsigned long nth = 0;
  int result = 0;
  if (!text || std::sscanf(text, "%63[^:]:%lu:%d", function, &nth, &result) != 3) return {};
  return {function, nth, result, nullptr};
}

World& world() {
  static auto* const instance = new World;
  return *instance;
}

thread_local int current = 0;

bool is_fatal(Result r) { return r == 214 || r == 220 || (r >= 700 && r <= 719); }

Result interrupted(World& w, const char* function) {
  ++w.calls;
  Failure& f = w.failure;
  if (f.left > 0 && (f.function == "*" || f.function == function) && --f.left == 0) {
    f.happened = function;
    if (is_fatal(f.result)) w.lost = f.result;
    return f.result;
  }
  return w.lost;
}

StreamState* state_of(World& w, api::Stream stream) {
  if (!stream) return w.streams.standard(current);
  auto* state = reinterpret_cast<StreamState*>(stream);
  return w.streams.knows(state) ? state : nullptr;
}

Result enqueue(World& w, api::Stream stream, Work work) {
  StreamState* state = state_of(w, stream);
  if (!state) return invalid_handle;
  state->queue.push_back(std::move(work));
  return api::success;
}

bool is_pinned(World& w, Address address, size_t bytes) {
  auto after = w.pinned.upper_bound(reinterpret_cast<void*>(address));
  if (after == w.pinned.begin()) return false;
  auto [start, size] = *std::prev(after);
  size_t offset = address - reinterpret_cast<Address>(start);
  return offset <= size && bytes <= size - offset;
}

}  // namespace fake_cuda
