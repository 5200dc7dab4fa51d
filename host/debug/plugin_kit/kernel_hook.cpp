// The plugin's eager kernels in the op table of this process, on a switch.
#include "debug/plugin_kit/kernel_hook.h"

#include "backend/abi/abi_args.h"
#include "backend/abi/bridge.h"
#include "backend/abi/status.h"
#include "core/error.h"
#include "debug/plugin_kit/watched_host.h"
#include "graph/interpret.h"
#include "ops/op_table.h"

#include <atomic>
#include <vector>

namespace tenon::kit {

namespace {

std::atomic<bool> kernels_on{false};
std::atomic<int64_t> taken{0};

struct Hook {
  const tn_kernels* table;
  uint32_t index;
  std::string op;
};

void expect_untouched(const Hook& hook, std::span<tn_tensor* const> out) {
  for (tn_tensor* t : out)
    expect(t == nullptr, "the kernel of {} wrote an output although it failed or declined",
           hook.op);
}

/// The call of a kernel that this thread is in.
struct Inside {
  const Hook& hook;
  std::vector<const tn_tensor*> tensors;
  const Inside* outer;
};
thread_local const Inside* innermost = nullptr;

std::vector<const tn_tensor*> tensors_of(const CallArgs& call) {
  std::vector<const tn_tensor*> out;
  for (uint32_t i = 0; i < call.n_args; ++i) {
    const Value& a = call.args[i];
    bool one = a.tag == Tag::tensor, several = a.tag == Tag::tensors;
    for (uint32_t k = 0; k < (one ? 1 : several ? a.count : 0); ++k)
      if (a.as<Tensor>()[k].defined()) out.push_back(a.as<Tensor>()[k].head());
  }
  return out;
}

// A kernel may use its own op for parts of the work, but not hand on what it was given: that is
// what TN_DECLINED is for.
bool comes_from_itself(const Inside& now) {
  for (const Inside* at = now.outer; at != nullptr; at = at->outer) {
    if (&at->hook != &now.hook || at->tensors != now.tensors) continue;
    note_misuse(
        message("the kernel of {} calls its own op with the arguments that it was given, "
                "which need not end; answer TN_DECLINED to leave a call to the next row",
                now.hook.op));
    return true;
  }
  return false;
}

/// Marks where this thread is.
struct InsideScope {
  Inside now;
  InsideScope(const Hook& hook, const CallArgs& call) : now{hook, tensors_of(call), innermost} {}
  void enter() { innermost = &now; }
  ~InsideScope() { innermost = now.outer; }
  InsideScope(const InsideScope&) = delete;
};

bool run_hook(void* self, const CallArgs& call) {
  const Hook& hook = *static_cast<const Hook*>(self);
  if (!kernels_on) return false;
  InsideScope scope(hook, call);
  if (comes_from_itself(scope.now)) return false;
  scope.enter();
  AbiArguments args(call.args, call.n_args);
  tn_tensor* out[8] = {};
  tn_status* status = hook.table->run(hook.table->self, hook.index, args.args(), args.size(),
                                      args.values(), nullptr, out, call.n_results);
  if (status) expect_untouched(hook, std::span(out, call.n_results));
  if (status && status->code == TN_DECLINED) {
    free_status(status);
    return false;
  }
  if (status) throw_status(status, ErrorCode::backend_call_failed, "kernel " + hook.op);
  for (uint32_t i = 0; i < call.n_results; ++i) {
    expect(out[i] != nullptr, "the kernel of {} reported success without output {}", hook.op, i);
    call.results[i] = Value::own(take_tensor(out[i]));
  }
  ++taken;
  return true;
}

}  // namespace

void hook_kernels(Bench& bench) {
  static bool hooked = false;
  if (std::exchange(hooked, true)) return;
  for (const tn_kernels& table : bench.load().kernels)
    for (uint32_t i = 0; i < table.n_ops; ++i)
      if (const OpEntry* op = find_op(view_of(table.ops[i])))
        add_foreign_kernel(op->id, {&run_hook, new Hook{&table, i, op->name}, 1 << 20});
}

KernelScope::KernelScope() { kernels_on = true; }
KernelScope::~KernelScope() { kernels_on = false; }
int64_t kernels_taken() { return taken; }

std::vector<Tensor> run_with_kernels(const GraphCase& c, std::span<const Tensor> inputs) {
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : inputs) heads.push_back(t.head());
  std::vector<Tensor> outputs(c.graph->outputs().size());
  KernelScope scope;
  Interpreter(c.graph).run(heads, c.symbols, outputs);
  return outputs;
}

}  // namespace tenon::kit
