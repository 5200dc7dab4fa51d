// Launches and calls by the tables, as a plugin makes them.
#include "recorded_function.h"

#include "backend/abi/bridge.h"
#include "backend/abi/extensions.h"
#include "backend/abi/status.h"
#include "core/device/provider.h"
#include "core/tensor/tensor_impl.h"
#include "double.h"

#include <cstring>
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

template <class T>
T arg(const FakeCudaLaunch& launch, size_t i) {
  return *static_cast<T*>(launch.args[i]);
}

// Elements of `a`, and of `b`, where there is one, become elements of y.
template <class F>
int32_t pointwise(const FakeCudaLaunch& launch, size_t n_arrays, F&& f) {
  auto n = arg<int64_t>(launch, n_arrays);
  for (size_t i = 0; i < n_arrays; ++i)
    if (!launch.may_touch(arg<float*>(launch, i), static_cast<size_t>(n) * sizeof(float)))
      return 700;
  auto* y = arg<float*>(launch, 0);
  auto* a = arg<float*>(launch, 1);
  for (int64_t i = 0; i < n; ++i) y[i] = f(y[i], a[i], i);
  return 0;
}

int32_t run_sum(const FakeCudaLaunch& l) {
  auto* b = arg<float*>(l, 2);
  return pointwise(l, 3, [&](float, float a, int64_t i) { return a + b[i]; });
}
int32_t run_add(const FakeCudaLaunch& l) {
  return pointwise(l, 2, [](float y, float a, int64_t) { return y + a; });
}
int32_t run_times(const FakeCudaLaunch& l) {
  auto number = arg<float>(l, 3);
  return pointwise(l, 2, [&](float, float a, int64_t) { return a * number; });
}
int32_t run_shift(const FakeCudaLaunch& l) {
  auto by = static_cast<float>(arg<uint64_t>(l, 3) % 64 + arg<uint64_t>(l, 4) % 4096);
  return pointwise(l, 2, [&](float, float a, int64_t) { return a + by; });
}

/// Parameters of a launch, each a word.
struct Words {
  std::vector<uint64_t> words;
  std::vector<tn_cuda_arg> info;

  Words& address(const Tensor& t) {
    return add(reinterpret_cast<uint64_t>(impl_of(t)->data), {TN_CUDA_ARG_ADDRESS, 8, 0, nullptr});
  }
  Words& add(uint64_t word, tn_cuda_arg about) {
    words.push_back(word);
    info.push_back(about);
    return *this;
  }
  Words& count(const Tensor& t) {
    return add(static_cast<uint64_t>(t.numel()), {TN_CUDA_ARG_VALUE, 8, 0, nullptr});
  }
  void launch(tn_cuda_kernel* kernel, const tn_call& c, bool is_told = true) {
    std::vector<void*> places;
    for (uint64_t& word : words) places.push_back(&word);
    tn_cuda_launch how{};
    how.struct_size = sizeof how;
    how.grid[0] = how.grid[1] = how.grid[2] = 1;
    how.block[0] = 32;
    how.block[1] = how.block[2] = 1;
    how.stream = c.stream;
    how.args = places.data();
    how.arg_info = is_told ? info.data() : nullptr;
    how.n_args = static_cast<uint32_t>(info.size());
    check(cuda_api().launch(kernel, &how));
  }
};

}  // namespace

FloatKernels::FloatKernels() {
  code_.add("sum", {{8, 8, 8, 8}, run_sum});
  code_.add("add", {{8, 8, 8}, run_add});
  code_.add("times", {{8, 8, 8, 8}, run_times});
  code_.add("shift", {{8, 8, 8, 8, 8}, run_shift});
  check(cuda_api().module_load(0, str("host kernels of floats"), &module_));
  auto find = [&](const char* name, tn_cuda_kernel** out) {
    check(cuda_api().kernel(module_, str(name), out));
  };
  find("sum", &sum_);
  find("add", &add_);
  find("times", &times_);
  find("shift", &shift_);
}

FloatKernels::~FloatKernels() {
  synchronize(gpu);
  cuda_api().module_release(module_);
}

void FloatKernels::sum(tn_call& c, const Tensor& y, const Tensor& a, const Tensor& b, Known known) {
  Words().address(y).address(a).address(b).count(y).launch(sum_, c, known == Known::yes);
}
void FloatKernels::add(tn_call& c, const Tensor& y, const Tensor& a) {
  Words().address(y).address(a).count(y).launch(add_, c);
}
void FloatKernels::times(tn_call& c, const Tensor& y, const Tensor& a, const float* source) {
  uint64_t word = 0;
  std::memcpy(&word, source, sizeof *source);
  Words().address(y).address(a).count(y).add(word, {TN_CUDA_ARG_NUMBER, 8, 4, source}).launch(
      times_, c);
}
void FloatKernels::shift_by_draw(tn_call& c, const Tensor& y, const Tensor& a, uint64_t seed,
                                 uint64_t offset) {
  Words()
      .address(y)
      .address(a)
      .count(y)
      .add(seed, {TN_CUDA_ARG_SEED, 8, 0, nullptr})
      .add(offset, {TN_CUDA_ARG_OFFSET, 8, 0, nullptr})
      .launch(shift_, c);
}

Tensor new_floats(std::vector<int64_t> sizes) {
  return make_tensor(contiguous_meta(SymIntList(IntList(sizes.data(), sizes.size())), Dtype::f32,
                                     gpu));
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
  call.stream = current_stream(gpu);
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
