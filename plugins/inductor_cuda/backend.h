// The backend as the host sees it; the entry of the plugin names it.
#pragma once

#include "compile.h"
#include "image.h"
#include "options.h"
#include "recorded/graph_mode.h"
#include "saved/saved_form.h"

#include <loopir/supported.h>

namespace inductor_cuda {

struct Backend : tenon::plugin::Backend {
  void supports(const tn_compile_request& request, std::span<uint8_t> verdicts) {
    bool takes_all = Given::read(request).fallback == Given::fallback_choice::error;
    loopir::support_nodes(request, takes_all, verdicts);
    // Numbers on the CPU are read as parameters; what is computed there is the host's.
    tenon::plugin::graph g(request);
    for (uint32_t i = 0; i < verdicts.size(); ++i)
      if (!is_on_device(g, g.at(i))) verdicts[i] = TN_NOT_SUPPORTED;
  }
  tenon::plugin::artifact compile(const tn_compile_request& request) {
    Machine machine = this_machine();
    using tenon::plugin::make_artifact;
    return tenon::plugin::artifact(
        is_in_graph_mode(request) ? make_artifact(std::make_unique<GraphModeCode>(request, machine))
                                  : make_artifact(inductor_cuda::compile(request, machine)));
  }
  tenon::plugin::artifact load(const tn_compile_request& request, std::string_view bytes) {
    using tenon::plugin::make_artifact;
    SavedKind kind{};
    body_of(bytes, kind);
    Machine machine = this_machine();
    return tenon::plugin::artifact(
        kind == SavedKind::graph_mode
            ? make_artifact(std::make_unique<GraphModeCode>(request, machine, bytes))
            : make_artifact(load_executable(request, machine, bytes)));
  }
  static Machine this_machine() {
    return {.api = tenon::plugin::extension<tn_cuda_api>(TN_CUDA_ID, TN_CUDA_VERSION),
            .device_type = TN_DEV_CUDA};
  }
  static bool is_on_device(const tenon::plugin::graph& g, const tenon::plugin::node& n) {
    using recordings::Place;
    bool is = true;
    recordings::for_each_operand(
        n, [&](uint32_t id) { is = is && recordings::place_of(g.value_at(id)) != Place::host; });
    for (uint32_t r = 0; r < n.n_results; ++r) {
      Place place = recordings::place_of(g.value_at(n.first_result + r));
      is = is && place != Place::host && place != Place::host_number;
    }
    return is;
  }
  std::string fingerprint() { return inductor_cuda::fingerprint(); }
};

}  // namespace inductor_cuda
