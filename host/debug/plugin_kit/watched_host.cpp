// The watched host table: the host's own functions behind counters and faults.
#include "debug/plugin_kit/watched_host.h"

#include "backend/abi/bridge.h"
#include "backend/abi/graph_view.h"
#include "backend/abi/status.h"
#include "debug/plugin_kit/guarded_memory.h"

#include <deque>
#include <map>
#include <mutex>
#include <vector>

namespace tenon::kit {

namespace {

/// Leaked: plugins call until the process ends.
struct Watch {
  HostFaults faults;
  std::atomic<int64_t> requests{0}, progress_calls{0}, guards{0}, cache_gets{0};
  std::atomic<int64_t> live_artifacts{0}, live_blobs{0};

  std::mutex lists;                                        // guards all below
  std::map<std::string, std::string, std::less<>> stored;  // cache_put
  std::deque<std::vector<tn_arg>> strange_args;
  std::string misuse;
};

Watch& watch() {
  static auto* instance = new Watch;
  return *instance;
}

tn_status* out_of_memory() {
  return make_status(TN_OUT_OF_MEMORY, "out of memory, as the conformance kit wants it");
}

// Counts a request of memory; true when it is the one that must fail.
bool request_fails() {
  ++watch().requests;
  std::atomic<int64_t>& n = watch().faults.fail_request;
  return n > 0 && n.fetch_sub(1) == 1;
}

// ---- memory and tensors

void* alloc(size_t bytes, size_t align) {
  if (align == 0 || (align & (align - 1)))
    note_misuse(
        message("svc->alloc was asked for an alignment of {}; it is a power of two", align));
  return request_fails() ? nullptr : guarded_allocate(bytes);
}

void release_block(void* block, size_t bytes, size_t) {
  if (!block) return;
  if (std::string problem = guarded_free(block, bytes); !problem.empty())
    note_misuse("svc->free: " + problem);
}

tn_status* empty(const int64_t* sizes, const int64_t* strides, int32_t ndim, int32_t dtype,
                 int32_t device_type, int32_t device_index, tn_tensor** out) {
  if (request_fails()) return out_of_memory();
  tn_status* status = tensor_api.empty(sizes, strides, ndim, dtype, device_type, device_index, out);
  if (status || !watch().faults.guard_outputs || device_type != TN_DEV_CPU) return status;
  return guarded([&] {
    Tensor plain = take_tensor(*out);
    *out = give(between_guards(plain, note_misuse));
  });
}

tn_status* run_op(uint32_t op, const tn_arg* args, uint32_t n_args, tn_tensor* const* values,
                  tn_stream* stream, tn_tensor** out, uint32_t n_out) {
  if (request_fails()) return out_of_memory();
  return run_api.run_op(op, args, n_args, values, stream, out, n_out);
}

// ---- artifacts of the host

struct WatchedArtifact {
  tn_artifact abi;
  tn_artifact_api api;
  tn_artifact* inner;
};

tn_artifact* inner_of(tn_artifact* a) { return static_cast<WatchedArtifact*>(a->self)->inner; }

tn_artifact* watched(tn_artifact* inner) {
  auto* made = new WatchedArtifact{{nullptr, nullptr}, *inner->api, inner};
  made->api.call = [](tn_artifact* a, tn_call* call) {
    return inner_of(a)->api->call(inner_of(a), call);
  };
  made->api.destroy = [](tn_artifact* a) {
    inner_of(a)->api->destroy(inner_of(a));
    --watch().live_artifacts;
    delete static_cast<WatchedArtifact*>(a->self);
  };
  made->api.describe = [](tn_artifact* a, int32_t what, const tn_sink* sink) {
    return inner_of(a)->api->describe(inner_of(a), what, sink);
  };
  made->abi = {&made->api, made};
  ++watch().live_artifacts;
  return &made->abi;
}

template <class F>
tn_status* watched_result(tn_artifact** out, F make) {
  tn_artifact* inner = nullptr;
  if (tn_status* status = make(&inner)) return status;
  *out = watched(inner);
  return nullptr;
}

tn_status* interpret(tn_ctx* ctx, const tn_graph* graph, tn_artifact** out) {
  return watched_result(out, [&](tn_artifact** a) { return run_api.interpret(ctx, graph, a); });
}

tn_status* compile_with(tn_ctx* ctx, const tn_graph* graph, tn_str backend, tn_str options,
                        tn_artifact** out) {
  return watched_result(
      out, [&](tn_artifact** a) { return run_api.compile_with(ctx, graph, backend, options, a); });
}

// ---- graphs with things that no plugin knows

constexpr uint32_t unknown_kind = 0x7F;

tn_status* node(const tn_graph* graph, uint32_t id, tn_node_info* inout) {
  tn_status* status = graph_api.node(graph, id, inout);
  if (status || !watch().faults.strange_args || !TN_HAS(inout, args) || inout->n_args == 0)
    return status;
  std::lock_guard lock(watch().lists);
  auto& args = watch().strange_args.emplace_back(inout->args, inout->args + inout->n_args);
  args[0].kind = unknown_kind;
  inout->args = args.data();
  return nullptr;
}

tn_status* value(const tn_graph* graph, uint32_t id, tn_value_info* inout) {
  tn_status* status = graph_api.value(graph, id, inout);
  if (!status && watch().faults.strange_values) inout->kind = unknown_kind;
  return status;
}

tn_status* guard(tn_ctx* ctx, const tn_graph* graph, uint32_t expr, int64_t* value) {
  ++watch().guards;
  return sym_api.guard(ctx, graph, expr, value);
}

// ---- options

template <class Get, class... Out>
tn_status* option(Get get, const tn_options* options, tn_str key, Out... out) {
  if (watch().faults.hide_options)
    return make_status(TN_NOT_FOUND, "no option is declared, as the conformance kit wants it");
  return get(options, key, out...);
}

tn_opt_api watched_options() {
  tn_opt_api api = opt_api;
  api.get_bool = [](const tn_options* o, tn_str k, int32_t* out) {
    return option(opt_api.get_bool, o, k, out);
  };
  api.get_i64 = [](const tn_options* o, tn_str k, int64_t* out) {
    return option(opt_api.get_i64, o, k, out);
  };
  api.get_f64 = [](const tn_options* o, tn_str k, double* out) {
    return option(opt_api.get_f64, o, k, out);
  };
  api.get_str = [](const tn_options* o, tn_str k, tn_str* out) {
    return option(opt_api.get_str, o, k, out);
  };
  api.get_list = [](const tn_options* o, tn_str k, const tn_str** items, uint32_t* n) {
    return option(opt_api.get_list, o, k, items, n);
  };
  return api;
}

// ---- stored bytes, progress

struct Blob {
  std::string bytes;
};

// Each kind of damage in turn: cut short, one bit flipped, other bytes, nothing.
std::string damaged(std::string bytes, int64_t turn) {
  if (turn % 4 == 0) bytes.resize(bytes.size() / 2);
  if (turn % 4 == 1 && !bytes.empty()) bytes[bytes.size() / 2] ^= 0x10;
  if (turn % 4 == 2) bytes.assign(bytes.size() + 8, '\xA5');
  if (turn % 4 == 3) bytes.clear();
  return bytes;
}

tn_status* cache_get(tn_ctx*, tn_str key, tn_blob** out) {
  int64_t turn = watch().cache_gets++;
  std::lock_guard lock(watch().lists);
  auto found = watch().stored.find(view_of(key));
  bool damage = watch().faults.damage_cache;
  if (found == watch().stored.end() && !damage)
    return make_status(TN_NOT_FOUND, "nothing is stored under this key");
  std::string bytes = found == watch().stored.end() ? "no such bytes were stored" : found->second;
  *out = reinterpret_cast<tn_blob*>(new Blob{damage ? damaged(bytes, turn) : bytes});
  ++watch().live_blobs;
  return nullptr;
}

tn_status* cache_put(tn_ctx*, tn_str key, const void* data, size_t n) {
  std::lock_guard lock(watch().lists);
  watch().stored[std::string(view_of(key))].assign(static_cast<const char*>(data), n);
  return nullptr;
}

int32_t progress(tn_ctx*, double, tn_str) {
  ++watch().progress_calls;
  std::atomic<int64_t>& left = watch().faults.cancel_after;
  return left >= 0 && left.fetch_sub(1) <= 0;
}

tn_svc_api watched_services() {
  tn_svc_api api = svc_api;
  api.alloc = alloc;
  api.free = release_block;
  api.cache_get = cache_get;
  api.cache_put = cache_put;
  api.blob_bytes = [](const tn_blob* blob) {
    return str_of(reinterpret_cast<const Blob*>(blob)->bytes);
  };
  api.blob_release = [](tn_blob* blob) {
    if (blob) --watch().live_blobs;
    delete reinterpret_cast<Blob*>(blob);
  };
  api.progress = progress;
  return api;
}

/// The tables that differ from the host's own.
struct Tables {
  tn_tensor_api tensor = tensor_api;
  tn_graph_api graph = graph_api;
  tn_sym_api sym = sym_api;
  tn_run_api run = run_api;
  tn_opt_api opt = watched_options();
  tn_svc_api svc = watched_services();
  tn_host host;

  explicit Tables(const tn_host& own) : host(own) {
    tensor.empty = empty;
    graph.node = node;
    graph.value = value;
    sym.guard = guard;
    run.run_op = run_op;
    run.interpret = interpret;
    run.compile_with = compile_with;
    host.tensor = &tensor;
    host.graph = &graph;
    host.sym = &sym;
    host.run = &run;
    host.opt = &opt;
    host.svc = &svc;
  }
};

}  // namespace

void note_misuse(const std::string& what) {
  std::lock_guard lock(watch().lists);
  if (watch().misuse.empty()) watch().misuse = what;
}

HostFaults& host_faults() { return watch().faults; }

void clear_host_faults() {
  HostFaults& f = watch().faults;
  f.fail_request = -1;
  f.cancel_after = -1;
  for (std::atomic<bool>* on :
       {&f.damage_cache, &f.hide_options, &f.strange_args, &f.strange_values, &f.guard_outputs})
    *on = false;
}

HostCounts host_counts() {
  Watch& w = watch();
  HostCounts counts;
  counts.memory_requests = w.requests;
  counts.progress_calls = w.progress_calls;
  counts.guards = w.guards;
  counts.cache_gets = w.cache_gets;
  GuardedMemory memory = guarded_memory();
  counts.live_blocks = memory.blocks;
  counts.live_block_bytes = memory.bytes;
  counts.live_artifacts = w.live_artifacts;
  counts.live_blobs = w.live_blobs;
  counts.live_statuses = live_statuses();
  return counts;
}

std::string take_first_misuse() {
  std::lock_guard lock(watch().lists);
  return std::exchange(watch().misuse, {});
}

const tn_host* watched_host() {
  static const auto* tables = new Tables(own_host_table());
  return &tables->host;
}

}  // namespace tenon::kit
