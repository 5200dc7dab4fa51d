// Calling what plugins compiled: inputs, outputs and statuses at the border.
#include "backend/plugin_artifact.h"

#include "backend/bridge.h"
#include "backend/contract.h"
#include "backend/status.h"

#include <mutex>

namespace tenon {

namespace {

/// Room for the outputs of a call; on the stack for most graphs.
class OutputList {
 public:
  explicit OutputList(size_t n)
      : more_(n > most_inline ? n : 0), list_(more_.empty() ? inline_ : more_.data(), n) {
    std::fill(list_.begin(), list_.end(), nullptr);
  }
  OutputList(const OutputList&) = delete;
  std::span<tn_tensor*> list() const { return list_; }

 private:
  static constexpr size_t most_inline = 24;
  tn_tensor* inline_[most_inline];
  std::vector<tn_tensor*> more_;
  std::span<tn_tensor*> list_;
};

class PluginArtifact final : public Artifact {
 public:
  PluginArtifact(tn_artifact* artifact, const LoadedPlugin& plugin, std::string backend,
                 const CompileRequest& request)
      : artifact_(artifact),
        net_(plugin.net),
        backend_(std::move(backend)),
        in_call_("call of backend " + backend_),
        contract_(request) {}

  ~PluginArtifact() override {
    call_plugin_quietly(net_, "destroy of backend " + backend_,
                        [&] { artifact_->api->destroy(artifact_); });
  }

  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    OutputList out(outputs.size());
    tn_call call{};
    call.struct_size = sizeof call;
    bool may_steal = steal && (artifact_->api->flags & TN_AF_STEALS_INPUTS);
    call.flags = may_steal ? TN_CALL_STEAL_INPUTS : 0;
    call.n_inputs = static_cast<uint32_t>(inputs.size());
    call.n_outputs = static_cast<uint32_t>(outputs.size());
    call.n_syms = static_cast<uint32_t>(syms.size());
    call.inputs = reinterpret_cast<tn_tensor**>(inputs.data());
    call.outputs = out.list().data();
    call.syms = syms.data();
    std::string problem;
    tn_status* status = contract_.is_checking() ? run_checked(call, problem) : run(call);
    if (!status && !contract_.holds(out.list())) problem = contract_.problem(out.list());
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = take_tensor(out.list()[i]);
    if (steal)
      for (detail::TensorHead*& left : inputs) take_tensor(std::exchange(left, nullptr));
    if (status) [[unlikely]]
      throw_status(status, ErrorCode::backend_call_failed, message("backend {}", backend_));
    if (!problem.empty()) [[unlikely]]
      net_.broke_contract(ErrorCode::backend_call_failed, backend_, problem);
  }

  std::string describe(int32_t what) const override {
    if (!TN_HAS(artifact_->api, describe)) return "";
    TextSink text;
    tn_status* status = call_plugin(net_, "describe of backend " + backend_, [&] {
      return artifact_->api->describe(artifact_, what, text.get());
    });
    if (!status) return text.take();
    free_status(status);
    return "";
  }

 private:
  tn_status* run(tn_call& call) {
    std::unique_lock lock(serial_, std::defer_lock);
    if (artifact_->api->flags & TN_AF_SERIAL_ONLY) lock.lock();
    return call_plugin(net_, in_call_, [&] { return artifact_->api->call(artifact_, &call); });
  }
  tn_status* run_checked(tn_call& call, std::string& problem) {
    CheckedCall checked(contract_, backend_, call);
    tn_status* status = run(call);
    problem = checked.finish();
    if (status) problem.clear();
    return status;
  }

  tn_artifact* artifact_;
  PluginNet& net_;
  std::string backend_, in_call_;
  CallContract contract_;
  std::mutex serial_;
};

}  // namespace

std::shared_ptr<Artifact> plugin_artifact(tn_artifact* artifact, const LoadedPlugin& plugin,
                                          const std::string& backend,
                                          const CompileRequest& request) {
  std::string problem = artifact_problem(artifact);
  if (!problem.empty())
    plugin.net.broke_contract(ErrorCode::backend_compiler_failed, backend, problem);
  return std::make_shared<PluginArtifact>(artifact, plugin, backend, request);
}

}  // namespace tenon
