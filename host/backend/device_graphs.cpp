// Recordings of devices: questions to the extension tenon.cuda of the plugin that offers it.
#include "backend/device_graphs.h"

#include "backend/abi/status.h"
#include "backend/life/load.h"
#include "core/device/overwritten.h"
#include "core/tensor/tensor_impl.h"

#include <tenon/cuda.h>

#include <mutex>

namespace tenon {

std::atomic<bool> has_recordings{false};

namespace {

/// Who keeps recordings. Lives as long as the process.
struct Keeper {
  PluginNet& net;
  const tn_cuda_api& api;
};
std::atomic<const Keeper*> known_keeper{nullptr};

const Keeper* find_keeper() {
  static std::mutex finding;
  std::lock_guard lock(finding);
  if (const Keeper* known = known_keeper.load()) return known;
  for (const LoadedPlugin* plugin : loaded_plugins())
    for (const tn_extension& e : plugin->extensions) {
      const auto* api = static_cast<const tn_cuda_api*>(e.table);
      if (view_of(e.id) != TN_CUDA_ID || !TN_HAS(api, function_new)) continue;
      known_keeper = new Keeper{plugin->net, *api};
      return known_keeper;
    }
  return nullptr;
}

// Calls f(table), where there is one.
template <class F>
void ask(const char* function, F&& f) {
  const Keeper* keeper = known_keeper.load(std::memory_order_acquire);
  if (!keeper) keeper = find_keeper();
  if (keeper) call_plugin_quietly(keeper->net, function, [&] { f(keeper->api); });
}

void check_result(const Tensor& t) {
  tn_status* problem = nullptr;
  ask("check_result",
      [&](const tn_cuda_api& api) { problem = api.check_result(impl_of(t)->storage_id); });
  if (!problem) return;
  std::string text = problem->text;
  free_status(problem);
  throw UserError(text);
}

thread_local int calls_under_way = 0;

}  // namespace

void watch_recordings() {
  if (has_recordings.load(std::memory_order_acquire)) return;
  ask("overwritten_results", [](const tn_cuda_api& api) {
    check_result_slot = &check_result;
    __atomic_store_n(&overwritten_results, api.overwritten_results, __ATOMIC_RELEASE);
    has_recordings.store(true, std::memory_order_release);
  });
}

void begin_graph_generation() {
  ask("mark_step", [](const tn_cuda_api& api) { api.mark_step(); });
}

void forget_recordings() {
  ask("reset_functions", [](const tn_cuda_api& api) {
    if (tn_status* failed = api.reset_functions()) free_status(failed);  // a device that is lost
  });
}

void GraphCall::enter() {
  if (calls_under_way++ == 0) ask("begin_call", [](const tn_cuda_api& api) { api.begin_call(); });
}
void GraphCall::leave() { --calls_under_way; }

}  // namespace tenon
