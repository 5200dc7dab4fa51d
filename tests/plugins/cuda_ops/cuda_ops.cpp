// Single ops on the double of NVIDIA's driver: the code of an op is one kernel, which runs the op's
// graph by the host's interpreter on the device's memory while the double has it open. So the host's
// side of eager ops is tested with every op, and results are those of the CPU to the bit.
//
// TENON_TEST_DECLINE names ops that it declines, separated by commas; `numbers` stands for graphs
// with numbers among their inputs.
#include "../../fake_cuda/fake_cuda.h"

#include <loopir/program.h>
#include <tenon/cuda.h>
#include <tenon/plugin.hpp>
#include <tenon/plugin_program.hpp>

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

using namespace tenon::plugin;

/// A tensor on the device as a kernel sees it.
struct Place {
  void* data;
  int32_t dtype;
  std::vector<int64_t> sizes, strides;

  explicit Place(const tn_tensor& t)
      : data(t.data),
        dtype(t.dtype),
        sizes(t.sizes, t.sizes + t.ndim),
        strides(t.strides, t.strides + t.ndim) {}

  size_t span() const {
    int64_t last = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == 0) return 0;
      last += (sizes[d] - 1) * strides[d];
    }
    return static_cast<size_t>(last) + 1;
  }
  /// A tensor of the CPU over the memory, which is open.
  tensor as_host() const {
    tn_tensor* out = nullptr;
    check(host->tensor->from_memory(
        data, sizes.data(), strides.data(), int32_t(sizes.size()), dtype, TN_DEV_CPU, 0,
        [](void*) {}, nullptr, &out));
    return tensor(out);
  }
};

/// All that one launch works on.
struct Launch {
  std::shared_ptr<tn_artifact> code;
  std::vector<std::optional<Place>> inputs;  // numbers have none
  std::vector<std::optional<Place>> outputs;
  std::vector<int64_t> syms;

  void run() {
    std::vector<tensor> in;
    std::vector<tn_tensor*> handles, results(outputs.size());
    for (const auto& place : inputs) in.push_back(place ? place->as_host() : tensor());
    for (const tensor& t : in) handles.push_back(t.get());
    tn_call call{.struct_size = sizeof(tn_call),
                 .flags = 0,
                 .n_inputs = uint32_t(handles.size()),
                 .n_outputs = uint32_t(results.size()),
                 .n_syms = uint32_t(syms.size()),
                 ._r0 = 0,
                 .inputs = handles.data(),
                 .outputs = results.data(),
                 .syms = syms.data(),
                 .stream = nullptr};
    check(code->api->call(code.get(), &call));
    for (size_t i = 0; i < results.size(); ++i) {
      tensor result(results[i]);
      if (outputs[i]) check(host->tensor->copy(outputs[i]->as_host().get(), result.get(), nullptr));
    }
  }
};

bool are_open(const std::vector<std::optional<Place>>& places, const FakeCudaLaunch& launch) {
  for (const auto& p : places) {
    size_t bytes = p ? p->span() * static_cast<size_t>(loopir::item_size(p->dtype)) : 0;
    if (bytes && !launch.may_touch(p->data, bytes)) return false;
  }
  return true;
}

const tn_cuda_api& cuda() {
  const auto* found = extension<tn_cuda_api>(TN_CUDA_ID, TN_CUDA_VERSION);
  if (!found) throw error(TN_UNAVAILABLE, "nobody offers tenon.cuda/1");
  return *found;
}

std::atomic<tn_cuda_error_flag*> error_flag{nullptr};

// Values that the op cannot take are told of as kernels do it. The driver cannot be called here: it
// is at work.
void complain(tn_status* failed) {
  int64_t number = 0;
  tn_status* unknown = cuda().add_check(host->status_message(failed), &number);
  if (unknown) host->status_free(unknown);
  host->status_free(failed);
  *error_flag.load() = {number, 0};
}

// On a thread of its own: who waits for the device may be in the middle of recording a graph.
int32_t run_kernel(void*, const FakeCudaKernel*, const FakeCudaLaunch* launch) {
  std::unique_ptr<Launch> work(*static_cast<Launch**>(launch->args[0]));
  if (!are_open(work->inputs, *launch) || !are_open(work->outputs, *launch)) return 700;
  std::thread([&] {
    tn_status* failed = barrier([&] { work->run(); });
    if (failed) complain(failed);
  }).join();
  return 0;
}

const uint32_t one_pointer[] = {sizeof(void*)};

const FakeCudaCode code_table = {
    .self = nullptr,
    .load = [](void*, const void* image, size_t bytes, const char** why_not) -> void* {
      static char module;
      std::string_view text(static_cast<const char*>(image), bytes);
      *why_not = "the image is not of test_cuda_ops";
      return text.starts_with("cuda_ops") ? &module : nullptr;
    },
    .unload = [](void*, void*) {},
    .find =
        [](void*, void*, const char* name, FakeCudaKernel* out) {
          *out = {nullptr, 1, one_pointer, 32, 0, 0, 1024};
          return std::string_view(name) == "run";
        },
    .run = run_kernel};

void give_code_to_the_double() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void* set = driver ? ::dlsym(driver, "fake_cuda_set_code") : nullptr;
  if (!set) throw declined("the driver is not the double");
  reinterpret_cast<void (*)(const FakeCudaCode*)>(set)(&code_table);
}

bool is_listed(std::string_view name) {
  const char* list = std::getenv("TENON_TEST_DECLINE");
  std::istringstream in(list ? list : "");
  for (std::string item; std::getline(in, item, ',');)
    if (item == name) return true;
  return false;
}

void decline_what_is_listed(const graph& g) {
  for (uint32_t i = 0; i < g.size(); ++i) {
    node n = g.at(i);
    if (is_listed(sv(n.op_name))) throw declined(text("{} is listed", sv(n.op_name)));
    if (n.tags & TN_TAG_RANDOM) throw declined("random numbers are drawn when a call is made");
    for (const tn_arg& a : n.arguments())
      if (a.kind == TN_ARG_DEVICE) throw declined("a device is among the arguments");
  }
  for (uint32_t id : g.inputs())
    if (!g.value_at(id).is_tensor() && is_listed("numbers")) throw declined("numbers are listed");
}

class Program {
 public:
  static constexpr uint32_t flags = TN_AF_WRITES_GIVEN_OUTPUTS;

  explicit Program(const tn_compile_request& rq) {
    if (rq.stage != TN_STAGE_SINGLE_OP) throw declined("it takes single ops only");
    graph g(rq);
    decline_what_is_listed(g);
    for (uint32_t id : g.outputs()) keep_output(g, id);
    give_code_to_the_double();
    tn_cuda_error_flag* flag = nullptr;
    check(cuda().error_flag(0, &flag));
    error_flag = flag;
    check(cuda().module_load(0, str("cuda_ops"), &module_));
    tn_status* missing = cuda().kernel(module_, str("run"), &kernel_);
    if (missing) cuda().module_release(module_);
    check(missing);
    tn_artifact* code = nullptr;
    check(host->run->interpret(rq.ctx, rq.graph, &code));
    code_ = {code, [](tn_artifact* a) { a->api->destroy(a); }};
  }
  ~Program() { cuda().module_release(module_); }

  void call(tn_call& c) {
    auto work = std::make_unique<Launch>();
    work->code = code_;
    work->syms.assign(c.syms, c.syms + c.n_syms);
    for (uint32_t i = 0; i < c.n_inputs; ++i)
      work->inputs.push_back(c.inputs[i] ? std::optional<Place>(*c.inputs[i]) : std::nullopt);
    if (!(c.flags & TN_CALL_OUTPUTS_GIVEN)) make_outputs(c);
    for (uint32_t i = 0; i < c.n_outputs; ++i)
      work->outputs.push_back(c.outputs[i] ? std::optional<Place>(*c.outputs[i]) : std::nullopt);
    launch(*work, c);
    static_cast<void>(work.release());  // the kernel's
  }

 private:
  struct Output {
    int32_t dtype, device_index;
    std::vector<tn_dim> sizes, strides;
  };

  void keep_output(const graph& g, uint32_t id) {
    Output& out = outputs_.emplace_back();
    if (id == TN_NO_VALUE) return;
    value v = g.value_at(id);
    if (!v.is_tensor()) throw declined("an output is a number");
    out = {v.dtype,
           v.device_index,
           {v.dims().begin(), v.dims().end()},
           {v.stride_dims().begin(), v.stride_dims().end()}};
    is_there_.push_back(outputs_.size() - 1);
    for (auto* list : {&out.sizes, &out.strides})
      for (tn_dim& d : *list)
        if (d.expr != TN_EXPR_STATIC) d.value = expressions_.keep(g, d.expr);
  }

  void make_outputs(tn_call& c) const {
    std::vector<int64_t> values = expressions_.evaluate(c.syms);
    auto numbers = [&](const std::vector<tn_dim>& dims) {
      std::vector<int64_t> out;
      for (const tn_dim& d : dims)
        out.push_back(d.expr == TN_EXPR_STATIC ? d.value : values[size_t(d.value)]);
      return out;
    };
    for (size_t i : is_there_) {
      const Output& o = outputs_[i];
      std::vector<int64_t> sizes = numbers(o.sizes), strides = numbers(o.strides);
      check(host->tensor->empty(sizes.data(), strides.data(), int32_t(sizes.size()), o.dtype,
                                TN_DEV_CUDA, o.device_index, &c.outputs[i]));
    }
  }

  void launch(Launch& work, const tn_call& c) const {
    Launch* pointer = &work;
    void* args[] = {&pointer};
    tn_cuda_launch how{.struct_size = sizeof how,
                       .flags = 0,
                       .grid = {1, 1, 1},
                       .block = {32, 1, 1},
                       .shared_bytes = 0,
                       ._r0 = 0,
                       .stream = c.stream,
                       .args = args,
                       .arg_info = nullptr,
                       .n_args = 0,
                       ._r1 = 0};
    check(cuda().launch(kernel_, &how));
  }

  std::vector<Output> outputs_;
  std::vector<size_t> is_there_;
  kept_expressions expressions_;
  tn_cuda_module* module_ = nullptr;
  tn_cuda_kernel* kernel_ = nullptr;
  std::shared_ptr<tn_artifact> code_;
};

struct CudaOps : Backend {
  std::unique_ptr<Program> compile(const tn_compile_request& rq) {
    return std::make_unique<Program>(rq);
  }
};

std::span<const int64_t> strides(const tn_tensor* t) { return {t->strides, size_t(t->ndim)}; }

// A kernel for the device, by the CPU's.
bool digamma(const kernel_call& c) {
  const tn_tensor* x = c.tensor_at(0);
  tensor here = tensor::strided(sizes(x), strides(x), x->dtype);
  check(host->tensor->copy(here.get(), x, c.stream));
  tn_arg arg{};
  arg.kind = TN_ARG_VALUE;
  tn_tensor *given = here.get(), *made = nullptr;
  run_op(op("aten.digamma.default"), std::span(&arg, 1), &given, std::span(&made, 1));
  tensor result(made);
  tensor there =
      tensor::strided(sizes(made), strides(made), made->dtype, TN_DEV_CUDA, x->device_index);
  check(host->tensor->copy(there.get(), made, c.stream));
  c.give(0, std::move(there));
  return true;
}

constexpr kernel_row kernel_rows[] = {{"aten.digamma.default", digamma}};

}  // namespace

TENON_PLUGIN(p) {
  p.backend<CudaOps>("cuda_ops");
  p.kernels(TN_DEV_CUDA, kernel_rows);
}
