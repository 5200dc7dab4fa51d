// Plugins that are wrong in one way each and look right otherwise: WRONG_<HOW> chooses, WRONG_NAME
// is the plugin. The conformance kit must find each of them and say what is wrong.
#include <tenon/device.h>
#include <tenon/custom_ops.hpp>
#include <tenon/plugin.hpp>

#include <cmath>
#include <cstring>
#include <thread>

using namespace tenon::plugin;

#define WRONG_PLUGIN \
  "manifest = 1\n[plugin]\nname = '" WRONG_NAME "'\nversion = '0.1.0'\nabi = '1.0'\n"
#define WRONG_BACKEND                \
  "[[backend]]\nname = '" WRONG_NAME \
  "'\ndescription = 'is wrong'\ntags = ['testing']\nstage = 'captured'\ndynamic_shapes = true\n"

namespace {

/// Runs graphs in the host's interpreter; `Rule::after` does the harm.
template <class Rule>
struct Program {
  artifact inner;
  Rule rule;
  void call(tn_call& c) {
    inner.call(c);
    rule.after(c);
  }
};

template <class Rule>
struct Wrong : Backend {
  std::unique_ptr<Program<Rule>> compile(const tn_compile_request& request) {
    return std::make_unique<Program<Rule>>(
        Program<Rule>{interpret(request.ctx, request.graph), Rule{}});
  }
};

[[maybe_unused]] bool is_f32(const tn_tensor* t) {
  return t && t->dtype == TN_F32 && t->numel > 0 && (t->flags & TN_T_CONTIGUOUS);
}

#if defined(WRONG_RACE) || defined(WRONG_LOST_NAN) || defined(WRONG_LEAK) || defined(WRONG_KEEPS)

TN_MANIFEST(WRONG_PLUGIN WRONG_BACKEND);

// ---- backends

struct Rule {
#if defined(WRONG_RACE)
  // Scratch memory that all calls share.
  void after(tn_call& c) {
    static std::vector<float>& scratch = *new std::vector<float>(size_t{1} << 21);
    if (!c.n_outputs || !is_f32(c.outputs[0])) return;
    size_t bytes = std::min(size_t(c.outputs[0]->numel), scratch.size()) * sizeof(float);
    std::memcpy(scratch.data(), c.outputs[0]->data, bytes);
    std::this_thread::yield();  // on a busy machine, too, another thread comes in between
    std::memcpy(c.outputs[0]->data, scratch.data(), bytes);
  }
#elif defined(WRONG_LOST_NAN)
  // As a library that clamps with min and max does.
  void after(tn_call& c) {
    for (uint32_t i = 0; i < c.n_outputs; ++i)
      for (int64_t k = 0; is_f32(c.outputs[i]) && k < c.outputs[i]->numel; ++k) {
        float& x = static_cast<float*>(c.outputs[i]->data)[k];
        if (std::isnan(x)) x = 0;
      }
  }
#elif defined(WRONG_LEAK)
  void after(tn_call&) {
    const int64_t sizes[] = {16};
    tensor::empty(sizes, TN_F32).release();
  }
#elif defined(WRONG_KEEPS)
  std::vector<tensor> kept;
  void after(tn_call& c) {
    kept.clear();
    for (uint32_t i = 0; i < c.n_inputs; ++i) kept.push_back(tensor::share(c.inputs[i]));
  }
#endif
};

}  // namespace

TENON_PLUGIN_BACKENDS((Wrong<Rule>, WRONG_NAME))

#elif defined(WRONG_OP_META) || defined(WRONG_OP_VJP) || defined(WRONG_OP_RIGHT)

// ---- ops

TN_MANIFEST(WRONG_PLUGIN
            "requires = ['tenon.custom_ops/1']\n[[op]]\nname = 'wrong.twice.default'\n");

#if defined(WRONG_OP_VJP)
constexpr double slope = 3;
#else
constexpr double slope = 2;
#endif

void twice(const kernel_call& c) {
  tn_tensor* x = c.values[c.args[0].u.value];
  if (x->dtype == TN_I64 || x->dtype == TN_BOOL)
    throw error(TN_INVALID_ARGUMENT, "twice takes floating numbers");
#if defined(WRONG_OP_META)
  tensor wide = tensor::strided(sizes(x), strides(x), TN_F64);
  wide.copy_from(call("aten.mul.Scalar", x, 2.0).get());
  c.give(0, std::move(wide));
#else
  c.give(0, call("aten.mul.Scalar", x, 2.0));
#endif
}

}  // namespace

TENON_PLUGIN(p) {
  (void)p;
  add_op({.schema = "wrong::twice(Tensor x) -> Tensor",
          .like = 0,
          .kernel = twice,
          .vjp = [](const vjp_call& c) { c.give(0, call("aten.mul.Scalar", c.grad(0), slope)); }});
}

#elif defined(WRONG_DEVICE)

// ---- a device

TN_MANIFEST(WRONG_PLUGIN "[[device]]\ntype = 'fakenpu'\ndescription = 'memory of the host'\n");

int queue;
tn_status* nothing() { return nullptr; }

// All that a provider needs, over the memory of the host.
tn_device_provider provider() {
  tn_device_provider p{};
  p.struct_size = sizeof p;
  p.type_name = TN_STR("fakenpu");
  p.count = [](void*, int32_t* out) { return *out = 1, nothing(); };
  p.props = [](void*, int32_t, tn_device_props* out) {
    out->total_bytes = out->free_bytes = 1 << 20;
    out->name = out->arch = TN_STR("fake");
    return nothing();
  };
  p.alloc = [](void*, int32_t, size_t bytes, tn_stream*, void** out) {
    *out = host->svc->alloc(bytes, 64);
    return nothing();
  };
  p.free = [](void*, int32_t, void* block, size_t bytes, tn_stream*) {
    host->svc->free(block, bytes, 64);
  };
  p.copy = [](void*, int32_t, void* dst, const void* src, size_t bytes, int32_t, tn_stream*) {
    return std::memcpy(dst, src, bytes), nothing();
  };
  p.fill = [](void*, int32_t, void* dst, uint8_t byte, size_t bytes, tn_stream*) {
    return std::memset(dst, byte, bytes), nothing();
  };
  p.stream_new = [](void*, int32_t, int32_t, tn_stream** out) {
    return *out = reinterpret_cast<tn_stream*>(&queue), nothing();
  };
  p.stream_free = [](void*, tn_stream*) {};
  p.stream_sync = [](void*, tn_stream*) { return nothing(); };
  p.device_sync = [](void*, int32_t) { return nothing(); };
  p.event_new = [](void*, int32_t, int32_t, tn_event** out) {
    return *out = reinterpret_cast<tn_event*>(&queue), nothing();
  };
  p.event_free = [](void*, tn_event*) {};
  p.event_record = [](void*, tn_event*, tn_stream*) { return nothing(); };
  p.event_wait = [](void*, tn_event*, tn_stream*) { return nothing(); };
  p.event_done = [](void*, tn_event*) { return int32_t{1}; };
  p.event_elapsed_ms = [](void*, tn_event*, tn_event*, double* out) { return *out = 0, nothing(); };
  return p;
}

const tn_device_provider device = provider();

}  // namespace

TENON_PLUGIN(p) { p.device(device); }

#else

// ---- kernels

TN_MANIFEST(WRONG_PLUGIN "[[kernels]]\ndevice = 'cpu'\nops = ['aten.neg.default']\n");

[[maybe_unused]] tensor negated(const tn_tensor* x, tensor out) {
  auto* to = out.data<float>();
  const auto* from = static_cast<const float*>(x->data);
  for (int64_t i = 0; i < x->numel; ++i) to[i] = -from[i];
  return out;
}

bool neg(const kernel_call& c) {
  tn_tensor* x = c.values[c.args[0].u.value];
  if (!is_f32(x)) return false;
#if defined(WRONG_DECLINES)
  return false;
#elif defined(WRONG_DTYPE)
  c.give(0, tensor::empty(sizes(x), TN_I64));
#elif defined(WRONG_NULL)
  (void)c;
#elif defined(WRONG_STRIDES)
  if (x->ndim != 2) return false;
  const int64_t turned[] = {1, x->sizes[0]};
  tensor plain = negated(x, tensor::empty(sizes(x), TN_F32));
  tensor out = tensor::strided(sizes(x), turned, TN_F32);
  out.copy_from(plain.get());
  c.give(0, std::move(out));
#elif defined(WRONG_SELF)
  tn_tensor* out = nullptr;
  run_op(op("aten.neg.default"), c.args, c.values, std::span(&out, 1));
  c.give(0, tensor(out));
#elif defined(WRONG_BEHIND)
  tensor out = negated(x, tensor::empty(sizes(x), TN_F32));
  out.data<float>()[x->numel] = 0;
  c.give(0, std::move(out));
#else
#error "say what is wrong"
#endif
  return true;
}

constexpr kernel_row rows[] = {{"aten.neg.default", neg}};

}  // namespace

TENON_PLUGIN(p) { p.kernels(TN_DEV_CPU, rows); }

#endif
