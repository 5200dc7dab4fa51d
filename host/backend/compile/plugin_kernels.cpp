// Eager kernels of plugins ([[kernels]]): attached to the op table, loaded at the first call.
#include "backend/abi/abi_args.h"
#include "backend/abi/bridge.h"
#include "backend/abi/status.h"
#include "backend/backend.h"
#include "backend/catalog.h"
#include "backend/life/load.h"
#include "core/device/provider.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/threads/once.h"
#include "graph/text/parse.h"
#include "ops/foreign_results.h"
#include "ops/op_table.h"
#include "report/log.h"

#include <algorithm>
#include <mutex>
#include <set>

namespace tenon {

namespace {

/// One op of one [[kernels]] row: the plugin is loaded at its first call.
struct KernelSlot {
  FoundPluginPtr plugin;
  DeviceType device;
  size_t row;
  std::string op, function;  // "kernel aten.mm.default", for messages
  bool only_kernel = false;  // the host has none to fall back to
  std::mutex preparing;      // threads may meet at the first call
  std::atomic<const tn_kernels*> table{nullptr};
  PluginNet* net = nullptr;  // set before table
  uint32_t op_index = 0;
  std::atomic<bool> unusable{false};
};

bool prepare(KernelSlot& slot) {
  if (slot.table.load(std::memory_order_acquire)) return true;
  if (slot.unusable.load(std::memory_order_relaxed)) return false;
  if (is_being_loaded(*slot.plugin)) return false;  // its own entry calls the op
  try {
    const LoadedPlugin& plugin = load_plugin(plugin_catalog(), slot.plugin);
    const tn_kernels& kernels = plugin.kernels[slot.row];
    for (uint32_t i = 0; i < kernels.n_ops; ++i) {
      if (view_of(kernels.ops[i]) != slot.op) continue;
      std::lock_guard lock(slot.preparing);  // not around the loading, which runs the plugin's code
      if (slot.table.load(std::memory_order_relaxed)) return true;
      slot.op_index = i;
      slot.net = &plugin.net;
      slot.table.store(&kernels, std::memory_order_release);
      return true;
    }
  } catch (const Error& e) {
    if (!slot.only_kernel)
      report::log_line(report::LogLevel::warning, "backend",
                       message("{}; the host's own kernels are used", e.what()));
  }
  slot.unusable = true;
  return false;
}

// What the plugin has to say of the arguments is the op's own error, where it has the only kernel.
[[noreturn]] void fail_for(const KernelSlot& slot, tn_status* status) {
  int32_t code = status->code;
  if (slot.only_kernel && (code == TN_INVALID_ARGUMENT || code == TN_UNIMPLEMENTED)) {
    std::string text = status->text;
    free_status(status);
    throw UserError(
        code == TN_INVALID_ARGUMENT ? ErrorCode::invalid_argument : ErrorCode::unsupported, text);
  }
  throw_of_call(status, message("kernel {} of {}", slot.op, slot.plugin->manifest.name));
}

// Compiled code relies on what the op promises, so a kernel that gives something else is stopped
// where its name is known.
void check_results(const KernelSlot& slot, const CallArgs& call) {
  std::optional<std::string> problem = foreign_result_problem(call);
  if (!problem) return;
  drop_results(call);
  throw BackendError(ErrorCode::backend_call_failed, TN_INTERNAL,
                     message("{}: {}; this is a bug of the plugin {}, whose kernel ran",
                             call.op->name, *problem, slot.plugin->manifest.name));
}

/// The slots that run on this thread, innermost first: a kernel that asks for its own op gets the
/// next row.
class RunningSlot {
 public:
  explicit RunningSlot(const KernelSlot& slot) : slot_(slot), outer_(innermost_) {
    innermost_ = this;
  }
  ~RunningSlot() { innermost_ = outer_; }
  RunningSlot(const RunningSlot&) = delete;

  static bool has(const KernelSlot& slot) {
    for (const RunningSlot* r = innermost_; r; r = r->outer_)
      if (&r->slot_ == &slot) return true;
    return false;
  }

 private:
  static inline constinit thread_local const RunningSlot* innermost_ = nullptr;
  const KernelSlot& slot_;
  const RunningSlot* outer_;
};

// The current stream of the device that the call's tensors are on.
tn_stream* stream_of(const CallArgs& call) {
  for (uint32_t i = 0; i < call.n_args; ++i) {
    const Value& arg = call.args[i];
    uint32_t n = arg.tag == Tag::tensor ? 1 : arg.tag == Tag::tensors ? arg.count : 0;
    for (uint32_t k = 0; k < n; ++k)
      if (const Tensor& t = arg.as<Tensor>()[k]; t.defined() && t.device() != kCPU)
        return current_stream(t.device());
  }
  return nullptr;
}

bool run_kernel(void* self, const CallArgs& call) {
  auto& slot = *static_cast<KernelSlot*>(self);
  if (RunningSlot::has(slot)) return false;
  RunningSlot running(slot);
  constexpr size_t most_results = 8;
  if (call.n_results > most_results || is_gate_closed() || !prepare(slot) || slot.net->is_faulty())
    return false;
  const tn_kernels* kernels = slot.table.load(std::memory_order_acquire);
  tn_stream* stream = slot.device == DeviceType::cpu ? nullptr : stream_of(call);
  AbiArguments args(call.args, call.n_args);
  tn_tensor* out[most_results] = {};
  tn_status* status = call_plugin(*slot.net, slot.function, [&] {
    return kernels->run(kernels->self, slot.op_index, args.args(), args.size(), args.values(),
                        stream, out, call.n_results);
  });
  if (status && (status->code == TN_DECLINED || is_gate_closed())) {
    free_status(status);
    return false;
  }
  if (status) fail_for(slot, status);
  if (is_counting_held()) [[unlikely]]
    slot.net->life().add_held(
        Held::tensor, -std::count_if(out, out + call.n_results, [](const auto* t) { return t; }));
  for (uint32_t i = 0; i < call.n_results; ++i) call.results[i] = Value::own(take_tensor(out[i]));
  check_results(slot, call);
  return true;
}

}  // namespace

std::vector<std::string> kernel_plugins(const std::string& op) {
  std::vector<std::string> out;
  PluginCatalog& plugins = plugin_catalog();
  plugins.list();
  for (const PluginCatalog::KernelsChoice& choice : plugins.kernels_for("cpu")) {
    const std::vector<std::string>& ops = choice.plugin->manifest.kernels[choice.index].ops;
    if (std::find(ops.begin(), ops.end(), op) != ops.end())
      out.push_back(choice.plugin->manifest.name);
  }
  return out;
}

// Nobody names the plugins of kernels, so nobody else would tell why one of them is not used.
static void warn_of_unusable(const std::vector<FoundPluginPtr>& plugins) {
  for (const FoundPluginPtr& p : plugins) {
    bool held_back = p->state == PluginState::refused || p->state == PluginState::quarantined;
    std::string why = to_text(p->diagnosis);
    if (held_back && !p->manifest.kernels.empty())
      report::warn_once(why, "backend", why + "; the host's own kernels are used");
  }
}

namespace {

using FoundKernels = std::vector<std::pair<OpId, ForeignKernel>>;

std::set<DeviceType> devices_with_kernels(PluginCatalog& plugins) {
  std::set<DeviceType> out;
  for (const FoundPluginPtr& plugin : plugins.list())
    for (const KernelsManifest& row : plugin->manifest.kernels)
      if (std::optional<Device> device = parse_device(row.device)) out.insert(device->type);
  return out;
}

void find_kernels(PluginCatalog& plugins, DeviceType device, FoundKernels& out) {
  std::set<std::pair<std::string, std::string>> installed;  // plugin, op
  for (const PluginCatalog::KernelsChoice& choice : plugins.kernels_for(type_name(device))) {
    const KernelsManifest& row = choice.plugin->manifest.kernels[choice.index];
    for (const std::string& name : row.ops) {
      const OpEntry* op = find_op(name);
      if (!op || !installed.emplace(choice.plugin->path, name).second) continue;
      bool only = op->def->provider != nullptr && device == DeviceType::cpu;
      auto* slot =
          new KernelSlot{choice.plugin, device, choice.index, name, "kernel " + name, only};
      out.push_back({op->id, {&run_kernel, slot, static_cast<int32_t>(row.priority), device}});
    }
  }
}

}  // namespace

void install_plugin_kernels() {
  static Once installed;
  installed.run([] {
    PluginCatalog& plugins = plugin_catalog();
    warn_of_unusable(plugins.list());
    FoundKernels found;
    for (DeviceType device : devices_with_kernels(plugins)) find_kernels(plugins, device, found);
    // Last: an error on the way here must leave none attached, since all are attached again.
    for (const auto& [op, kernel] : found) add_foreign_kernel(op, kernel);
  });
}

namespace {

// Manifests that cannot be read must not stop an eager program: it runs on the host's kernels.
void attach_kernels() {
  try {
    install_plugin_kernels();
  } catch (const Error& e) {
    report::log_line(report::LogLevel::warning, "backend", e.what());
  }
}

// Why no plugin runs an op whose kernel is a plugin's: not there, not usable, or not willing.
std::string why_not_run(const OpEntry& op) {
  const std::string name = op.def->provider;
  if (is_gate_closed())
    return message(
        "{} needs the plugin {} for its kernel, and plugins are closed since "
        "tenon::shutdown(); call it earlier",
        op.name, name);
  FoundPluginPtr plugin = plugin_catalog().find_plugin(name);
  if (!plugin)
    return message(
        "{} needs the plugin {} for its kernel, and no folder of plugins has it; install "
        "it, or name its folder in TENON_PLUGIN_PATH (`tenon plugin list` shows what is "
        "found)",
        op.name, name);
  std::string why = to_text(plugin->diagnosis);
  try {
    if (why.empty()) load_plugin(plugin_catalog(), plugin);
  } catch (const Error& e) {
    why = e.what();
  }
  if (why.empty())
    return message(
        "{}: its kernel in the plugin {} declined the call; `tenon plugin info {}` shows "
        "what it takes",
        op.name, name, name);
  return message("{} needs the plugin {} for its kernel, which cannot be used: {}", op.name, name,
                 why);
}

// Another thread's first call may still be attaching kernels: they are waited for, and asked again.
void run_provided_op(const CallArgs& call) {
  install_plugin_kernels();
  for (const ForeignKernel& kernel : call.op->foreign_kernels())
    if (kernel.device == DeviceType::cpu && kernel.run(kernel.self, call)) return;
  throw BackendError(ErrorCode::plugin, TN_NOT_FOUND, why_not_run(*call.op));
}

const struct FillSlots {
  FillSlots() {
    first_call_slot = &attach_kernels;
    provider_slot = &run_provided_op;
  }
} fill_slots;

}  // namespace

}  // namespace tenon
