// The extension tenon.cuda/1: each slot is one call.
#include "code_api.h"

#include "error_flag.h"
#include "function_api.h"
#include "libraries.h"
#include "modules.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <cstring>

namespace tenon::cuda {

namespace {

using plugin::barrier;
using plugin::sv;

// Fills a struct whose owner may know fewer or more fields; its size stays what it was.
template <class T, class F>
void fill_inout(T* out, F&& fill) {
  T filled{};
  fill(filled);
  filled.struct_size = out->struct_size;
  std::memcpy(out, &filled, std::min<size_t>(out->struct_size, sizeof filled));
}

tn_status* facts(int32_t dev, tn_cuda_facts* out) {
  return barrier([&] { fill_inout(out, [&](tn_cuda_facts& f) { gpu_at(dev).fill(f); }); });
}

tn_status* assemble_ptx(int32_t dev, tn_str ptx, const tn_sink* code) {
  return barrier([&] {
    std::string made = assemble(gpu_at(dev), sv(ptx));
    code->write(code->ctx, made.data(), made.size());
  });
}

tn_status* module_load(int32_t dev, tn_str image, tn_cuda_module** out) {
  return barrier([&] { *out = load_module(gpu_at(dev), sv(image)); });
}
void module_release(tn_cuda_module* module) {
  if (module) release_module(module);
}
tn_status* kernel(tn_cuda_module* module, tn_str name, tn_cuda_kernel** out) {
  return barrier([&] { *out = find_kernel(*module, sv(name)); });
}
tn_status* kernel_facts(tn_cuda_kernel* kernel, tn_cuda_kernel_facts* out) {
  return barrier([&] { fill_inout(out, [&](tn_cuda_kernel_facts& f) { fill(*kernel, f); }); });
}
tn_status* launch_kernel(tn_cuda_kernel* kernel, const tn_cuda_launch* how) {
  return barrier([&] { launch(*kernel, *how); });
}

tn_status* symbol(tn_str library, tn_str name, void** out) {
  return barrier([&] { *out = library_symbol(std::string(sv(library)), std::string(sv(name))); });
}
tn_status* file(tn_str name, tn_str* path) {
  return barrier([&] { *path = plugin::str(find_file(std::string(sv(name)))); });
}

tn_status* slot(void** out) {
  return barrier([&] { *out = pinned_slot(); });
}
tn_status* check_of(tn_str text, int64_t* check) {
  return barrier([&] { *check = add_check(sv(text)); });
}
tn_status* flag(int32_t dev, tn_cuda_error_flag** out) {
  return barrier([&] { *out = &gpu_at(dev).error_flag(); });
}
tn_status* native_stream(int32_t dev, tn_stream* stream, void** out) {
  return barrier([&] {
    Gpu& gpu = gpu_at(dev);
    gpu.bind();
    *out = gpu.handle_of(stream);
  });
}

tn_cuda_api filled_api() {
  tn_cuda_api t{};
  t.struct_size = sizeof t;
  t.facts = facts;
  t.assemble = assemble_ptx;
  t.module_load = module_load;
  t.module_release = module_release;
  t.kernel = kernel;
  t.kernel_facts = kernel_facts;
  t.launch = launch_kernel;
  t.library_symbol = symbol;
  t.find_file = file;
  t.slot = slot;
  t.add_check = check_of;
  t.error_flag = flag;
  t.native_stream = native_stream;
  add_function_api(t);
  return t;
}

}  // namespace

const tn_cuda_api& code_api() {
  static const tn_cuda_api table = filled_api();
  return table;
}

}  // namespace tenon::cuda
