// Calling what plugins compiled: inputs, outputs and statuses at the border.
#include "backend/plugin_artifact.h"

#include "backend/bridge.h"
#include "backend/status.h"

#include <mutex>

namespace tenon {

namespace {

class PluginArtifact final : public Artifact {
 public:
  PluginArtifact(tn_artifact* artifact, std::string backend)
      : artifact_(artifact), backend_(std::move(backend)) {}
  ~PluginArtifact() override { artifact_->api->destroy(artifact_); }

  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    constexpr size_t inline_outputs = 24;
    tn_tensor* local[inline_outputs] = {};
    std::vector<tn_tensor*> more(outputs.size() > inline_outputs ? outputs.size() : 0);
    tn_tensor** out = more.empty() ? local : more.data();
    tn_call call{};
    call.struct_size = sizeof call;
    bool may_steal = steal && (artifact_->api->flags & TN_AF_STEALS_INPUTS);
    call.flags = may_steal ? TN_CALL_STEAL_INPUTS : 0;
    call.n_inputs = static_cast<uint32_t>(inputs.size());
    call.n_outputs = static_cast<uint32_t>(outputs.size());
    call.n_syms = static_cast<uint32_t>(syms.size());
    call.inputs = reinterpret_cast<tn_tensor**>(inputs.data());
    call.outputs = out;
    call.syms = syms.data();
    tn_status* status = nullptr;
    if (artifact_->api->flags & TN_AF_SERIAL_ONLY) {
      std::lock_guard lock(serial_);
      status = artifact_->api->call(artifact_, &call);
    } else {
      status = artifact_->api->call(artifact_, &call);
    }
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = take_tensor(out[i]);
    if (steal)
      for (detail::TensorHead*& left : inputs) take_tensor(std::exchange(left, nullptr));
    if (status)
      throw_status(status, ErrorCode::backend_call_failed, message("backend {}", backend_));
  }

  std::string describe(int32_t what) const override {
    if (artifact_->api->struct_size < offsetof(tn_artifact_api, set_constants) ||
        !artifact_->api->describe)
      return "";
    std::string text;
    tn_sink sink{&text, [](void* ctx, const char* data, size_t n) {
                   static_cast<std::string*>(ctx)->append(data, n);
                 }};
    if (tn_status* status = artifact_->api->describe(artifact_, what, &sink)) {
      free_status(status);
      return "";
    }
    return text;
  }

 private:
  tn_artifact* artifact_;
  std::string backend_;
  std::mutex serial_;
};

}  // namespace

std::shared_ptr<Artifact> plugin_artifact(tn_artifact* artifact, std::string backend) {
  if (!artifact || !artifact->api || !artifact->api->call || !artifact->api->destroy)
    throw BackendError(ErrorCode::backend_compiler_failed, TN_INTERNAL,
                       message("backend {} reported success without an artifact", backend));
  return std::make_shared<PluginArtifact>(artifact, std::move(backend));
}

}  // namespace tenon
