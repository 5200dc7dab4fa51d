// Plain functions of the ABI that let exceptions out, as a plugin in C++ without the wrapper may.
// Each backend throws in one function; `fault_throws_elsewhere` in those that are not part of a
// call.
#include "fault.h"

#include <stdexcept>
#include <string>

namespace {

[[noreturn]] tn_status* fail_in(const char* function) {
  throw std::runtime_error(std::string(function) + " failed");
}

tn_status* call(tn_artifact*, tn_call*) { throw 42; }
tn_status* describe(tn_artifact*, int32_t, const tn_sink*) { return fail_in("describe"); }
tn_status* serialize(tn_artifact*, const tn_sink*) { return fail_in("serialize"); }
tn_status* set_constants(tn_artifact*, const uint32_t*, tn_tensor* const*, uint32_t) {
  return fail_in("set_constants");
}

const tn_artifact_api api = {.struct_size = sizeof(tn_artifact_api),
                             .flags = 0,
                             .call = call,
                             .destroy = [](tn_artifact*) { fail_in("destroy"); },
                             .serialize = serialize,
                             .describe = describe,
                             .set_constants = set_constants};
tn_artifact artifact = {&api, nullptr};

tn_status* give_artifact(void*, const tn_compile_request*, tn_artifact** out) {
  *out = &artifact;
  return nullptr;
}

tn_status* compile(void*, const tn_compile_request*, tn_artifact**) { return fail_in("compile"); }

// A body of the host's threads that throws, and a sink that throws while the host writes to it.
tn_status* compile_in_parallel(void*, const tn_compile_request*, tn_artifact**) {
  auto body = [](void*, int64_t lo, int64_t) -> tn_status* {
    if (lo >= 4) fail_in("body");
    return nullptr;
  };
  return host->svc->parallel_for(0, 8, 1, body, nullptr);
}
tn_status* compile_to_sink(void*, const tn_compile_request* request, tn_artifact**) {
  tn_sink sink = {nullptr, [](void*, const char*, size_t) { fail_in("sink"); }};
  return host->graph->dump(request->graph, TN_DUMP_TEXT, &sink);
}
// Memory whose deleter throws.
tn_status* compile_with_memory(void*, const tn_compile_request* request, tn_artifact** out) {
  static float memory[4];
  const int64_t sizes[] = {4};
  tn_tensor* tensor = nullptr;
  tn_status* status = host->tensor->from_memory(
      memory, sizes, nullptr, 1, TN_F32, TN_DEV_CPU, -1, [](void*) { fail_in("deleter"); }, nullptr,
      &tensor);
  if (status) return status;
  host->tensor->release(tensor);
  return fault_interpret(nullptr, request, out);
}

tn_status* supports(void*, const tn_compile_request*, uint8_t*) { return fail_in("supports"); }
tn_status* load(void*, const tn_compile_request*, tn_str, tn_artifact**) { return fail_in("load"); }
tn_status* fingerprint(void*, const tn_sink*) { return fail_in("fingerprint"); }
tn_status* reset(void*) { return fail_in("reset"); }

constexpr tn_backend backend(tn_str name, tn_status* (*compile)(void*, const tn_compile_request*,
                                                                tn_artifact**)) {
  return {sizeof(tn_backend), 0, name, nullptr, compile, nullptr, nullptr, nullptr, nullptr};
}
const tn_backend list[] = {
    backend(TN_STR("fault_throws_in_compile"), compile),
    backend(TN_STR("fault_throws_in_call"), give_artifact),
    backend(TN_STR("fault_throws_in_body"), compile_in_parallel),
    backend(TN_STR("fault_throws_in_sink"), compile_to_sink),
    backend(TN_STR("fault_throws_in_deleter"), compile_with_memory),
    {sizeof(tn_backend), 0, TN_STR("fault_throws_elsewhere"), nullptr, fault_interpret, supports,
     load, fingerprint, reset},
};
const tn_backend* const backends[] = {&list[0], &list[1], &list[2], &list[3], &list[4], &list[5]};

const tn_str ops[] = {TN_STR("aten.asinh.default")};
tn_status* run(void*, uint32_t, const tn_arg*, uint32_t, tn_tensor* const*, tn_stream*, tn_tensor**,
               uint32_t) {
  return fail_in("kernel");
}
const tn_kernels kernel_row = {sizeof(tn_kernels), 1, TN_DEV_CPU, 0, nullptr, ops, run};
const tn_kernels* const kernels[] = {&kernel_row};

const tn_plugin plugin = {.struct_size = sizeof(tn_plugin),
                          .abi_major = TN_ABI_MAJOR,
                          .abi_minor = TN_ABI_MINOR,
                          .backends = backends,
                          .kernels = kernels,
                          .n_backends = 6,
                          .n_kernels = 1,
                          .shutdown = [] { return fail_in("shutdown"); }};

}  // namespace

TN_MANIFEST(FAULT_PLUGIN("fault_throws", "1.0", "") FAULT_BACKEND("fault_throws_in_compile")
                FAULT_BACKEND("fault_throws_in_call") FAULT_BACKEND("fault_throws_in_body")
                    FAULT_BACKEND("fault_throws_in_sink") FAULT_BACKEND("fault_throws_in_deleter")
                        FAULT_BACKEND("fault_throws_elsewhere")
            "[[kernels]]\ndevice = 'cpu'\nops = ['aten.asinh.default']\npriority = 100\n");
FAULT_ENTRY(&plugin)
