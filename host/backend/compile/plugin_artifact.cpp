// Calling what plugins compiled: inputs, outputs and statuses at the border.
#include "backend/compile/plugin_artifact.h"

#include "backend/abi/bridge.h"
#include "backend/abi/status.h"
#include "backend/compile/call_backend.h"
#include "backend/compile/contract.h"
#include "backend/compile/grad_modes.h"
#include "backend/compile/made_outputs.h"
#include "backend/device_graphs.h"
#include "core/device/overwritten.h"
#include "core/device/provider.h"
#include "core/dispatch.h"

#include <tenon/autograd.h>

#include <algorithm>
#include <mutex>
#include <optional>

namespace tenon {

namespace {

// A tensor is one pointer to what the ABI calls tn_tensor, so that plugins write the caller's
// outputs themselves.
static_assert(sizeof(Tensor) == sizeof(tn_tensor*));
static_assert(uint32_t{TN_AF_STEALS_INPUTS} == uint32_t{TN_CALL_STEAL_INPUTS});
std::span<tn_tensor*> handles_of(std::span<Tensor> tensors) {
  return {reinterpret_cast<tn_tensor**>(tensors.data()), tensors.size()};
}

int64_t n_tensors(std::span<tn_tensor* const> list) {
  return std::count_if(list.begin(), list.end(), [](const tn_tensor* t) { return t; });
}
int64_t n_inputs(const tn_call& call) { return n_tensors({call.inputs, call.n_inputs}); }
int64_t n_outputs(const tn_call& call) { return n_tensors({call.outputs, call.n_outputs}); }

class PluginArtifact final : public Artifact, private Retirable {
 public:
  PluginArtifact(tn_artifact* artifact, const PluginBackend& by, SavedArtifact origin,
                 const CompileRequest& request)
      : artifact_(artifact),
        call_(artifact->api->call),
        flags_(artifact->api->flags),
        net_(by.plugin.net),
        backend_(origin.backend),
        in_call_("call of backend " + backend_),
        in_destroy_("destroy of backend " + backend_),
        place_(in_call_ + ", " + place_text(request)),
        device_(device_of(*request.graph)),
        contract_(request),
        runs_with_gradients_off_(runs_with_gradients_off(request)),
        is_plain_(!contract_.is_checking() && !(flags_ & TN_AF_SERIAL_ONLY)),
        outputs_(is_plain_ && fills_given_outputs() ? MadeOutputs(request) : MadeOutputs()),
        reference_(std::in_place, net_.life()) {
    can_serialize_ = TN_HAS(artifact->api, serialize);
    has_fingerprint_ = by.cache != nullptr;
    if (can_serialize_ && has_fingerprint_) {
      origin_ = std::move(origin);
      origin_.graph = request.graph;
      origin_.mutated_inputs = request.mutated_inputs;
    }
    if (device_) watch_recordings();
    join();
  }

  ~PluginArtifact() override {
    if (leave()) retire();
  }

  [[gnu::flatten]] void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
                             std::span<Tensor> outputs, bool steal) override {
    bool makes_outputs = !outputs_.are_none() && !is_counting_held();
    for (size_t i = 0; i < outputs.size(); ++i)
      outputs[i] = makes_outputs ? outputs_.make(i, syms) : Tensor();
    uint32_t stolen = steal ? flags_ & TN_CALL_STEAL_INPUTS : 0;
    tn_status* status =
        make_call(inputs, syms, outputs, stolen | (makes_outputs ? TN_CALL_OUTPUTS_GIVEN : 0));
    if (!status) [[likely]]
      return;
    if (makes_outputs) std::ranges::fill(outputs, Tensor());  // nobody knows what is in them
    fail(status);
  }

  void fill(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs) override {
    if (tn_status* status = make_call(inputs, syms, outputs, TN_CALL_OUTPUTS_GIVEN)) fail(status);
  }
  bool fills_given_outputs() const override { return flags_ & TN_AF_WRITES_GIVEN_OUTPUTS; }

  std::string describe(int32_t what) const override {
    TextSink text;
    tn_status* status = call_plugin(net_, "describe of backend " + backend_, [&] {
      bool can = TN_HAS(artifact_->api, describe);
      return can ? artifact_->api->describe(artifact_, what, text.get()) : nullptr;
    });
    if (!status) return text.take();
    free_status(status);
    return "";
  }

  SavedArtifact save() const override {
    require(can_serialize_, ErrorCode::unsupported,
            "backend {} cannot save what it compiles; inductor can", backend_);
    require(has_fingerprint_, ErrorCode::unsupported,
            "backend {}: what it compiles is not saved, since its fingerprint failed", backend_);
    TextSink bytes;
    tn_status* status = call_plugin(net_, "serialize of backend " + backend_, [&] {
      return artifact_->api->serialize(artifact_, bytes.get());
    });
    if (status)
      throw_status(status, ErrorCode::backend_call_failed, message("backend {}", backend_));
    SavedArtifact out = origin_;
    out.bytes = bytes.take();
    return out;
  }

 private:
  tn_status* make_call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
                       std::span<Tensor> outputs, uint32_t flags) {
    if (device_ && any_overwritten()) [[unlikely]]
      check_all(inputs);
    std::span<tn_tensor*> results = handles_of(outputs);
    tn_call call = {.struct_size = sizeof call,
                    .flags = flags,
                    .n_inputs = static_cast<uint32_t>(inputs.size()),
                    .n_outputs = static_cast<uint32_t>(outputs.size()),
                    .n_syms = static_cast<uint32_t>(syms.size()),
                    ._r0 = 0,
                    .inputs = reinterpret_cast<tn_tensor**>(inputs.data()),
                    .outputs = results.data(),
                    .syms = syms.data(),
                    .stream = device_ ? current_stream(*device_) : nullptr};
    std::optional<EnableGradGuard> mode;
    if (runs_with_gradients_off_) [[unlikely]]
      mode.emplace(false);
    bool plain = is_plain_ && !is_counting_held();
    tn_status* status = plain ? run(call) : run_carefully(call);
    bool good = contract_.holds(results) || contract_.problem(results, inputs).empty();
    if (!status && !good) [[unlikely]]
      status = broken(contract_.problem(results, inputs));
    if (flags & TN_CALL_STEAL_INPUTS) release_all(inputs);
    if (!status) drop_new_histories(outputs, inputs);
    return status;
  }
  tn_status* run(tn_call& call) {
    return call_plugin(
        net_, in_call_, [&] { return call_(artifact_, &call); }, place_);
  }
  // For artifacts that take one call at a time, and under plugins.check_calls and check_leaks.
  [[gnu::noinline]] tn_status* run_carefully(tn_call& call) {
    std::unique_lock lock(serial_, std::defer_lock);
    if (flags_ & TN_AF_SERIAL_ONLY) lock.lock();
    int64_t lent = call.flags & TN_CALL_STEAL_INPUTS ? n_inputs(call) : 0;
    if (is_counting_held()) net_.life().add_held(Held::tensor, lent);
    tn_status* status = contract_.is_checking() ? run_checked(call) : run(call);
    int64_t left = call.flags & TN_CALL_STEAL_INPUTS ? n_inputs(call) : 0;
    if (is_counting_held()) net_.life().add_held(Held::tensor, -left - n_outputs(call));
    return status;
  }
  tn_status* run_checked(tn_call& call) {
    CheckedCall checked(contract_, net_, call);
    tn_status* status = run(call);
    std::string problem = checked.finish();
    return status || problem.empty() ? status : broken(std::move(problem));
  }
  tn_status* broken(std::string problem) {
    return make_status(TN_INTERNAL, to_text(net_.note_broken(std::move(problem))));
  }

  [[gnu::cold, gnu::noinline]] static void check_all(std::span<detail::TensorHead*> inputs) {
    for (detail::TensorHead* input : inputs)
      if (input) check_not_overwritten(share(input));
  }
  // Whoever got the inputs leaves NULL where he has released one.
  [[gnu::noinline]] static void release_all(std::span<detail::TensorHead*> inputs) {
    for (detail::TensorHead*& left : inputs) take_tensor(std::exchange(left, nullptr));
  }
  [[noreturn, gnu::cold, gnu::noinline]] void fail(tn_status* status) {
    throw_cause(status);
    bool is_about_values = status->code == TN_INVALID_ARGUMENT || status->code == TN_OUT_OF_RANGE ||
                           status->code == TN_UNIMPLEMENTED;
    throw_of_call(status,
                  message("{} {}", is_about_values ? "code of backend" : "backend", backend_));
  }

  void retire() noexcept override {
    call_plugin_quietly(net_, in_destroy_, [&] { artifact_->api->destroy(artifact_); });
    reference_.reset();
  }

  tn_artifact* artifact_;  // gone once retired: used inside call_plugin only
  tn_status* (*call_)(tn_artifact*, tn_call*);
  uint32_t flags_;
  PluginNet& net_;
  std::string backend_;
  // Made beforehand: there may be no memory when they are needed.
  std::string in_call_, in_destroy_, place_;
  std::optional<Device> device_;  // whose stream the calls go to
  CallContract contract_;
  bool runs_with_gradients_off_;
  bool is_plain_;
  MadeOutputs outputs_;  // none: the code makes them
  std::optional<PluginRef> reference_;
  std::mutex serial_;
  bool can_serialize_ = false, has_fingerprint_ = false;
  SavedArtifact origin_;  // of artifacts that can be saved
};

}  // namespace

std::shared_ptr<Artifact> plugin_artifact(tn_artifact* artifact, const PluginBackend& backend,
                                          SavedArtifact origin, const CompileRequest& request) {
  std::string problem = artifact_problem(artifact);
  if (!problem.empty())
    backend.plugin.net.broke_contract(ErrorCode::backend_compiler_failed, backend.manifest.name,
                                      problem);
  origin.kind = SavedArtifact::Kind::plugin;
  origin.bytes.clear();
  return std::make_shared<PluginArtifact>(artifact, backend, std::move(origin), request);
}

}  // namespace tenon
