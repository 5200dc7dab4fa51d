// Recordings of devices: questions to the extension tenon.cuda of plugins that are loaded.
#include "backend/device_graphs.h"

#include "backend/abi/extensions.h"
#include "backend/abi/status.h"
#include "backend/life/load.h"
#include "core/device/overwritten.h"
#include "core/tensor/tensor_impl.h"

#include <tenon/cuda.h>

#include <mutex>

namespace tenon {

namespace {

// Calls f(table) for each table of the extension, one call of its plugin.
template <class F>
void for_each_keeper(const char* function, F&& f) {
  for (const LoadedPlugin* plugin : loaded_plugins())
    for (const tn_extension& e : plugin->extensions)
      if (view_of(e.id) == TN_CUDA_ID && e.version >= TN_CUDA_VERSION)
        call_plugin_quietly(plugin->net, function,
                            [&] { f(static_cast<const tn_cuda_api*>(e.table)); });
}

// A status that the table of the first plugin with recordings gives for the tensor.
void check_result(const Tensor& t) {
  tn_status* problem = nullptr;
  for_each_keeper("check_result", [&](const tn_cuda_api* api) {
    if (!problem && TN_HAS(api, check_result)) problem = api->check_result(impl_of(t)->storage_id);
  });
  if (!problem) return;
  std::string text = problem->text;
  free_status(problem);
  throw UserError(text);
}

}  // namespace

void watch_overwritten_results() {
  static std::mutex finding;
  std::lock_guard lock(finding);
  if (overwritten_results) return;
  auto* api = static_cast<const tn_cuda_api*>(find_extension(TN_CUDA_ID, TN_CUDA_VERSION));
  if (!api || !TN_HAS(api, overwritten_results)) return;
  check_result_slot = &check_result;
  __atomic_store_n(&overwritten_results, api->overwritten_results, __ATOMIC_RELEASE);
}

void begin_graph_generation() {
  for_each_keeper("mark_step", [](const tn_cuda_api* api) {
    if (TN_HAS(api, mark_step)) api->mark_step();
  });
}

void forget_recordings() {
  for_each_keeper("reset_functions", [](const tn_cuda_api* api) {
    if (!TN_HAS(api, reset_functions)) return;
    if (tn_status* failed = api->reset_functions()) free_status(failed);  // a device that is lost
  });
}

}  // namespace tenon
