// SPDX-License-Identifier: Apache-2.0
// tenon/plugin.hpp - a Tenon plugin in C++20, header only, over the C ABI of tenon/plugin.h.
//
//   #include <tenon/plugin.hpp>
//   struct Program { void call(tn_call& c); };                        // what a call runs
//   struct Mine : tenon::plugin::Backend {
//     std::unique_ptr<Program> compile(const tn_compile_request& rq); // throw `declined` to pass
//   };
//   TENON_PLUGIN_BACKENDS((Mine, "mine"))
//
// Inside, errors are exceptions: `check` throws what the host returns, and every function that the
// host calls is wrapped in `barrier`, which makes statuses of them: nothing thrown leaves the
// plugin.
//
// A backend class may also have (each found by its shape, absent is fine)
//   Mine(std::string_view entry_name)                          one class for several entries
//   void supports(const tn_compile_request&, std::span<uint8_t> verdict_per_node)
//   void judge(const tn_compile_request&, verdicts)    instead of supports: with reasons, groups
//   std::unique_ptr<Program> load(const tn_compile_request&, std::string_view bytes)
//   std::string fingerprint();   void reset();
// and an artifact class
//   static constexpr uint32_t flags = TN_AF_...;
//   std::string serialize();   std::string describe(int32_t what);
//   void set_constants(std::span<const uint32_t> values, std::span<tn_tensor* const> tensors);
// compile and load may return `artifact` too: what `interpret` and `compile_with` give.
#pragma once

#include <tenon/grad_mode.h>
#include <tenon/plugin.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon::plugin {

/// The host's table, one pointer a plugin; set before anything else runs.
__attribute__((visibility("hidden"))) inline const tn_host* host = nullptr;

inline std::string_view sv(tn_str s) { return {s.data, s.size}; }
inline tn_str str(std::string_view s) { return {s.data(), s.size()}; }

// ---- errors ----

/// A failure with its TN_ code; with a graph and node the host adds the user's source line.
struct error : std::runtime_error {
  error(int32_t code, const std::string& text, const tn_graph* graph = nullptr,
        uint32_t node = TN_NO_VALUE)
      : std::runtime_error(text), code(code), graph(graph), node(node) {}
  int32_t code;
  const tn_graph* graph;
  uint32_t node;
};

/// "Not for me": the host takes the fallback and counts it; no error for the user.
struct declined : error {
  explicit declined(const std::string& why = "declined") : error(TN_DECLINED, why) {}
};

/// Throws the error that `status` tells of, and frees it.
inline void check(tn_status* status) {
  if (!status) return;
  error e(host->status_code(status), std::string(sv(host->status_message(status))));
  host->status_free(status);
  throw e;
}

namespace detail {

inline tn_status* new_status(int32_t code, std::string_view text) noexcept {
  return host->status_new(code, text.data(), text.size());
}

inline tn_status* status_of(const error& e) noexcept {
  tn_status* status = new_status(e.code, e.what());
  if (!e.graph || !TN_HAS(host, status_at)) return status;
  return host->status_at(status, e.graph, e.node);
}

}  // namespace detail

/// Runs `f`; what it throws becomes a status.
template <class F>
tn_status* barrier(F&& f) noexcept {
  try {
    f();
    return nullptr;
  } catch (const error& e) {
    return detail::status_of(e);
  } catch (const std::bad_alloc&) {
    return detail::new_status(TN_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return detail::new_status(TN_INTERNAL, e.what());
  } catch (...) {
    return detail::new_status(TN_UNKNOWN, "an exception of unknown type");
  }
}

// ---- text ----

/// `pattern` with each {} replaced by the next argument, printed by operator<<.
template <class... Args>
std::string text(std::string_view pattern, const Args&... args) {
  std::ostringstream out;
  [[maybe_unused]] auto put = [&](const auto& value) {
    size_t at = std::min(pattern.find("{}"), pattern.size());
    out << pattern.substr(0, at) << value;
    pattern.remove_prefix(std::min(at + 2, pattern.size()));
  };
  (put(args), ...);
  out << pattern;
  return out.str();
}

/// Logs when the user's level for the component is low enough; nothing is formatted otherwise.
template <class... Args>
void log(int32_t level, const char* component, std::string_view pattern, const Args&... args) {
  if (level < host->svc->log_level(component)) return;
  std::string line = text(pattern, args...);
  host->svc->log(level, component, line.data(), line.size());
}

namespace detail {

/// Runs `f` where nobody waits for a status: what it throws is logged.
template <class F>
void quietly(const char* what, F&& f) noexcept {
  tn_status* status = barrier(f);
  if (!status) return;
  std::string_view why = sv(host->status_message(status));
  tn_status* lost = barrier([&] { log(TN_LOG_ERROR, what, "threw: {}", why); });
  for (tn_status* s : {status, lost})
    if (s) host->status_free(s);
}

}  // namespace detail

/// What `f(const tn_sink*)` writes, as a string.
template <class F>
std::string collect(F&& f) {
  std::string out;
  bool full = false;
  std::pair<std::string*, bool*> target{&out, &full};
  tn_sink sink{&target, [](void* ctx, const char* data, size_t n) {
                 auto [out, full] = *static_cast<std::pair<std::string*, bool*>*>(ctx);
                 try {
                   out->append(data, n);
                 } catch (...) {
                   *full = true;  // nothing may be thrown through the host
                 }
               }};
  check(f(&sink));
  if (full) throw std::bad_alloc();
  return out;
}

// ---- tensors ----

/// Bytes of an element; 0 for what is not a dtype.
constexpr int64_t item_size(int32_t dtype) {
  switch (dtype) {
    case TN_U8:
    case TN_I8:
    case TN_BOOL:
    case TN_F8_E5M2:
    case TN_F8_E4M3FN:
      return 1;
    case TN_I16:
    case TN_F16:
    case TN_BF16:
      return 2;
    case TN_I32:
    case TN_F32:
    case TN_C32:
      return 4;
    case TN_I64:
    case TN_F64:
    case TN_C64:
      return 8;
    case TN_C128:
      return 16;
    default:
      return 0;
  }
}
inline std::span<const int64_t> sizes(const tn_tensor* t) { return {t->sizes, size_t(t->ndim)}; }
inline std::span<const int64_t> strides(const tn_tensor* t) {
  return {t->strides, size_t(t->ndim)};
}

/// An owning handle. Threads: as a shared_ptr; the fields behind -> are read-only.
class tensor {
 public:
  tensor() = default;
  explicit tensor(tn_tensor* owned) : p_(owned) {}
  tensor(tensor&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  tensor& operator=(tensor&& o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~tensor() {
    if (p_) host->tensor->release(p_);
  }

  /// A further reference to `t`, which may be NULL.
  static tensor share(tn_tensor* t) {
    if (t) host->tensor->retain(t);
    return tensor(t);
  }
  /// Uninitialised, contiguous.
  static tensor empty(std::span<const int64_t> sizes, int32_t dtype,
                      int32_t device_type = TN_DEV_CPU, int32_t device_index = -1) {
    return made([&](tn_tensor** out) {
      return host->tensor->empty(sizes.data(), nullptr, int32_t(sizes.size()), dtype, device_type,
                                 device_index, out);
    });
  }
  static tensor strided(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                        int32_t dtype, int32_t device_type = TN_DEV_CPU, int32_t index = -1) {
    return made([&](tn_tensor** out) {
      return host->tensor->empty(sizes.data(), strides.data(), int32_t(sizes.size()), dtype,
                                 device_type, index, out);
    });
  }
  /// Contiguous, over memory of the plugin. `done()` runs when the last tensor over it is gone, on
  /// any thread; what it throws is logged.
  template <class F>
  static tensor over(void* data, std::span<const int64_t> sizes, int32_t dtype, F done) {
    auto* kept = new F(std::move(done));
    return made([&](tn_tensor** out) {
      return host->tensor->from_memory(
          data, sizes.data(), nullptr, int32_t(sizes.size()), dtype, TN_DEV_CPU, -1,
          [](void* f) {
            std::unique_ptr<F> own(static_cast<F*>(f));
            detail::quietly("deleter", *own);
          },
          kept, out);
    });
  }
  /// A view of the same storage.
  tensor as_strided(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                    int64_t storage_offset) const {
    return made([&](tn_tensor** out) {
      return host->tensor->as_strided(p_, sizes.data(), strides.data(), int32_t(sizes.size()),
                                      storage_offset, out);
    });
  }
  void copy_from(const tn_tensor* src, tn_stream* stream = nullptr) {
    check(host->tensor->copy(p_, src, stream));
  }

  tn_tensor* get() const { return p_; }
  tn_tensor* release() { return std::exchange(p_, nullptr); }
  const tn_tensor* operator->() const { return p_; }
  const tn_tensor& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  template <class T>
  T* data() const {
    return static_cast<T*>(p_->data);
  }

 private:
  template <class F>
  static tensor made(F&& make) {
    tn_tensor* out = nullptr;
    check(make(&out));
    return tensor(out);
  }
  tn_tensor* p_ = nullptr;
};

// ---- graphs ----

struct node : tn_node_info {
  std::span<const tn_arg> arguments() const { return {args, n_args}; }
};

struct value : tn_value_info {
  bool is_tensor() const { return kind == TN_VAL_TENSOR; }
  std::span<const tn_dim> dims() const { return {sizes, is_tensor() ? size_t(ndim) : 0}; }
  std::span<const tn_dim> stride_dims() const { return {strides, is_tensor() ? size_t(ndim) : 0}; }
  bool is_static() const {
    for (const tn_dim& d : dims())
      if (d.expr != TN_EXPR_STATIC) return false;
    return true;
  }
};

struct expression : tn_expr_info {
  std::span<const uint32_t> arguments() const { return {operands, n_operands}; }
};

/// A borrowed graph: it and all that it returns live until compile ends.
class graph {
 public:
  explicit graph(const tn_graph* g) : g_(g) {}
  explicit graph(const tn_compile_request& rq) : g_(rq.graph) {}
  const tn_graph* get() const { return g_; }

  uint32_t size() const { return host->graph->node_count(g_); }
  uint32_t values() const { return host->graph->value_count(g_); }
  node at(uint32_t i) const { return filled<node, tn_node_info>(host->graph->node, i); }
  value value_at(uint32_t i) const { return filled<value, tn_value_info>(host->graph->value, i); }
  expression expr(uint32_t i) const { return filled<expression, tn_expr_info>(host->sym->info, i); }

  std::span<const uint32_t> inputs() const { return ids(host->graph->inputs); }
  std::span<const uint32_t> outputs() const { return ids(host->graph->outputs); }
  std::span<const uint32_t> symbols() const { return ids(host->graph->symbols); }
  std::span<const uint32_t> users(uint32_t value) const {
    const uint32_t* p = nullptr;
    uint32_t n = host->graph->users(g_, value, &p);
    return {p, n};
  }
  tensor constant(uint32_t value) const {
    tn_tensor* borrowed = nullptr;
    check(host->graph->constant(g_, value, &borrowed));
    return tensor::share(borrowed);
  }
  std::string_view meta(uint32_t node, std::string_view key) const {
    return TN_HAS(host->graph, node_meta) ? sv(host->graph->node_meta(g_, node, str(key)))
                                          : std::string_view();
  }
  /// TN_GRAD_...: whether the program had switched gradients off or on at the node.
  int32_t grad_mode(uint32_t node) const {
    std::string_view mode = meta(node, "grad");
    return mode.empty() ? TN_GRAD_AS_CALLED : mode == "on" ? TN_GRAD_ON : TN_GRAD_OFF;
  }
  std::string dump(int32_t format = TN_DUMP_TEXT) const {
    return collect([&](const tn_sink* s) { return host->graph->dump(g_, format, s); });
  }
  /// Throws `error` that points at the user's line of `node`.
  [[noreturn]] void fail_at(uint32_t node, int32_t code, const std::string& why) const {
    throw error(code, why, g_, node);
  }

 private:
  template <class View, class Info, class F>
  View filled(F get, uint32_t i) const {
    View view{};
    view.struct_size = sizeof(Info);
    check(get(g_, i, &view));
    return view;
  }
  template <class F>
  std::span<const uint32_t> ids(F get) const {
    const uint32_t* p = nullptr;
    uint32_t n = get(g_, &p);
    return {p, n};
  }
  const tn_graph* g_;
};

/// A deep copy of a node's op and arguments, which outlives the compile. Sub-graphs and opaque
/// arguments cannot be kept: those throw `declined`.
class owned_node {
 public:
  uint32_t op, n_results, first_result;
  int32_t grad_mode = TN_GRAD_AS_CALLED;
  std::string op_name;

  /// Node `i`, with what run_op(const owned_node&, ...) needs to run it as the program would.
  owned_node(const graph& g, uint32_t i) : owned_node(g.at(i)) {
    grad_mode = g.grad_mode(i);
    if (grad_mode != TN_GRAD_AS_CALLED && !host->extension(TN_GRAD_MODE_ID, TN_GRAD_MODE_VERSION))
      throw declined(op_name + ": this host runs no op with gradients switched off or on");
  }
  explicit owned_node(const node& n)
      : op(n.op),
        n_results(n.n_results),
        first_result(n.first_result),
        op_name(sv(n.op_name)),
        args_(n.args, n.args + n.n_args) {
    for (tn_arg& a : args_) keep(a);
  }
  owned_node(owned_node&&) = default;
  owned_node& operator=(owned_node&&) = default;
  std::span<const tn_arg> args() const { return args_; }

 private:
  void keep(tn_arg& a) {
    switch (a.kind) {
      case TN_ARG_VALUES:
        return keep(a.u.values, a.count);
      case TN_ARG_INTS:
        return keep(a.u.ints, a.count);
      case TN_ARG_FLOATS:
        return keep(a.u.floats, a.count);
      case TN_ARG_BOOLS:
        return keep(a.u.bools, a.count);
      case TN_ARG_SYMINTS:
        return keep(a.u.syms, a.count);
      case TN_ARG_STRING:
        return keep(a.u.str.data, a.u.str.size);
      case TN_ARG_STRINGS:
        return keep_strings(a);
      case TN_ARG_GRAPH:
      case TN_ARG_OPAQUE:
        throw declined(op_name + ": an argument cannot outlive the compile");
      default:
        return;
    }
  }
  template <class T>
  void keep(const T*& p, size_t n) {
    if (!n) return;
    memory_.emplace_back(new std::byte[n * sizeof(T)]);
    std::memcpy(memory_.back().get(), p, n * sizeof(T));
    p = reinterpret_cast<const T*>(memory_.back().get());
  }
  void keep_strings(tn_arg& a) {
    keep(a.u.strings, a.count);
    auto* strings = const_cast<tn_str*>(a.u.strings);  // our own copy by now
    for (uint32_t i = 0; i < a.count; ++i) keep(strings[i].data, strings[i].size);
  }
  std::vector<tn_arg> args_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

// ---- ops ----

/// The id of "aten.add.Tensor", asked for once; TN_NO_VALUE while the host does not know the op.
inline uint32_t op(std::string_view name) {
  static std::mutex ids_mutex;
  static auto& ids = *new std::unordered_map<std::string, uint32_t>;
  std::lock_guard lock(ids_mutex);
  std::string key(name);
  if (auto found = ids.find(key); found != ids.end()) return found->second;
  uint32_t id = host->ops->find(str(name));
  if (id != TN_NO_VALUE) ids.emplace(std::move(key), id);
  return id;
}

struct formula : tn_formula {
  std::span<const tn_instr> program() const { return {instr, n_instr}; }
  std::span<const uint32_t> results() const { return {outputs, n_outputs}; }
};

/// The scalar program of an op, or nothing where it has none.
inline std::optional<formula> formula_of(uint32_t op, std::span<const tn_arg> args = {},
                                         int32_t part = TN_FP_POINTWISE) {
  if (!TN_HAS(host->ops, formula)) return std::nullopt;
  formula f{};
  f.struct_size = sizeof(tn_formula);
  const tn_arg* given = args.empty() ? nullptr : args.data();
  tn_status* status = host->ops->formula(op, given, uint32_t(args.size()), part, &f);
  if (!status) return f;
  if (host->status_code(status) != TN_NOT_FOUND) check(status);
  host->status_free(status);
  return std::nullopt;
}

}  // namespace tenon::plugin

#include <tenon/plugin_services.hpp>

#include <tenon/plugin_entry.hpp>
