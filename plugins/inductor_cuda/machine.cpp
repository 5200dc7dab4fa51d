// Devices and their code.
#include "machine.h"

namespace inductor_cuda {

using tenon::plugin::check;

Device device_of(const Machine& machine, const tn_compile_request& request) {
  tenon::plugin::graph graph(request);
  Device out{.api = machine.api, .type = machine.device_type};
  bool is_found = false;
  for (uint32_t id = 0; id < graph.values() && !is_found; ++id) {
    auto v = graph.value_at(id);
    is_found = v.is_tensor() && v.device_type == machine.device_type;
    if (is_found) out.index = v.device_index < 0 ? 0 : v.device_index;
  }
  if (!is_found) throw tenon::plugin::declined("no tensor of the graph is on a GPU");
  if (!machine.api)
    throw tenon::plugin::error(TN_FAILED_PRECONDITION,
                               "the plugin cuda, which runs code on GPUs, is not loaded");
  out.facts.struct_size = sizeof out.facts;
  check(machine.api->facts(out.index, &out.facts));
  out.arch = tenon::plugin::sv(out.facts.arch);
  return out;
}

LoadedCode::LoadedCode(const Device& device, std::string image)
    : api_(device.api), image_(std::move(image)) {
  check(api_->module_load(device.index, tenon::plugin::str(image_), &module_));
}

LoadedCode::~LoadedCode() { api_->module_release(module_); }

tn_cuda_kernel* LoadedCode::kernel(const std::string& symbol) const {
  tn_cuda_kernel* out = nullptr;
  check(api_->kernel(module_, tenon::plugin::str(symbol), &out));
  return out;
}

}  // namespace inductor_cuda
