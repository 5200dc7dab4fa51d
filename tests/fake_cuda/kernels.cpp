// The driver's functions for code: modules, kernels, launches, and the assembler.
#include "world.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

namespace fake_cuda {

namespace {

/// Where a caller wants to read what is wrong with its code.
struct ErrorLog {
  char* text = nullptr;
  size_t bytes = 0;

  ErrorLog(unsigned n, const api::JitOption* options, void** values) {
    for (unsigned i = 0; i < n; ++i) {
      if (options[i] == api::jit_error_log) text = static_cast<char*>(values[i]);
      if (options[i] == api::jit_error_log_bytes) bytes = reinterpret_cast<size_t>(values[i]);
    }
  }
  void write(const char* what) const {
    if (text && bytes) std::snprintf(text, bytes, "%s", what);
  }
};

Result load(api::Module* module, const void* image, unsigned n, api::JitOption* options,
            void** values) {
  return call("cuModuleLoadDataEx", [&](World& w) -> Result {
    const char* why_not = nullptr;
    ModuleState* loaded = w.code.load(image, &why_not);
    if (!loaded) {
      ErrorLog(n, options, values).write(why_not);
      return api::error_invalid_image;
    }
    *module = reinterpret_cast<api::Module>(loaded);
    return api::success;
  });
}
Result unload(api::Module module) {
  return call("cuModuleUnload", [&](World& w) -> Result {
    bool known = w.code.unload(reinterpret_cast<ModuleState*>(module));
    return known ? api::success : invalid_handle;
  });
}
Result find(api::Function* function, api::Module module, const char* name) {
  return call("cuModuleGetFunction", [&](World& w) -> Result {
    FunctionState* found = w.code.find(reinterpret_cast<ModuleState*>(module), name);
    *function = reinterpret_cast<api::Function>(found);
    return found ? api::success : api::error_not_found;
  });
}
Result attribute(int* value, int32_t which, api::Function function) {
  return call("cuFuncGetAttribute", [&](World&) -> Result {
    const FakeCudaKernel& k = reinterpret_cast<FunctionState*>(function)->kernel;
    uint32_t read = which == api::function_registers      ? k.registers
                    : which == api::function_local_bytes  ? k.local_bytes
                    : which == api::function_shared_bytes ? k.shared_bytes
                                                          : k.threads_per_block;
    *value = static_cast<int>(read);
    return api::success;
  });
}
Result set_attribute(api::Function function, int32_t which, int value) {
  return call("cuFuncSetAttribute", [&](World&) -> Result {
    bool fits = which == api::function_dynamic_shared_bytes && value <= most_shared;
    if (!fits) return api::error_invalid_value;
    reinterpret_cast<FunctionState*>(function)->shared_allowed = static_cast<uint32_t>(value);
    return api::success;
  });
}

// Nothing that a GPU would refuse, too.
bool fits(const FunctionState& function, const unsigned (&grid)[3], const unsigned (&block)[3],
          unsigned shared) {
  uint64_t threads = uint64_t(block[0]) * block[1] * block[2];
  uint64_t limit = function.kernel.threads_per_block ? function.kernel.threads_per_block : 1024;
  bool counted = threads > 0 && threads <= limit && grid[0] > 0 && grid[1] > 0 && grid[2] > 0;
  return counted && grid[0] <= INT32_MAX && grid[1] <= 65535 && grid[2] <= 65535 &&
         block[0] <= 1024 && block[1] <= 1024 && block[2] <= 64 &&
         shared <= function.shared_allowed;
}

// On the thread that works, which has the lock.
bool may_touch(const void* address, size_t bytes) {
  World& w = world();
  auto at = reinterpret_cast<Address>(address);
  return w.memory.is_device(at) ? w.memory.work(at, bytes) != nullptr : is_pinned(w, at, bytes);
}

std::vector<std::vector<char>> copied(const FakeCudaKernel& kernel, void** values) {
  std::vector<std::vector<char>> out;
  for (uint32_t i = 0; i < kernel.n_parameters; ++i) {
    const char* begin = static_cast<const char*>(values[i]);
    out.emplace_back(begin, begin + kernel.parameters[i]);
  }
  return out;
}

}  // namespace

Result run_launch(World& w, const Launch& launch) {
  w.memory.open(true);
  Result result = launch.run(&may_touch);
  w.memory.open(false);
  return result;
}

std::shared_ptr<const Launch> made_launch(const FunctionState& function, const unsigned* grid,
                                          const unsigned* block, unsigned shared, void** values) {
  return std::make_shared<const Launch>(Launch{function.module,
                                               function.kernel,
                                               {grid[0], grid[1], grid[2]},
                                               {block[0], block[1], block[2]},
                                               shared,
                                               copied(function.kernel, values)});
}

namespace {

Result launch(api::Function handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
              unsigned bz, unsigned shared, api::Stream stream, void** parameters, void**) {
  return call("cuLaunchKernel", [&](World& w) -> Result {
    const auto& function = *reinterpret_cast<FunctionState*>(handle);
    if (!w.code.knows(reinterpret_cast<FunctionState*>(handle))) return invalid_handle;
    unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    if (!fits(function, grid, block, shared)) return api::error_invalid_value;
    ++w.launches;
    Node node{.kind = Node::Kind::launch};
    node.launch = made_launch(function, grid, block, shared, parameters);
    return enqueue_node(w, stream, std::move(node));
  });
}

Result launch_ahead(const api::LaunchConfig* how, api::Function handle, void** parameters,
                    void** extra) {
  return launch(handle, how->grid[0], how->grid[1], how->grid[2], how->block[0], how->block[1],
                how->block[2], how->shared_bytes, how->stream, parameters, extra);
}

// ---- the assembler: its machine code is the text

LinkText& link_of(api::LinkState state) { return *reinterpret_cast<LinkText*>(state); }

Result begin_link(unsigned n, api::JitOption* options, void** values, api::LinkState* state) {
  return call("cuLinkCreate", [&](World&) {
    ErrorLog log(n, options, values);
    *state = reinterpret_cast<api::LinkState>(new LinkText{{}, log.text, log.bytes});
    return api::success;
  });
}
Result add_to_link(api::LinkState state, int32_t kind, void* data, size_t bytes, const char*,
                   unsigned, api::JitOption*, void**) {
  return call("cuLinkAddData", [&](World&) -> Result {
    LinkText& link = link_of(state);
    const char* text = static_cast<const char*>(data);
    bool terminated = bytes > 0 && text[bytes - 1] == 0;
    if (kind != api::jit_input_ptx || !terminated || !std::strstr(text, ".version")) {
      if (link.log) std::snprintf(link.log, link.log_bytes, "there is no .version in the text");
      return api::error_invalid_ptx;
    }
    link.text += text;
    return api::success;
  });
}
Result finish_link(api::LinkState state, void** code, size_t* bytes) {
  return call("cuLinkComplete", [&](World&) {
    *code = link_of(state).text.data();
    *bytes = link_of(state).text.size();
    return api::success;
  });
}
Result end_link(api::LinkState state) {
  delete &link_of(state);
  return api::success;
}

}  // namespace

Result run_foreign(World& w, const Foreign& foreign) {
  w.memory.open(true);
  Result result = foreign.work.run(foreign.work.self, &may_touch);
  w.memory.open(false);
  return result;
}

Result enqueue_foreign(World& w, api::Stream stream, const FakeCudaWork& work) {
  if (!state_of(w, stream)) return invalid_handle;
  Node node{.kind = Node::Kind::foreign};
  node.foreign = std::make_shared<const Foreign>(work);
  return enqueue_node(w, stream, std::move(node));
}

void fill_kernels(api::Driver& d) {
  d.cuModuleLoadDataEx = load;
  d.cuModuleUnload = unload;
  d.cuModuleGetFunction = find;
  d.cuFuncGetAttribute = attribute;
  d.cuFuncSetAttribute = set_attribute;
  d.cuLaunchKernel = launch;
  d.cuLaunchKernelEx = launch_ahead;
  d.cuLinkCreate = begin_link;
  d.cuLinkAddData = add_to_link;
  d.cuLinkComplete = finish_link;
  d.cuLinkDestroy = end_link;
}

}  // namespace fake_cuda
