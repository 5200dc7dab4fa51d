// Modules by their image, and launches.
#include "modules.h"

#include "trees/recording.h"

#include <tenon/plugin.hpp>

#include <array>
#include <vector>

namespace tenon::cuda {

using plugin::error;
using plugin::text;

namespace {

constexpr size_t log_bytes = 8192;
constexpr uint32_t shared_without_asking = 48 << 10;

/// Where the driver's compiler writes what it has against the code.
class ErrorLog {
 public:
  unsigned count() const { return static_cast<unsigned>(options_.size()); }
  api::JitOption* options() { return options_.data(); }
  void** values() { return values_.data(); }

  void check(Gpu& gpu, api::Result result, const char* call, const char* what) {
    if (result == api::success) return;
    std::string_view said(log_.data());
    cuda::check(gpu, result, call, said.empty() ? what : text("{}:\n{}\n", what, said));
  }

 private:
  std::vector<char> log_ = std::vector<char>(log_bytes);
  std::array<api::JitOption, 2> options_ = {api::jit_error_log, api::jit_error_log_bytes};
  std::array<void*, 2> values_ = {log_.data(), reinterpret_cast<void*>(log_bytes)};
};

/// Loaded modules of all devices.
struct Modules {
  std::mutex loading;
  std::map<std::pair<Gpu*, std::string>, tn_cuda_module*> loaded;
};

// Leaked: code may be given back at any time.
Modules& modules() {
  static auto* const all = new Modules;
  return *all;
}

/// A link that is under way.
class Link {
 public:
  explicit Link(Gpu& gpu) : gpu_(gpu) {
    log_.check(gpu_, driver().cuLinkCreate(log_.count(), log_.options(), log_.values(), &state_),
               "cuLinkCreate", "assembling PTX");
  }
  ~Link() { driver().cuLinkDestroy(state_); }
  Link(const Link&) = delete;

  void add(std::string& ptx) {  // with the 0 behind it
    log_.check(gpu_,
               driver().cuLinkAddData(state_, api::jit_input_ptx, ptx.data(), ptx.size() + 1,
                                      "kernels.ptx", 0, nullptr, nullptr),
               "cuLinkAddData", "assembling PTX");
  }
  std::string finish() {
    void* code = nullptr;
    size_t bytes = 0;
    log_.check(gpu_, driver().cuLinkComplete(state_, &code, &bytes), "cuLinkComplete",
               "assembling PTX");
    return {static_cast<const char*>(code), bytes};
  }

 private:
  Gpu& gpu_;
  ErrorLog log_;
  api::LinkState state_ = nullptr;
};

api::Module load(Gpu& gpu, const std::string& image) {
  ErrorLog log;
  api::Module handle = nullptr;
  log.check(
      gpu,
      driver().cuModuleLoadDataEx(&handle, image.c_str(), log.count(), log.options(), log.values()),
      "cuModuleLoadDataEx", "loading code");
  return handle;
}

void unload(tn_cuda_module& module) {
  if (module.gpu->is_lost()) return;
  module.gpu->bind();
  CU_TRY(*module.gpu, "giving code back", cuModuleUnload, module.handle);
}

int attribute(tn_cuda_kernel& kernel, int32_t which) {
  int value = 0;
  CU_TRY(*kernel.module->gpu, text("asking what kernel {} needs", kernel.name), cuFuncGetAttribute,
         &value, which, kernel.handle);
  return value;
}

// More than every launch may have has to be asked for, once.
void allow_shared(tn_cuda_kernel& kernel, uint32_t bytes) {
  if (bytes <= kernel.shared_allowed.load(std::memory_order_relaxed)) return;
  CU_TRY(*kernel.module->gpu,
         text("giving kernel {} {} bytes of shared memory", kernel.name, bytes), cuFuncSetAttribute,
         kernel.handle, api::function_dynamic_shared_bytes, static_cast<int>(bytes));
  kernel.shared_allowed.store(bytes, std::memory_order_relaxed);
}

std::string describe(const tn_cuda_kernel& kernel, const tn_cuda_launch& how) {
  return text("launching kernel {} (grid {}x{}x{}, block {}x{}x{}, {} bytes of shared memory)",
              kernel.name, how.grid[0], how.grid[1], how.grid[2], how.block[0], how.block[1],
              how.block[2], how.shared_bytes);
}

// A kernel that waits by itself is launched ahead: 0.5 us less of the host, where launches follow each
// other (of 3.2, on a GPU of the Hopper generation).
void enqueue(tn_cuda_kernel& kernel, const tn_cuda_launch& how, api::Stream stream, bool is_ahead) {
  const uint32_t *grid = how.grid, *block = how.block;
  Gpu& gpu = *kernel.module->gpu;
  if (!is_ahead) {
    CU_TRY(gpu, describe(kernel, how), cuLaunchKernel, kernel.handle, grid[0], grid[1], grid[2],
           block[0], block[1], block[2], how.shared_bytes, stream, const_cast<void**>(how.args),
           nullptr);
    return;
  }
  api::LaunchAttribute ahead{.kind = api::launch_programmatic_serialization, .is_allowed = 1};
  api::LaunchConfig config{.grid = {grid[0], grid[1], grid[2]},
                           .block = {block[0], block[1], block[2]},
                           .shared_bytes = how.shared_bytes,
                           .stream = stream,
                           .attributes = &ahead,
                           .n_attributes = 1};
  CU_TRY(gpu, describe(kernel, how), cuLaunchKernelEx, &config, kernel.handle,
         const_cast<void**>(how.args), nullptr);
}

}  // namespace

std::string assemble(Gpu& gpu, std::string_view ptx) {
  gpu.bind();
  std::string terminated(ptx);
  Link link(gpu);
  link.add(terminated);
  return link.finish();
}

tn_cuda_module* load_module(Gpu& gpu, std::string_view image) {
  gpu.bind();
  Modules& all = modules();
  std::lock_guard lock(all.loading);
  auto [at, added] = all.loaded.try_emplace({&gpu, std::string(image)});
  if (!added) {
    ++at->second->users;
    return at->second;
  }
  try {
    api::Module handle = load(gpu, at->first.second);
    return at->second = new tn_cuda_module{&gpu, handle, &at->first.second, 1, {}, {}};
  } catch (...) {
    all.loaded.erase(at);
    throw;
  }
}

void retain_module(tn_cuda_module& module) {
  std::lock_guard lock(modules().loading);
  ++module.users;
}

void release_module(tn_cuda_module* module) noexcept {
  plugin::detail::quietly("cuda", [&] {
    Modules& all = modules();
    std::lock_guard lock(all.loading);
    if (--module->users > 0) return;
    all.loaded.erase({module->gpu, *module->image});
    std::unique_ptr<tn_cuda_module> owned(module);
    unload(*module);
  });
}

tn_cuda_kernel* find_kernel(tn_cuda_module& module, std::string_view name) {
  module.gpu->bind();
  std::lock_guard lock(module.naming);
  if (auto known = module.kernels.find(name); known != module.kernels.end())
    return known->second.get();
  std::string text_name(name);
  api::Function handle = nullptr;
  api::Result result = driver().cuModuleGetFunction(&handle, module.handle, text_name.c_str());
  if (result == api::error_not_found)
    throw error(TN_NOT_FOUND, text("the module has no kernel {}", name));
  check(*module.gpu, result, "cuModuleGetFunction", "looking for a kernel");
  auto kernel = std::make_unique<tn_cuda_kernel>(&module, text_name, handle, shared_without_asking);
  return module.kernels.emplace(std::move(text_name), std::move(kernel)).first->second.get();
}

void fill(tn_cuda_kernel& kernel, tn_cuda_kernel_facts& out) {
  kernel.module->gpu->bind();
  auto read = [&](int32_t which) { return static_cast<uint32_t>(attribute(kernel, which)); };
  out.registers = read(api::function_registers);
  out.local_bytes = read(api::function_local_bytes);
  out.shared_bytes = read(api::function_shared_bytes);
  out.threads_per_block = read(api::function_threads_per_block);
}

void launch(tn_cuda_kernel& kernel, const tn_cuda_launch& how) {
  Gpu& gpu = *kernel.module->gpu;
  gpu.bind();
  if (!how.grid[0] || !how.grid[1] || !how.grid[2]) return;
  trees::StreamUse use(how.stream);
  trees::Recording* recording = use.recording();
  if (recording) recording->require_running();
  allow_shared(kernel, how.shared_bytes);
  api::Stream stream = gpu.handle_of(how.stream);
  // Edges of a recording are whole ones.
  enqueue(kernel, how, stream, !recording && (how.flags & TN_CUDA_LAUNCH_BEGINS_WITH_WAIT));
  if (recording) return recording->note_launch(kernel, how);
  if (how.flags & TN_CUDA_LAUNCH_WAIT)
    CU_TRY(gpu, describe(kernel, how), cuStreamSynchronize, stream);
}

}  // namespace tenon::cuda
