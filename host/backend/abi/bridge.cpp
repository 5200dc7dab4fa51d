// The host table and the conversion of arguments and tensors at the border.
#include "backend/abi/bridge.h"

#include "backend/abi/extensions.h"
#include "backend/abi/graph_view.h"
#include "backend/abi/status.h"
#include "backend/compile/contract.h"
#include "backend/life/lent_memory.h"
#include "backend/life/shutdown.h"
#include "core/device/device_memory.h"
#include "core/kernels/pointwise_loop.h"
#include "core/tensor/tensor_impl.h"
#include "core/version.h"
#include "formats/dlpack.h"
#include "ops/op_table.h"
#include "ops/shapes.h"
#include "report/log.h"

#include <atomic>
#include <cstring>
#include <memory>

namespace tenon {

Tensor share_tensor(tn_tensor* t) {
  if (!t) return Tensor();
  check_alive(t);
  return share(static_cast<detail::TensorHead*>(t));
}

// ---- tensors

namespace {

// Retaining and releasing have no status: a handle that is over is reported and left alone.
bool is_retired(const tn_tensor* t) {
  tn_status* status = guarded([&] { check_alive(t); });
  if (!status) return false;
  report::log(report::LogLevel::error, "backend", "{}", status->text);
  free_status(status);
  return true;
}

IntList list_of(const int64_t* values, int32_t n) { return {values, static_cast<size_t>(n)}; }

void check_shape(const int64_t* sizes, int32_t ndim, int32_t dtype) {
  require(ndim >= 0 && ndim <= 64, "a tensor has 0 to 64 dimensions, found {}", ndim);
  require(ndim == 0 || sizes, "sizes must not be null");
  require(is_dtype(dtype), "dtype number {} is unknown", dtype);
}

// Without strides, row-major.
[[gnu::noinline]] Tensor new_tensor(const int64_t* sizes, const int64_t* strides, int32_t ndim,
                                    Dtype type, Device device) {
  TensorMeta meta = contiguous_meta(SymIntList(list_of(sizes, ndim)), type, device);
  if (strides) meta.strides = dims_of(SymIntList(list_of(strides, ndim)));
  return make_tensor(meta);
}

/// The deleter of memory that a plugin lent: what it throws is told and goes no further.
struct Deleter {
  void (*function)(void*);
  void* argument;

  static void run(void* self) {
    std::unique_ptr<Deleter> own(static_cast<Deleter*>(self));
    tn_status* status = guarded([&] {
      if (own->function) own->function(own->argument);
    });
    if (!status) return;
    report::log(report::LogLevel::error, "backend", "a deleter of a plugin threw: {}",
                status->text);
    free_status(status);
  }
};

bool broadcasts_to(SymIntList from, SymIntList to) {
  if (from.size() > to.size()) return false;
  SymIntList last = to.slice(to.size() - from.size());
  for (size_t d = 0; d < from.size(); ++d)
    if (from[d].word() != 1 && from[d].word() != last[d].word()) return false;
  return true;
}

tn_status* copy(tn_tensor* dst, const tn_tensor* src, tn_stream*) {
  return guarded([&] {
    Tensor to = share_tensor(dst), from = share_tensor(const_cast<tn_tensor*>(src));
    require(!to.is_fake() && !from.is_fake(), "copy: both tensors need data");
    require(broadcasts_to(from.sizes(), to.sizes()),
            "copy: a tensor of shape {} does not fit into one of shape {}",
            symbolic_text(from.sizes()), symbolic_text(to.sizes()));
    copy_across(to, from);
    bump_version(to);
  });
}

}  // namespace

const tn_tensor_api tensor_api = {
    .struct_size = sizeof(tn_tensor_api),
    .retain =
        [](tn_tensor* t) {
          if (is_retired(t)) return;
          static_cast<detail::TensorHead*>(t)->references.fetch_add(1, std::memory_order_relaxed);
          note_held(Held::tensor, 1);
        },
    .release =
        [](tn_tensor* t) {
          if (!t || is_retired(t)) return;
          note_held(Held::tensor, -1);
          take_tensor(t);
        },
    .empty =
        [](const int64_t* sizes, const int64_t* strides, int32_t ndim, int32_t dtype,
           int32_t device_type, int32_t device_index, tn_tensor** out) {
          return guarded([&] {
            check_shape(sizes, ndim, dtype);
            auto type = static_cast<Dtype>(dtype);
            Device device(static_cast<DeviceType>(device_type), device_index);
            bool has_strides = strides || ndim == 0;
            // The outputs of each call of code on the CPU are made the short way.
            *out = give(has_strides && device.type == DeviceType::cpu
                            ? make_tensor(SymIntList(list_of(sizes, ndim)),
                                          SymIntList(list_of(strides, ndim)), type)
                            : new_tensor(sizes, strides, ndim, type, device));
          });
        },
    .as_strided =
        [](tn_tensor* t, const int64_t* sizes, const int64_t* strides, int32_t ndim, int64_t offset,
           tn_tensor** out) {
          return guarded([&] {
            check_shape(sizes, ndim, t->dtype);
            *out = give(make_view(share_tensor(t), SymIntList(list_of(sizes, ndim)),
                                  SymIntList(list_of(strides, ndim)), offset));
          });
        },
    .from_memory =
        [](void* data, const int64_t* sizes, const int64_t* strides, int32_t ndim, int32_t dtype,
           int32_t device_type, int32_t device_index, void (*deleter)(void*), void* deleter_arg,
           tn_tensor** out) {
          auto* given_deleter = new (std::nothrow) Deleter{deleter, deleter_arg};
          if (!given_deleter) return make_status(TN_OUT_OF_MEMORY, "out of memory");
          tn_status* status = guarded([&] {
            check_shape(sizes, ndim, dtype);
            require(device_type != TN_DEV_META, "from_memory takes memory, and meta has none");
            Device device(static_cast<DeviceType>(device_type), std::max(device_index, 0));
            OptIntList given = strides ? OptIntList(list_of(strides, ndim)) : OptIntList();
            LentMemory lent(reinterpret_cast<const void*>(deleter));
            Tensor t = from_memory_on(device, data, list_of(sizes, ndim), static_cast<Dtype>(dtype),
                                      given, &Deleter::run, given_deleter);
            lent.keep_with(t);
            *out = give(std::move(t));
          });
          if (status) Deleter::run(given_deleter);
          return status;
        },
    .copy = copy,
    .to_dlpack = [](tn_tensor* t,
                    void** out) { return guarded([&] { *out = to_dlpack(share_tensor(t)); }); },
    .from_dlpack =
        [](void* capsule, tn_tensor** out) {
          return guarded([&] {
            LentMemory lent(dlpack_deleter(capsule));
            Tensor t = from_dlpack(capsule);
            lent.keep_with(t);
            *out = give(std::move(t));
          });
        },
};

// ---- the table

namespace {

tn_status* status_wrap(tn_status* cause, const char* text, size_t n) {
  if (!cause) return make_status(TN_UNKNOWN, {text, n});
  if (cause->is_static) return cause;
  free_status(
      guarded([&] { cause->text = message("{}: {}", std::string_view(text, n), cause->text); }));
  return cause;
}

tn_status* status_at(tn_status* status, const tn_graph* g, uint32_t node) {
  if (!status || status->is_static || node >= g->graph->nodes().size()) return status;
  free_status(guarded([&] {
    const Node& n = g->graph->node(node);
    status->text += message(" (node {}: {}", g->node_names[node], entry_of(n.op).name);
    if (!n.where.file.empty()) status->text += message(", {}:{}", n.where.file, n.where.line);
    status->text += ")";
  }));
  return status;
}

const tn_host table = {
    .struct_size = sizeof(tn_host),
    .abi_major = TN_ABI_MAJOR,
    .abi_minor = TN_ABI_MINOR,
    .host_version = {version.data(), version.size()},
    .status_new =
        [](int32_t code, const char* text, size_t n) {
          return make_status(code, {text, n});
        },
    .status_wrap = status_wrap,
    .status_at = status_at,
    .status_code = [](const tn_status* s) { return s ? s->code : int32_t{TN_OK}; },
    .status_message =
        [](const tn_status* s) {
          return s ? str_of(s->text) : tn_str{"", 0};
        },
    .status_free = free_status,
    .extension =
        [](const char* id, uint32_t min_version) {
          const void* table = find_extension(id, min_version);
          if (table) note_dependence(__builtin_return_address(0), table);
          return table;
        },
    .tensor = &tensor_api,
    .graph = &graph_api,
    .sym = &sym_api,
    .ops = &ops_api,
    .run = &run_api,
    .opt = &opt_api,
    .svc = &svc_api,
    .extension_at =
        [](const char* id, uint32_t min_version, uint32_t index) {
          const void* table = find_extension(id, min_version, index);
          if (table) note_dependence(__builtin_return_address(0), table);
          return table;
        },
};

std::atomic<const tn_host*> other_table{nullptr};

}  // namespace

const tn_host* host_table() {
  const tn_host* other = other_table;
  return other ? other : &table;
}

void set_host_table(const tn_host* given) { other_table = given; }

const tn_host& own_host_table() { return table; }

}  // namespace tenon
