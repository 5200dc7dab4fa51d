// SPDX-License-Identifier: Apache-2.0
// tenon/plugin_entry.hpp - part of <tenon/plugin.hpp>: classes become tables of the C ABI.
//
// One class or several entries:   TENON_PLUGIN_BACKENDS((Mine, "mine"), (Mine, "mine_debug"))
// Anything else, with a builder:  TENON_PLUGIN(p) {
//                                   p.backend<Mine>("mine");
//                                   p.kernels(TN_DEV_CPU, rows);   // kernel_row rows[]
//                                   p.on_shutdown([] { stop(); });
//                                 }
#pragma once

#include <tenon/plugin.hpp>

#include <concepts>

namespace tenon::plugin {

// ---- artifacts ----

/// An owned artifact of the host or of another backend.
class artifact {
 public:
  artifact() = default;
  explicit artifact(tn_artifact* owned) : p_(owned) {}
  artifact(artifact&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  artifact& operator=(artifact&& o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~artifact() {
    if (p_) p_->api->destroy(p_);
  }
  void call(tn_call& c) { check(p_->api->call(p_, &c)); }
  tn_artifact* get() const { return p_; }
  tn_artifact* release() { return std::exchange(p_, nullptr); }

 private:
  tn_artifact* p_ = nullptr;
};

/// An artifact of the host that runs the graph node by node.
inline artifact interpret(tn_ctx* ctx, const tn_graph* g) {
  tn_artifact* out = nullptr;
  check(host->run->interpret(ctx, g, &out));
  return artifact(out);
}

/// Lets another backend compile `g`; `options_toml` such as "max_autotune = true".
inline artifact compile_with(tn_ctx* ctx, const tn_graph* g, std::string_view backend,
                             std::string_view options_toml = {}) {
  tn_artifact* out = nullptr;
  check(host->run->compile_with(ctx, g, str(backend), str(options_toml), &out));
  return artifact(out);
}

/// Runs one op through the host, with gradients as they are; arguments index `values`.
inline void run_op(uint32_t op, std::span<const tn_arg> args, tn_tensor* const* values,
                   std::span<tn_tensor*> out, tn_stream* stream = nullptr) {
  check(host->run->run_op(op, args.data(), uint32_t(args.size()), values, stream, out.data(),
                          uint32_t(out.size())));
}

/// Runs a node, with gradients on or off as it says; `args`: its own, or what stands for them now.
inline void run_op(const owned_node& n, std::span<const tn_arg> args, tn_tensor* const* values,
                   std::span<tn_tensor*> out, tn_stream* stream = nullptr) {
  if (n.grad_mode == TN_GRAD_AS_CALLED) return run_op(n.op, args, values, out, stream);
  auto* modes =
      static_cast<const tn_grad_mode_api*>(host->extension(TN_GRAD_MODE_ID, TN_GRAD_MODE_VERSION));
  check(modes->run_op(n.op, n.grad_mode, args.data(), uint32_t(args.size()), values, stream,
                      out.data(), uint32_t(out.size())));
}

namespace detail {

inline void write(const tn_sink* sink, std::string_view text) {
  sink->write(sink->ctx, text.data(), text.size());
}

/// One call of an artifact: outputs begin as NULL and, when `run` fails, end as NULL.
template <class A>
tn_status* call_artifact(A& artifact, tn_call& c) noexcept {
  bool ours = !(c.flags & TN_CALL_OUTPUTS_GIVEN);
  if (ours) std::fill_n(c.outputs, c.n_outputs, nullptr);
  tn_status* status = barrier([&] { artifact.call(c); });
  if (!status || !ours) return status;
  for (uint32_t i = 0; i < c.n_outputs; ++i)
    if (tn_tensor* t = std::exchange(c.outputs[i], nullptr)) host->tensor->release(t);
  return status;
}

template <class A>
constexpr uint32_t flags_of() {
  if constexpr (requires { A::flags; }) return A::flags;
  return 0;
}

template <class A>
constexpr tn_artifact_api artifact_api(uint32_t flags = flags_of<A>()) {
  tn_artifact_api api{};
  api.struct_size = sizeof api;
  api.flags = flags;
  api.call = [](tn_artifact* s, tn_call* c) {
    return call_artifact(*static_cast<A*>(s->self), *c);
  };
  api.destroy = [](tn_artifact* s) {
    quietly("destroy", [s] { delete static_cast<A*>(s->self); });
    delete s;
  };
  if constexpr (requires(A & a) { std::string(a.serialize()); })
    api.serialize = [](tn_artifact* s, const tn_sink* sink) {
      return barrier([&] { write(sink, static_cast<A*>(s->self)->serialize()); });
    };
  if constexpr (requires(A & a, int32_t what) { std::string(a.describe(what)); })
    api.describe = [](tn_artifact* s, int32_t what, const tn_sink* sink) {
      return barrier([&] { write(sink, static_cast<A*>(s->self)->describe(what)); });
    };
  if constexpr (requires(A & a, std::span<const uint32_t> ids, std::span<tn_tensor* const> t) {
                  a.set_constants(ids, t);
                })
    api.set_constants = [](tn_artifact* s, const uint32_t* ids, tn_tensor* const* tensors,
                           uint32_t n) {
      return barrier([&] {
        static_cast<A*>(s->self)->set_constants(std::span(ids, n), std::span(tensors, n));
      });
    };
  return api;
}

}  // namespace detail

template <class A>
concept artifact_class = requires(A& a, tn_call& c) {
  a.call(c);
};

/// Hands `a` to the host; the functions it offers besides `call` are found by their shape. With
/// `bool fills_outputs() const` it says by itself whether it has TN_AF_WRITES_GIVEN_OUTPUTS. An empty
/// pointer stays one, which the host tells the user about.
template <artifact_class A>
tn_artifact* make_artifact(std::unique_ptr<A> a) {
  if (!a) return nullptr;
  static constexpr tn_artifact_api makes = detail::artifact_api<A>();
  static constexpr tn_artifact_api fills =
      detail::artifact_api<A>(makes.flags | TN_AF_WRITES_GIVEN_OUTPUTS);
  const tn_artifact_api* api = &makes;
  if constexpr (requires { bool(a->fills_outputs()); }) api = a->fills_outputs() ? &fills : &makes;
  auto out = std::make_unique<tn_artifact>(tn_artifact{api, nullptr});
  out->self = a.release();
  return out.release();
}
inline tn_artifact* make_artifact(artifact a) { return a.release(); }

// ---- backends ----

/// May be inherited to say what a class is; it asks for nothing.
struct Backend {};

template <class B>
concept backend_class = requires(B& b, const tn_compile_request& rq) {
  make_artifact(b.compile(rq));
};

/// What `judge` says of each node; what it does not mention is not supported.
struct verdicts {
  tn_verdicts* abi;

  uint32_t size() const { return abi->n_nodes; }
  void take(uint32_t node, uint8_t verdict = TN_SUPPORTED) const { abi->verdict[node] = verdict; }
  /// Nodes of one group go to the backend together, in one region, or not at all; from 1 on.
  void group(uint32_t node, uint32_t number) const { abi->group[node] = number; }
  /// Leaves the node; `explain` shows the user why.
  void leave(uint32_t node, std::string_view why) const {
    abi->verdict[node] = TN_NOT_SUPPORTED;
    abi->reason(abi, node, str(why));
  }
};

namespace detail {

// Bits 32..63 change what a request means: who does not know one must not go on.
inline const tn_compile_request& checked(const tn_compile_request* rq) {
  if (rq->flags >> 32)
    throw error(TN_UNIMPLEMENTED,
                text("the request has flags {}, which this plugin does not know", rq->flags));
  return *rq;
}

template <class B>
constexpr void fill_optional(tn_backend& t) {
  if constexpr (requires(B & b, const tn_compile_request& rq, std::span<uint8_t> v) {
                  b.supports(rq, v);
                })
    t.supports = [](void* s, const tn_compile_request* rq, uint8_t* verdict) {
      std::span<uint8_t> nodes(verdict, host->graph->node_count(rq->graph));
      return barrier([&] { static_cast<B*>(s)->supports(checked(rq), nodes); });
    };
  if constexpr (requires(B & b, const tn_compile_request& rq, verdicts v) { b.judge(rq, v); })
    t.judge = [](void* s, const tn_compile_request* rq, tn_verdicts* v) {
      return barrier([&] { static_cast<B*>(s)->judge(checked(rq), verdicts{v}); });
    };
  if constexpr (requires(B & b, const tn_compile_request& rq, std::string_view bytes) {
                  make_artifact(b.load(rq, bytes));
                })
    t.load = [](void* s, const tn_compile_request* rq, tn_str bytes, tn_artifact** out) {
      return barrier(
          [&] { *out = make_artifact(static_cast<B*>(s)->load(checked(rq), sv(bytes))); });
    };
  if constexpr (requires(B & b) { std::string(b.fingerprint()); })
    t.fingerprint = [](void* s, const tn_sink* sink) {
      return barrier([&] { write(sink, static_cast<B*>(s)->fingerprint()); });
    };
  if constexpr (requires(B & b) { b.reset(); })
    t.reset = [](void* s) { return barrier([&] { static_cast<B*>(s)->reset(); }); };
}

template <backend_class B>
tn_backend backend_table(B* self, std::string_view name) {
  tn_backend t{};
  t.struct_size = sizeof t;
  t.name = str(name);
  t.self = self;
  t.compile = [](void* s, const tn_compile_request* rq, tn_artifact** out) {
    return barrier([&] { *out = make_artifact(static_cast<B*>(s)->compile(checked(rq))); });
  };
  fill_optional<B>(t);
  return t;
}

}  // namespace detail

// ---- eager kernels ----

/// One call of an op that the plugin has a faster kernel for.
struct kernel_call {
  std::span<const tn_arg> args;  ///< schema order, defaults filled in
  tn_tensor* const* values;      ///< what TN_ARG_VALUE and TN_ARG_VALUES index; borrowed
  std::span<tn_tensor*> out;     ///< write new references
  tn_stream* stream;

  /// The tensor argument at `i`, or null where it is absent.
  const tn_tensor* tensor_at(size_t i) const {
    return args[i].kind == TN_ARG_VALUE ? values[args[i].u.value] : nullptr;
  }
  void give(size_t i, tensor t) const { out[i] = t.release(); }
};

/// An op and the function that runs it; false = not for me, told before anything is written.
struct kernel_row {
  std::string_view op;  ///< "aten.mm.default"
  bool (*run)(const kernel_call&);
};

namespace detail {

/// What a function gave before it failed or declined goes back: out-parameters are null.
inline void take_back(std::span<tn_tensor*> out) {
  for (tn_tensor*& t : out)
    if (t) host->tensor->release(std::exchange(t, nullptr));
}

inline tn_status* run_kernel(void* self, uint32_t op_index, const tn_arg* args, uint32_t n_args,
                             tn_tensor* const* values, tn_stream* stream, tn_tensor** out,
                             uint32_t n_out) {
  const auto* rows = static_cast<const kernel_row*>(self);
  kernel_call call{{args, n_args}, values, {out, n_out}, stream};
  std::fill_n(out, n_out, nullptr);
  bool done = false;
  tn_status* status = barrier([&] { done = rows[op_index].run(call); });
  if (status || !done) take_back(call.out);
  return status || done ? status : new_status(TN_DECLINED, {});
}

struct kernel_table {
  std::vector<tn_str> ops;
  tn_kernels table{};
};

}  // namespace detail

// ---- the plugin ----

/// Collects what a plugin offers; lives from the entry call on. Objects made here are destroyed at
/// shutdown, in reverse order; the tables stay.
class builder {
 public:
  /// A backend under a name of the manifest, with an object of its own, made with the name if it
  /// can.
  template <backend_class B>
  builder& backend(std::string_view name) {
    std::unique_ptr<B> self;
    if constexpr (std::is_constructible_v<B, std::string_view>)
      self = std::make_unique<B>(name);
    else
      self = std::make_unique<B>();
    backends_.push_back(std::make_unique<tn_backend>(detail::backend_table(self.get(), name)));
    owned_.emplace_back(self.release(), [](void* p) { delete static_cast<B*>(p); });
    return *this;
  }
  /// Kernels for a device; `rows` live as long as the library.
  builder& kernels(int32_t device_type, std::span<const kernel_row> rows) {
    auto made = std::make_unique<detail::kernel_table>();
    for (const kernel_row& row : rows) made->ops.push_back(str(row.op));
    made->table = {sizeof(tn_kernels),
                   uint32_t(rows.size()),
                   device_type,
                   0,
                   const_cast<kernel_row*>(rows.data()),
                   made->ops.data(),
                   &detail::run_kernel};
    kernels_.push_back(std::move(made));
    return *this;
  }
  builder& device(const tn_device_provider& provider) {
    devices_.push_back(&provider);
    return *this;
  }
  /// `id` and `table` live as long as the library.
  builder& extension(std::string_view id, uint32_t version, const void* table) {
    extensions_.push_back(std::make_unique<tn_extension>(
        tn_extension{sizeof(tn_extension), version, str(id), table}));
    return *this;
  }
  /// Runs once at shutdown, before the backend objects are destroyed.
  builder& on_shutdown(void (*f)()) {
    shutdown_ = f;
    return *this;
  }

  const tn_plugin* finish(tn_status* (*shutdown)()) {
    plugin_ = {sizeof(tn_plugin),
               TN_ABI_MAJOR,
               TN_ABI_MINOR,
               0,
               list(backend_list_, backends_),
               devices_.data(),
               list(extension_list_, extensions_),
               kernel_list(),
               uint32_t(backends_.size()),
               uint32_t(devices_.size()),
               uint32_t(extensions_.size()),
               uint32_t(kernels_.size()),
               shutdown};
    return &plugin_;
  }
  void shutdown() {
    if (shutdown_) std::exchange(shutdown_, nullptr)();
    while (!owned_.empty()) {  // a destructor that throws does so here, not in that of the list
      auto last = std::move(owned_.back());
      owned_.pop_back();
      auto destroy = last.get_deleter();
      destroy(last.release());
    }
  }

 private:
  template <class T>
  static const T* const* list(std::vector<const T*>& to,
                              const std::vector<std::unique_ptr<T>>& from) {
    for (const auto& t : from) to.push_back(t.get());
    return to.data();
  }
  const tn_kernels* const* kernel_list() {
    for (const auto& k : kernels_) kernel_list_.push_back(&k->table);
    return kernel_list_.data();
  }

  std::vector<std::unique_ptr<void, void (*)(void*)>> owned_;
  std::vector<std::unique_ptr<tn_backend>> backends_;
  std::vector<std::unique_ptr<tn_extension>> extensions_;
  std::vector<std::unique_ptr<detail::kernel_table>> kernels_;
  std::vector<const tn_backend*> backend_list_;
  std::vector<const tn_device_provider*> devices_;
  std::vector<const tn_extension*> extension_list_;
  std::vector<const tn_kernels*> kernel_list_;
  void (*shutdown_)() = nullptr;
  tn_plugin plugin_{};
};

namespace detail {

/// Leaked: the host reads the tables until the process ends.
__attribute__((visibility("hidden"))) inline builder* the_builder = nullptr;

inline tn_status* shut_down() noexcept {
  return barrier([] { the_builder->shutdown(); });
}

/// The body of the entry function.
inline tn_status* enter(const tn_host* h, const tn_plugin** out,
                        void (*describe)(builder&)) noexcept {
  host = h;
  return barrier([&] {
    auto made = std::make_unique<builder>();
    describe(*made);
    the_builder = made.release();
    *out = the_builder->finish(&shut_down);
  });
}

}  // namespace detail

}  // namespace tenon::plugin

/// Defines the entry of a plugin; the body that follows tells the builder what the plugin offers.
#define TENON_PLUGIN(name)                                                                         \
  static void tenon_plugin_describe(tenon::plugin::builder&);                                      \
  extern "C" TN_EXPORT tn_status* tenon_plugin_entry_v1(const tn_host* h, const tn_plugin** out) { \
    return tenon::plugin::detail::enter(h, out, &tenon_plugin_describe);                           \
  }                                                                                                \
  static void tenon_plugin_describe([[maybe_unused]] tenon::plugin::builder& name)

/// TENON_PLUGIN_BACKENDS((Type, "name"), ...): an entry of the manifest each.
#define TENON_PLUGIN_BACKENDS(...) \
  TENON_PLUGIN(p) { TENON_PLUGIN_EXPAND(TENON_PLUGIN_EACH(__VA_ARGS__)) }
#define TENON_PLUGIN_BACKEND(Type, Name) TENON_PLUGIN_BACKENDS((Type, Name))

#define TENON_PLUGIN_ADD(Type, Name) p.backend<Type>(Name);
#define TENON_PLUGIN_PARENS ()
#define TENON_PLUGIN_EACH(entry, ...) \
  TENON_PLUGIN_ADD entry __VA_OPT__(TENON_PLUGIN_AGAIN TENON_PLUGIN_PARENS(__VA_ARGS__))
#define TENON_PLUGIN_AGAIN() TENON_PLUGIN_EACH
#define TENON_PLUGIN_EXPAND(...) TENON_PLUGIN_EXPAND_3(TENON_PLUGIN_EXPAND_3(__VA_ARGS__))
#define TENON_PLUGIN_EXPAND_3(...) TENON_PLUGIN_EXPAND_2(TENON_PLUGIN_EXPAND_2(__VA_ARGS__))
#define TENON_PLUGIN_EXPAND_2(...) TENON_PLUGIN_EXPAND_1(TENON_PLUGIN_EXPAND_1(__VA_ARGS__))
#define TENON_PLUGIN_EXPAND_1(...) TENON_PLUGIN_EXPAND_0(TENON_PLUGIN_EXPAND_0(__VA_ARGS__))
#define TENON_PLUGIN_EXPAND_0(...) __VA_ARGS__
