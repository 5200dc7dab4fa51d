// What the double consists of, and what each of its functions does first.
#pragma once

#include "code.h"
#include "fake_cuda.h"
#include "graphs.h"
#include "memory.h"
#include "streams.h"

#include <map>
#include <mutex>
#include <string>

namespace fake_cuda {

namespace api = tenon::cuda::api;
using api::Address;
using api::Result;

/// A number of the environment: TENON_FAKE_CUDA_<name>.
int64_t setting(const char* name, int64_t otherwise);

/// Which call fails, and with what.
struct Failure {
  std::string function;  // "*": any
  uint64_t left = 0;     // calls until then
  Result result = api::success;
  const char* happened = nullptr;
};
Failure failure_of_environment();

struct World {
  std::mutex lock;
  int devices = static_cast<int>(setting("DEVICES", 1));
  int version = static_cast<int>(setting("VERSION", api::driver_version));
  int capability = static_cast<int>(setting("CAPABILITY", 90));
  Memory memory{std::max(devices, 1), static_cast<size_t>(setting("MEMORY", int64_t{1} << 30))};
  Streams streams;
  Code code;
  Graphs graphs;
  std::map<void*, size_t> pinned;
  std::map<api::MemoryHandle, std::pair<int, size_t>> pages;  // device, bytes
  api::MemoryHandle last_handle = 0;
  uint64_t calls = 0, events = 0, launches = 0, graph_launches = 0;
  Failure failure = failure_of_environment();
  Result lost = api::success;  // the error that every call gives from then on
  bool started = false;

  World() { streams.seed(static_cast<uint64_t>(setting("SEED", 1))); }
};

World& world();

/// The device that the thread's context is of; contexts are device numbers from 1 on.
extern thread_local int current;

bool is_fatal(Result r);
/// What a call gives instead of its own result.
Result interrupted(World& w, const char* function);

/// Runs a function's body under the lock, unless it is to fail.
template <class F>
Result call(const char* function, F&& body) {
  World& w = world();
  std::lock_guard lock(w.lock);
  if (Result instead = interrupted(w, function)) return instead;
  if (!w.started) return api::error_not_initialized;
  Result result = body(w);
  if (is_fatal(result)) w.lost = result;
  return result;
}

StreamState* state_of(World& w, api::Stream stream);
Result enqueue(World& w, api::Stream stream, Work work);
/// Of a stream that is captured, part of its graph.
Result enqueue_node(World& w, api::Stream stream, Node node);
/// What a captured stream cannot do ends the capture; success for other streams.
Result refused_by_capture(StreamState* stream);
Result run_launch(World& w, const Launch& launch);
std::shared_ptr<const Launch> made_launch(const FunctionState& function, const unsigned* grid,
                                          const unsigned* block, unsigned shared, void** values);
Result run_foreign(World& w, const Foreign& foreign);
/// Enqueues what touches device memory as a kernel does.
Result enqueue_foreign(World& w, api::Stream stream, const FakeCudaWork& work);
/// Whether all bytes are of one block of pinned memory.
bool is_pinned(World& w, Address address, size_t bytes);

constexpr Result invalid_handle = 400, illegal_address = api::error_illegal_address;

/// The functions of driver.cpp, of graphs.cpp and of kernels.cpp.
void fill_driver(api::Driver& driver);
void fill_graphs(api::Driver& driver);
void fill_kernels(api::Driver& driver);

}  // namespace fake_cuda
