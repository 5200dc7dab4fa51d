// A plugin that writes down what becomes of it, and misbehaves when it is told to.
//
// LIFE_LOG names a file that gets a line for each thing that happens. LIFE_DO holds words:
//   crash_in_constructor, crash_in_entry, exit_in_entry, abort_in_entry   while it is loaded
//   lend     outputs lie in its own memory, with a deleter of its own
//   nest     compiles with the backend of the plugin below
//   slow     a call takes 300 ms
//   own_thread   a call is made on a thread of the plugin
//   fail_in_entry   its entry gives a status
//   leak     keeps a tensor, a status and an artifact of the host
//   kill_in_entry      is killed from outside, as by a lack of memory
//   exit_in_call, exit_in_body   ends the process in a call, or in parallel work of one
//   hang_in_shutdown   never comes back
//   flush_in_constructor, round_in_compile, round_in_call   change how numbers are computed
//   segv_in_compile, segv_in_call   crash
// Built as several plugins: LIFE_NAME is the name of plugin and backend, LIFE_BELOW the one whose
// extension it requires.
#include <tenon/plugin.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#ifdef LIFE_BELOW
#define LIFE_REQUIRES "requires = ['test." LIFE_BELOW "/1']\n"
#else
#define LIFE_REQUIRES ""
#endif
#ifndef LIFE_VERSION
#define LIFE_VERSION "0.1.0"
#endif

TN_MANIFEST(
    "manifest = 1\n"
    "[plugin]\n"
    "name = '" LIFE_NAME
    "'\n"
    "version = '" LIFE_VERSION
    "'\n"
    "abi = '1.0'\n" LIFE_REQUIRES
    "[[backend]]\n"
    "name = '" LIFE_NAME
    "'\n"
    "stage = 'aot'\n"
    "dynamic_shapes = true\n"
    "[[extension]]\n"
    "id = 'test." LIFE_NAME
    "'\n"
    "version = 1\n");

namespace {

const tn_host* host = nullptr;

void write_down(const char* what) {
  const char* path = std::getenv("LIFE_LOG");
  std::FILE* file = path ? std::fopen(path, "a") : nullptr;
  if (!file) return;
  std::fprintf(file, "%s %s\n", LIFE_NAME, what);
  std::fclose(file);
}

bool told_to(const char* what) {
  const char* words = std::getenv("LIFE_DO");
  return words && std::strstr(words, what);
}

const struct Constructed {
  Constructed() {
    if (told_to("crash_in_constructor")) std::raise(SIGSEGV);
#if defined(__x86_64__)
    if (told_to("flush_in_constructor")) __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#endif
  }
  ~Constructed() { write_down("static objects end"); }
} constructed;

struct Program {
  tn_artifact abi;
  tn_artifact* inner;
};

void give_memory_back(void* memory) {
  write_down("memory is given back");
  std::free(memory);
}

/// The tensor again, in memory of this plugin.
tn_status* move_to_own_memory(tn_tensor** t) {
  size_t bytes = sizeof(float);
  for (int32_t d = 0; d < (*t)->ndim; ++d) bytes *= static_cast<size_t>((*t)->sizes[d]);
  void* memory = std::malloc(bytes);
  std::memcpy(memory, (*t)->data, bytes);
  tn_tensor* own = nullptr;
  tn_status* status =
      host->tensor->from_memory(memory, (*t)->sizes, nullptr, (*t)->ndim, (*t)->dtype, TN_DEV_CPU,
                                0, give_memory_back, memory, &own);
  host->tensor->release(*t);
  *t = own;
  return status;
}

// Two threads in exit() at once are undefined: the others are still at work when one ends it.
[[noreturn]] void end_process() {
  static std::atomic_flag is_ending;
  if (!is_ending.test_and_set()) std::exit(3);
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

tn_status* call(tn_artifact* self, tn_call* c) {
  auto* program = static_cast<Program*>(self->self);
  if (told_to("slow")) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  if (told_to("round_in_call")) std::fesetround(FE_UPWARD);
  if (told_to("segv_in_call")) std::raise(SIGSEGV);
  if (told_to("exit_in_call")) std::exit(3);
  if (told_to("exit_in_body"))
    return host->svc->parallel_chunks(
        4, [](void*, int64_t, int32_t) -> tn_status* { end_process(); }, nullptr);
  tn_status* status = nullptr;
  auto call_inner = [&] { status = program->inner->api->call(program->inner, c); };
  if (told_to("own_thread"))
    std::thread(call_inner).join();
  else
    call_inner();
  for (uint32_t i = 0; !status && told_to("lend") && i < c->n_outputs; ++i)
    status = move_to_own_memory(&c->outputs[i]);
  if (told_to("slow")) write_down("call ends");
  return status;
}

void destroy(tn_artifact* self) {
  write_down("artifact is destroyed");
  auto* program = static_cast<Program*>(self->self);
  program->inner->api->destroy(program->inner);
  delete program;
}

const tn_artifact_api artifact_api = {.struct_size = sizeof(tn_artifact_api),
                                      .flags = 0,
                                      .call = call,
                                      .destroy = destroy,
                                      .serialize = nullptr,
                                      .describe = nullptr,
                                      .set_constants = nullptr};

tn_status* leak(const tn_compile_request* rq) {
  int64_t size = 3;
  tn_tensor* kept = nullptr;
  if (tn_status* failed = host->tensor->empty(&size, nullptr, 1, TN_F32, TN_DEV_CPU, 0, &kept))
    return failed;
  host->tensor->retain(kept);
  host->status_new(TN_UNKNOWN, "kept", 4);
  tn_artifact* artifact = nullptr;
  return host->run->interpret(rq->ctx, rq->graph, &artifact);
}

tn_status* compile(void*, const tn_compile_request* rq, tn_artifact** out) {
  if (told_to("round_in_compile")) std::fesetround(FE_UPWARD);
  if (told_to("segv_in_compile")) std::raise(SIGSEGV);
  if (told_to("leak"))
    if (tn_status* failed = leak(rq)) return failed;
  tn_artifact* inner = nullptr;
  tn_status* status = nullptr;
#ifdef LIFE_BELOW
  if (told_to("nest"))
    status = host->run->compile_with(rq->ctx, rq->graph, TN_STR(LIFE_BELOW), {"", 0}, &inner);
  else
#endif
    status = host->run->interpret(rq->ctx, rq->graph, &inner);
  if (status) return status;
  auto* program = new Program{{&artifact_api, nullptr}, inner};
  program->abi.self = program;
  *out = &program->abi;
  return nullptr;
}

tn_status* shut_down() {
  write_down("shuts down");
  while (told_to("hang_in_shutdown")) std::this_thread::sleep_for(std::chrono::seconds(1));
  return nullptr;
}

const int some_table = 1;
const tn_backend backend = {.struct_size = sizeof backend,
                            ._r0 = 0,
                            .name = TN_STR(LIFE_NAME),
                            .self = nullptr,
                            .compile = compile,
                            .supports = nullptr,
                            .load = nullptr,
                            .fingerprint = nullptr,
                            .reset = nullptr};
const tn_backend* const backends[] = {&backend};
const tn_extension extension = {sizeof extension, 1, TN_STR("test." LIFE_NAME), &some_table};
const tn_extension* const extensions[] = {&extension};

const tn_plugin plugin = {.struct_size = sizeof plugin,
                          .abi_major = TN_ABI_MAJOR,
                          .abi_minor = TN_ABI_MINOR,
                          ._r0 = 0,
                          .backends = backends,
                          .devices = nullptr,
                          .extensions = extensions,
                          .kernels = nullptr,
                          .n_backends = 1,
                          .n_devices = 0,
                          .n_extensions = 1,
                          .n_kernels = 0,
                          .shutdown = shut_down};

}  // namespace

tn_status* tenon_plugin_entry_v1(const tn_host* given, const tn_plugin** out) {
  if (told_to("crash_in_entry")) std::raise(SIGSEGV);
  if (told_to("abort_in_entry")) std::abort();
  if (told_to("exit_in_entry")) std::exit(3);
  if (told_to("kill_in_entry")) std::raise(SIGKILL);
  if (told_to("fail_in_entry")) return given->status_new(TN_UNAVAILABLE, "told to fail", 12);
  host = given;
#ifdef LIFE_BELOW
  if (!host->extension("test." LIFE_BELOW, 1))
    return host->status_new(TN_NOT_FOUND, "no extension", 12);
#endif
  write_down("starts");
  *out = &plugin;
  return nullptr;
}
