// The backend "simt": inductor_cuda over memory of the CPU. Its device is this file; accesses of
// kernels are checked against the buffers of the call.
#include "simt_code.h"
#include "simt_threads.h"

#include <inductor_cuda/compile.h>
#include <inductor_cuda/image.h>
#include <inductor_cuda/saved/saved_form.h>
#include <loopir/supported.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

using namespace tenon::plugin;

struct tn_cuda_module {
  simt::LoadedImage image;
  std::map<std::string, tn_cuda_kernel> kernels;
};
struct tn_cuda_kernel {
  SimtKernel run;
  const SimtFacts* facts;
  std::string name;
};

namespace {

// ---- the memory of a call

struct Ranges {
  std::map<const char*, size_t> bytes;  // by begin
  void add(const tn_tensor* t) {
    if (!t || !t->storage) return;
    size_t& known = bytes[static_cast<const char*>(t->storage)];
    known = std::max<size_t>(known, t->storage_bytes);
  }
  bool has(const void* address, size_t n) const {
    auto* at = static_cast<const char*>(address);
    // Tensors that lie in others have ranges of their own.
    return std::any_of(bytes.begin(), bytes.upper_bound(at),
                       [&](const auto& range) { return at + n <= range.first + range.second; });
  }
};
thread_local Ranges* ranges = nullptr;
const tn_tensor_api* given_tensors = nullptr;
const tn_run_api* given_run = nullptr;

tn_status* counted_empty(const int64_t* sizes, const int64_t* strides, int32_t ndim, int32_t dtype,
                         int32_t type, int32_t index, tn_tensor** out) {
  tn_status* status = given_tensors->empty(sizes, strides, ndim, dtype, type, index, out);
  if (!status && ranges) ranges->add(*out);
  return status;
}

tn_status* counted_run(uint32_t op, const tn_arg* args, uint32_t n_args, tn_tensor* const* values,
                       tn_stream* stream, tn_tensor** out, uint32_t n_out) {
  tn_status* status = given_run->run_op(op, args, n_args, values, stream, out, n_out);
  for (uint32_t i = 0; !status && ranges && i < n_out; ++i) ranges->add(out[i]);
  return status;
}

/// The host's table, with the functions that give memory counted.
void count_memory() {
  static std::once_flag once;
  std::call_once(once, [] {
    given_tensors = host->tensor;
    given_run = host->run;
    static tn_tensor_api tensors = *given_tensors;
    static tn_run_api run = *given_run;
    static tn_host counted = *host;
    tensors.empty = counted_empty;
    run.run_op = counted_run;
    counted.tensor = &tensors;
    counted.run = &run;
    host = &counted;
  });
}

// ---- the device

tn_cuda_error_flag flag;
std::vector<std::string>& checks() {
  static auto& all = *new std::vector<std::string>;
  return all;
}

tn_status* facts(int32_t, tn_cuda_facts* out) {
  tn_cuda_facts f{};
  f.struct_size = out->struct_size;
  f.warp = 32;
  f.capability_major = 9;
  f.multiprocessors = 4;
  f.shared_per_block = 48 << 10;
  f.arch = TN_STR("simt");
  *out = f;
  return nullptr;
}
tn_status* load(int32_t, tn_str image, tn_cuda_module** out) {
  return barrier([&] { *out = new tn_cuda_module{simt::LoadedImage(sv(image)), {}}; });
}
void release(tn_cuda_module* module) { delete module; }
tn_status* find(tn_cuda_module* module, tn_str name, tn_cuda_kernel** out) {
  return barrier([&] {
    std::string symbol(sv(name));
    tn_cuda_kernel made{module->image.kernel(symbol), module->image.facts(symbol), symbol};
    if (!made.run || !made.facts) throw error(TN_NOT_FOUND, "no kernel " + symbol);
    *out = &module->kernels.emplace(symbol, made).first->second;
  });
}
tn_status* launch(tn_cuda_kernel* kernel, const tn_cuda_launch* how) {
  return barrier([&] {
    flag = {};
    auto may_touch = [](const void* address, size_t n) {
      return ranges->has(address, n) || address == &flag;
    };
    std::string problem = simt::run(kernel->run,
                                    {.blocks = how->grid[0],
                                     .threads = how->block[0],
                                     .shared_bytes = kernel->facts->shared_bytes,
                                     .cooperates = kernel->facts->cooperates != 0},
                                    how->args, may_touch);
    if (!problem.empty())
      throw error(TN_INTERNAL, "kernel " + kernel->name + ": a thread " + problem);
    if (!flag.check) return;
    std::string said = checks().at(static_cast<size_t>(flag.check) - 1);
    if (size_t at = said.find("{}"); at != std::string::npos)
      said.replace(at, 2, std::to_string(flag.value));
    throw error(TN_OUT_OF_RANGE, said);
  });
}
tn_status* add_check(tn_str said, int64_t* check) {
  checks().emplace_back(sv(said));
  *check = static_cast<int64_t>(checks().size());
  return nullptr;
}
tn_status* error_flag(int32_t, tn_cuda_error_flag** out) {
  *out = &flag;
  return nullptr;
}

const tn_cuda_api* api() {
  static const tn_cuda_api table = [] {
    tn_cuda_api t{};
    t.struct_size = sizeof t;
    t.facts = facts;
    t.module_load = load;
    t.module_release = release;
    t.kernel = find;
    t.launch = launch;
    t.add_check = add_check;
    t.error_flag = error_flag;
    return t;
  }();
  return &table;
}

// ---- the backend

struct Program {
  static constexpr uint32_t flags = inductor_cuda::Executable::flags;
  std::unique_ptr<inductor_cuda::Executable> made;
  std::vector<tensor> constants;

  void call(tn_call& c) {
    Ranges own;
    Ranges* outer = std::exchange(ranges, &own);
    for (uint32_t i = 0; i < c.n_inputs; ++i) own.add(c.inputs[i]);
    bool is_given = (c.flags & TN_CALL_OUTPUTS_GIVEN) != 0;
    for (uint32_t i = 0; is_given && i < c.n_outputs; ++i) own.add(c.outputs[i]);
    for (const tensor& t : constants) own.add(t.get());
    own.add(made->setup().memory());
    struct Back {
      Ranges* outer;
      ~Back() { ranges = outer; }
    } back{outer};
    made->call(c);
  }
  std::string describe(int32_t what) { return made->describe(what); }
  std::string serialize() { return made->serialize(); }
};

struct Simt : Backend {
  void supports(const tn_compile_request& request, std::span<uint8_t> verdicts) {
    loopir::support_nodes(request, false, verdicts);
  }
  std::unique_ptr<Program> compile(const tn_compile_request& request) {
    count_memory();
    simt::make_images();
    auto made = inductor_cuda::compile(request, machine());
    // So that all that is compiled runs as what was loaded.
    if (std::getenv("SIMT_SAVES"))
      made = inductor_cuda::load_executable(request, machine(), made->serialize());
    return with_constants(request, std::move(made));
  }
  std::unique_ptr<Program> load(const tn_compile_request& request, std::string_view bytes) {
    count_memory();
    return with_constants(request, inductor_cuda::load_executable(request, machine(), bytes));
  }
  static inductor_cuda::Machine machine() { return {.api = api(), .device_type = TN_DEV_CPU}; }
  static std::unique_ptr<Program> with_constants(const tn_compile_request& request,
                                                 std::unique_ptr<inductor_cuda::Executable> made) {
    auto out = std::make_unique<Program>();
    out->made = std::move(made);
    graph g(request);
    for (uint32_t id = 0; id < g.values(); ++id)
      if (g.value_at(id).source == TN_SRC_CONSTANT) out->constants.push_back(g.constant(id));
    return out;
  }
  std::string fingerprint() { return inductor_cuda::fingerprint(); }
};

}  // namespace

TENON_PLUGIN_BACKENDS((Simt, "simt"))
