// Backends that each break one rule of the plugin interface, for the tests of the conformance kit:
// it must find every one of them. They run graphs in the host's interpreter.
#include <tenon/plugin.hpp>

#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <thread>

using namespace tenon::plugin;

namespace {

/// Runs the graph; `Rule` may do harm before and after.
template <class Rule>
struct Broken {
  artifact inner;
  Rule rule;
  static constexpr uint32_t flags = Rule::flags;

  void call(tn_call& c) {
    rule.before(c);
    inner.call(c);
    rule.after(c);
  }
};

template <class Rule>
struct Breaks : Backend {
  std::unique_ptr<Broken<Rule>> compile(const tn_compile_request& request) {
    Rule rule;
    rule.compiling(request);
    return std::make_unique<Broken<Rule>>(
        Broken<Rule>{interpret(request.ctx, request.graph), std::move(rule)});
  }
};

/// Keeps all rules; the others change one function.
struct Kept {
  static constexpr uint32_t flags = 0;
  void compiling(const tn_compile_request&) {}
  void before(tn_call&) {}
  void after(tn_call&) {}
};

bool is_f32(const tn_tensor* t) { return t && t->dtype == TN_F32 && t->numel > 0; }

struct WrongNumbers : Kept {
  void after(tn_call& c) {
    if (c.n_outputs && is_f32(c.outputs[0])) static_cast<float*>(c.outputs[0]->data)[0] += 0.5f;
  }
};

struct WritesInput : Kept {
  void after(tn_call& c) {
    if (c.n_inputs && is_f32(c.inputs[0])) static_cast<float*>(c.inputs[0]->data)[0] += 1;
  }
};

struct WritesBehindInput : Kept {
  void after(tn_call& c) {
    if (!c.n_inputs || !is_f32(c.inputs[0])) return;
    const tn_tensor* t = c.inputs[0];
    static_cast<char*>(t->storage)[t->storage_bytes] = 1;
  }
};

struct KeepsInput : Kept {
  void after(tn_call& c) {
    if (c.n_inputs && c.inputs[0]) host->tensor->retain(c.inputs[0]);
  }
};

struct WrongStrides : Kept {
  void after(tn_call& c) {
    if (!c.n_outputs || !c.outputs[0] || c.outputs[0]->ndim != 2) return;
    tensor old(c.outputs[0]);
    int64_t turned[2] = {1, old->sizes[0]};
    tensor other = tensor::strided(sizes(old.get()), turned, old->dtype);
    other.copy_from(old.get());
    c.outputs[0] = other.release();
  }
};

struct Crashes : Kept {
  void before(tn_call&) { raise(SIGSEGV); }
};

struct Exits : Kept {
  void before(tn_call&) { _exit(0); }
};

struct Hangs : Kept {
  void before(tn_call&) {
    for (;;) pause();
  }
};

struct LeaksBlock : Kept {
  void before(tn_call&) { host->svc->alloc(64, 64); }
};

struct LeaksStatus : Kept {
  void before(tn_call&) { host->status_new(TN_UNKNOWN, "lost", 4); }
};

struct LeaksArtifact : Kept {
  void compiling(const tn_compile_request& request) {
    tn_artifact* lost = nullptr;
    check(host->run->interpret(request.ctx, request.graph, &lost));
  }
};

struct LeaksMemory : Kept {
  void compiling(const tn_compile_request&) {
    auto* lost = static_cast<volatile char*>(malloc(512));
    lost[0] = 1;
  }
};

struct WritesBehindBlock : Kept {
  void before(tn_call&) {
    auto* block = static_cast<char*>(host->svc->alloc(40, 8));
    if (!block) throw std::bad_alloc();
    block[40] = 0;
    host->svc->free(block, 40, 8);
  }
};

struct FreesOtherSize : Kept {
  void before(tn_call&) { host->svc->free(host->svc->alloc(40, 8), 48, 8); }
};

// Takes failure for granted: its status says something else.
struct HidesNoMemory : Kept {
  void before(tn_call&) {
    void* block = host->svc->alloc(40, 8);
    if (!block) throw error(TN_INTERNAL, "alloc gave nothing");
    host->svc->free(block, 40, 8);
  }
};

struct UsesNoMemory : Kept {
  void before(tn_call&) {
    auto* block = static_cast<volatile char*>(host->svc->alloc(40, 8));
    block[0] = 1;
    host->svc->free(const_cast<char*>(block), 40, 8);
  }
};

struct ChangesRounding : Kept {
  void before(tn_call&) { fesetround(FE_UPWARD); }
};

struct HandlesSignals : Kept {
  void compiling(const tn_compile_request&) { signal(SIGUSR2, SIG_IGN); }
};

struct ChangesFolder : Kept {
  void before(tn_call&) {
    if (chdir("/") != 0) throw error(TN_INTERNAL, "chdir failed");
  }
};

// Computes with what the first call had, and asks for no guard.
struct KeepsSizes : Kept {
  int64_t first = -1;
  void before(tn_call& c) {
    if (c.n_syms == 0) return;
    if (first < 0) first = c.syms[0];
    if (c.syms[0] != first) throw error(TN_INTERNAL, "the sizes are not those of the first call");
  }
};

struct ClaimsToSteal : Kept {
  static constexpr uint32_t flags = TN_AF_STEALS_INPUTS;
  std::vector<tensor> kept;
  void before(tn_call& c) {
    kept.clear();
    for (uint32_t i = 0; i < c.n_inputs; ++i) kept.push_back(tensor::share(c.inputs[i]));
  }
  void after(tn_call&) { kept.clear(); }
};

struct StealsTwice : Kept {
  static constexpr uint32_t flags = TN_AF_STEALS_INPUTS;
  std::vector<tensor> extra;
  void before(tn_call& c) {
    bool steals = c.flags & TN_CALL_STEAL_INPUTS;
    if (steals && c.n_inputs && c.inputs[0]) host->tensor->release(c.inputs[0]);
  }
};

struct IgnoresCancel : Kept {
  void compiling(const tn_compile_request& request) {
    if (host->svc->progress(request.ctx, 0.5, str("half")))
      throw error(TN_INTERNAL, "somebody wants to stop");
  }
};

struct TrustsCache : Kept {
  void compiling(const tn_compile_request& request) {
    if (auto stored = cache_get(request.ctx, "key"); stored && *stored != "value")
      throw error(TN_INTERNAL, "the stored bytes are not mine");
    cache_put(request.ctx, "key", "value");
  }
};

// ---- artifacts with further functions

struct BadDescription {
  artifact inner;
  void call(tn_call& c) { inner.call(c); }
  std::string describe(int32_t what) {
    return what == TN_DESC_STATS_JSON ? "{\"kernels\": 1}" : "\xC3\x28";
  }
};
struct Describes : Backend {
  std::unique_ptr<BadDescription> compile(const tn_compile_request& request) {
    return std::make_unique<BadDescription>(BadDescription{interpret(request.ctx, request.graph)});
  }
};

struct Stored {
  artifact inner;
  void call(tn_call& c) { inner.call(c); }
  std::string serialize() { return "sixteen bytes..."; }
};
struct LoadsAnything : Backend {
  std::unique_ptr<Stored> compile(const tn_compile_request& request) {
    return std::make_unique<Stored>(Stored{interpret(request.ctx, request.graph)});
  }
  std::unique_ptr<Stored> load(const tn_compile_request& request, std::string_view) {
    return compile(request);
  }
};

struct StrangeVerdicts : Backend {
  artifact compile(const tn_compile_request& request) {
    return interpret(request.ctx, request.graph);
  }
  void supports(const tn_compile_request&, std::span<uint8_t> verdicts) {
    std::ranges::fill(verdicts, uint8_t{9});
  }
};

// Keeps all rules, and takes dense rows only.
struct RowMajor : Backend {
  artifact compile(const tn_compile_request& request) {
    for (uint32_t i = 0; i < request.n_inputs; ++i) {
      const tn_tensor* x = request.example_inputs[i];
      if (x && !(x->flags & TN_T_CONTIGUOUS)) throw declined("takes dense rows only");
    }
    return interpret(request.ctx, request.graph);
  }
};

// Supports whatever it is asked for, and then declines it: all of it goes to the fallback.
struct TakesNothing : Backend {
  artifact compile(const tn_compile_request&) { throw declined("not today"); }
  void supports(const tn_compile_request& request, std::span<uint8_t> verdicts) {
    for (uint32_t i = 0; i < verdicts.size(); ++i)
      verdicts[i] = i == 0 && graph(request).size() > 1 ? TN_NOT_SUPPORTED : TN_SUPPORTED;
  }
};

// Believes that it knows every kind of argument.
struct KnowsAllKinds : Backend {
  artifact compile(const tn_compile_request& request) {
    graph g(request);
    for (uint32_t i = 0; i < g.size(); ++i)
      for (const tn_arg& a : g.at(i).arguments())
        if (a.kind > TN_ARG_OPAQUE) abort();
    return interpret(request.ctx, request.graph);
  }
};

}  // namespace

TENON_PLUGIN(p) {
  p.backend<Breaks<WrongNumbers>>("wrong_numbers");
  p.backend<Breaks<WritesInput>>("writes_input");
  p.backend<Breaks<WritesBehindInput>>("writes_behind_input");
  p.backend<Breaks<KeepsInput>>("keeps_input");
  p.backend<Breaks<WrongStrides>>("wrong_strides");
  p.backend<Breaks<Crashes>>("crashes");
  p.backend<Breaks<Exits>>("exits");
  p.backend<Breaks<Hangs>>("hangs");
  p.backend<Breaks<LeaksBlock>>("leaks_block");
  p.backend<Breaks<LeaksStatus>>("leaks_status");
  p.backend<Breaks<LeaksArtifact>>("leaks_artifact");
  p.backend<Breaks<LeaksMemory>>("leaks_memory");
  p.backend<Breaks<WritesBehindBlock>>("writes_behind_block");
  p.backend<Breaks<FreesOtherSize>>("frees_other_size");
  p.backend<Breaks<HidesNoMemory>>("hides_no_memory");
  p.backend<Breaks<UsesNoMemory>>("uses_no_memory");
  p.backend<Breaks<ChangesRounding>>("changes_rounding");
  p.backend<Breaks<HandlesSignals>>("handles_signals");
  p.backend<Breaks<ChangesFolder>>("changes_folder");
  p.backend<Breaks<KeepsSizes>>("keeps_sizes");
  p.backend<Breaks<ClaimsToSteal>>("claims_to_steal");
  p.backend<Breaks<StealsTwice>>("steals_twice");
  p.backend<Breaks<IgnoresCancel>>("ignores_cancel");
  p.backend<Breaks<TrustsCache>>("trusts_cache");
  p.backend<Describes>("bad_description");
  p.backend<LoadsAnything>("loads_anything");
  p.backend<StrangeVerdicts>("strange_verdicts");
  p.backend<KnowsAllKinds>("knows_all_kinds");
  p.backend<RowMajor>("row_major");
  p.backend<TakesNothing>("takes_nothing");
}
