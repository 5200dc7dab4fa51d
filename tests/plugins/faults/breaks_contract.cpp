// Succeeds and breaks a rule: each backend one, in its calls or in what compile gives.
#include "fault.h"

#include <tenon/plugin.hpp>

using namespace tenon::plugin;

namespace {

struct Program {
  std::string name;
  tn_tensor* kept = nullptr;
  bool in(std::string_view what) const { return name.ends_with(what); }
  explicit Program(std::string_view n) : name(n) {}

  void call(tn_call& c) {
    tn_tensor* x = c.inputs[0];
    std::vector<int64_t> shape(x->sizes, x->sizes + x->ndim);
    if (in("_input")) static_cast<float*>(x->data)[0] += 1;
    if (in("_rank")) shape.push_back(1);
    if (in("_shape")) ++shape[0];
    tensor out = tensor::empty(shape, in("_dtype") ? TN_F64 : TN_F32);
    if (in("_strides")) {
      int64_t column_major[] = {1, shape[0]};
      out = tensor::strided(shape, column_major, TN_F32);
    }
    if (in("_over")) out = tensor::share(x);
    if (in("_over")) c.outputs[1] = tensor::empty(shape, TN_F32).release();
    if (in("_twice")) c.outputs[1] = tensor::share(out.get()).release();
    if (in("_handle")) {
      if (kept) out.copy_from(kept);
      kept = x;
    }
    if (in("_release")) tenon::plugin::host->tensor->release(x);
    if (!in("_null")) c.outputs[0] = out.release();
  }
};

struct Breaks : Backend {
  std::string name;
  explicit Breaks(std::string_view n) : name(n) {}

  artifact compile(const tn_compile_request&) {
    static const tn_artifact_api no_call = {.struct_size = sizeof(tn_artifact_api)};
    static const tn_artifact_api too_short = {.struct_size = 8};
    static tn_artifact without_call = {&no_call, nullptr}, truncated = {&too_short, nullptr};
    if (name.ends_with("_artifact")) return artifact();
    if (name.ends_with("_function")) return artifact(&without_call);
    if (name.ends_with("_table")) return artifact(&truncated);
    return artifact(make_artifact(std::make_unique<Program>(name)));
  }
};

struct GivesNothing : Backend {
  std::unique_ptr<Program> compile(const tn_compile_request&) { return nullptr; }
  std::unique_ptr<Program> load(const tn_compile_request&, std::string_view) { return nullptr; }
};

}  // namespace

#define BREAKS "fault_breaks_"
TN_MANIFEST(FAULT_PLUGIN("fault_breaks_contract", "1.0", "") FAULT_BACKEND(BREAKS "input")
                FAULT_BACKEND(BREAKS "rank") FAULT_BACKEND(BREAKS "shape")
                    FAULT_BACKEND(BREAKS "dtype") FAULT_BACKEND(BREAKS "handle")
                        FAULT_BACKEND(BREAKS "null") FAULT_BACKEND(BREAKS "grad")
                            FAULT_BACKEND(BREAKS "artifact") FAULT_BACKEND(BREAKS "function")
                                FAULT_BACKEND(BREAKS "table") FAULT_BACKEND(BREAKS "release")
                                    FAULT_BACKEND(BREAKS "pointer") FAULT_BACKEND(BREAKS "strides")
                                        FAULT_BACKEND(BREAKS "over") FAULT_BACKEND(BREAKS "twice"));

TENON_PLUGIN(p) {
  for (const char* name :
       {BREAKS "input", BREAKS "rank", BREAKS "shape", BREAKS "dtype", BREAKS "handle",
        BREAKS "null", BREAKS "grad", BREAKS "artifact", BREAKS "function", BREAKS "table",
        BREAKS "release", BREAKS "strides", BREAKS "over", BREAKS "twice"})
    p.backend<Breaks>(name);
  p.backend<GivesNothing>(BREAKS "pointer");
}
