// Launches and calls by the tables, as a plugin makes them.
#include "recorded_function.h"

#include "backend/abi/bridge.h"
#include "backend/abi/extensions.h"
#include "backend/abi/status.h"
#include "core/device/provider.h"
#include "core/tensor/tensor_impl.h"
#include "double.h"

#include <stdexcept>

using namespace tenon;

const tn_cuda_api& cuda_api() {
  device_count(DeviceType::cuda);  // loads the plugin
  const void* table = find_extension(TN_CUDA_ID, TN_CUDA_VERSION);
  if (!table) throw std::runtime_error("nobody offers tenon.cuda/1");
  return *static_cast<const tn_cuda_api*>(table);
}

std::string told(tn_status* status) {
  if (!status) return "";
  std::string out = message("{}: {}", status->code, status->text);
  free_status(status);
  return out;
}

namespace {

void check(tn_status* status) {
  if (status) throw std::runtime_error(told(status));
}

tn_str str(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

Tensor new_floats(std::vector<int64_t> sizes) {
  return make_tensor(
      contiguous_meta(SymIntList(IntList(sizes.data(), sizes.size())), Dtype::f32, gpu));
}

Tensor input(const tn_call& c, size_t i) { return share_tensor(c.inputs[i]); }

// ---- functions

RecordedFunction::RecordedFunction(About about, Body body)
    : about_(std::move(about)), body_(std::move(body)) {
  auto values = [](const std::vector<uint32_t>& flags, const char* name) {
    std::vector<tn_cuda_value> out;
    for (uint32_t f : flags) out.push_back({f, 0, str(name)});
    return out;
  };
  std::vector<tn_cuda_value> inputs = values(about_.inputs, "x");
  std::vector<tn_cuda_value> results = values(about_.results, "aten.add.Tensor at test.cpp:1");
  std::vector<tn_tensor*> constants;
  for (const Tensor& t : about_.constants) constants.push_back(t.head());
  tn_cuda_function_info info{};
  info.struct_size = sizeof info;
  info.flags = about_.flags;
  info.outputs = about_.outputs;
  info.name = str(about_.name);
  info.n_inputs = static_cast<uint32_t>(inputs.size());
  info.n_outputs = static_cast<uint32_t>(results.size());
  info.input_info = inputs.data();
  info.output_info = results.data();
  info.n_syms = about_.n_syms;
  info.max_sizes = about_.max_sizes;
  info.rerecord_limit = about_.rerecord_limit;
  info.min_nodes = about_.min_nodes;
  info.n_capture_sizes =
      about_.n_syms ? static_cast<uint32_t>(about_.capture_sizes.size() / about_.n_syms) : 0;
  info.capture_sizes = about_.capture_sizes.data();
  info.self = this;
  info.launch = launch;
  info.constants = constants.data();
  info.n_constants = static_cast<uint32_t>(constants.size());
  check(cuda_api().function_new(&info, &function_));
}

RecordedFunction::~RecordedFunction() { cuda_api().function_drop(function_); }

tn_status* RecordedFunction::launch(void* self, tn_call* c) {
  auto& f = *static_cast<RecordedFunction*>(self);
  ++f.launches_;
  return guarded([&] {
    std::vector<Tensor> results = f.body_(*c);
    for (size_t i = 0; i < results.size(); ++i) c->outputs[i] = give(std::move(results[i]));
  });
}

std::vector<Tensor> RecordedFunction::operator()(const std::vector<Tensor>& inputs,
                                                 std::vector<int64_t> syms) {
  std::vector<tn_tensor*> in, out(about_.results.size());
  for (const Tensor& t : inputs) in.push_back(t.head());
  tn_call call{};
  call.struct_size = sizeof call;
  call.n_inputs = static_cast<uint32_t>(in.size());
  call.n_outputs = static_cast<uint32_t>(out.size());
  call.n_syms = static_cast<uint32_t>(syms.size());
  call.inputs = in.data();
  call.outputs = out.data();
  call.syms = syms.data();
  call.stream = about_.has_stream ? current_stream(gpu) : nullptr;
  check(cuda_api().function_run(function_, &call));
  std::vector<Tensor> results;
  for (tn_tensor* t : out) results.push_back(take_tensor(t));
  return results;
}

std::string RecordedFunction::report() const {
  std::string text;
  tn_sink sink{&text, [](void* to, const char* data, size_t n) {
                 static_cast<std::string*>(to)->append(data, n);
               }};
  check(cuda_api().function_describe(function_, &sink));
  return text;
}

int RecordedFunction::count(const std::string& what) const {
  std::string text = report(), key = "\"" + what + "\": ";
  size_t at = text.find(key);
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + key.size());
}
