// Eager ops on devices: each call is a graph of one op, compiled by the backend that serves the
// stage single_op for the device, and kept.
//
// Problem: a device has no kernels of its own for the op table. Model: its code generator makes
// them, one op at a time, with sizes, strides and floating numbers open. Method: the call's key
// finds the code (key.h); at a miss the arguments are checked on fakes, the call is
// recorded, and compiled. What the backend declines is remembered by op and dtypes, and the caller
// goes another way. Cost of a call that finds its code: some 0.5 us over the backend's own.
#include "backend/backend.h"
#include "backend/catalog.h"
#include "backend/compile/call_backend.h"
#include "backend/life/lifetime.h"
#include "backend/single_op/cache.h"
#include "core/arguments.h"
#include "core/device/device_memory.h"
#include "core/device/provider.h"
#include "core/sym/shape_env.h"
#include "ops/device_call.h"
#include "report/events.h"

#include <tenon/plugin.h>

#include <algorithm>
#include <map>

namespace tenon {

namespace {

constexpr size_t most_kept = 4096;
constexpr size_t most_outputs = 16;

/// All that is known of eager ops on devices; leaked.
struct Known {
  SingleOpCache code{most_kept};
  DeclinedOps declined;
  std::mutex choosing;  // guards backends
  std::map<DeviceType, std::optional<BackendChoice>> backends;
};

Known& known() {
  static auto* const instance = new Known;
  return *instance;
}

std::optional<BackendChoice> find_server(const std::string& device) {
  for (const FoundPluginPtr& plugin : plugin_catalog().list())
    for (size_t i = 0; plugin->usable && i < plugin->manifest.backends.size(); ++i) {
      const BackendManifest& b = plugin->manifest.backends[i];
      bool serves = std::ranges::find(b.stages, "single_op") != b.stages.end();
      if (serves && b.serves(device)) return BackendChoice{plugin, i};
    }
  return std::nullopt;
}

// Looked for once a type, since most machines have none.
std::optional<BackendChoice> server_of(DeviceType type) {
  std::lock_guard lock(known().choosing);
  auto [at, is_new] = known().backends.try_emplace(type);
  if (is_new) at->second = find_server(type_name(type));
  return at->second;
}

/// The call with all its tensors on the device: numbers and indices may come from the CPU.
class OnDevice {
 public:
  OnDevice(const CallArgs& call, Device device) : call_(call) {
    if (!has_host_tensor(call)) return;
    args_.assign(call.args, call.args + call.n_args);
    map_arguments(
        args_, lists_, [&](const Tensor& t) { return brought(t, device); }, keep_numbers);
    call_.args = args_.data();
  }
  const CallArgs& call() const { return call_; }

 private:
  static bool has_host_tensor(const CallArgs& call) {
    for (uint32_t i = 0; i < call.n_args; ++i) {
      const Value& arg = call.args[i];
      uint32_t n = arg.tag == Tag::tensor ? 1 : arg.tag == Tag::tensors ? arg.count : 0;
      for (uint32_t k = 0; k < n; ++k)
        if (const Tensor& t = arg.as<Tensor>()[k]; t.defined() && t.device() == kCPU) return true;
    }
    return false;
  }
  static Tensor brought(const Tensor& t, Device device) {
    if (t.device() != kCPU) return t;
    TensorMeta meta = meta_of(t);
    meta.device = device;
    Tensor there = make_tensor(meta);
    copy_across(there, t);
    if (is_wrapped_number(t)) impl_of(there)->ensure_extra().wrapped_number = true;
    return there;
  }

  CallArgs call_;
  std::vector<Value> args_;
  ArgumentLists lists_;
};

// Wrong arguments are told of in the words of the op.
void check_on_fakes(const CallArgs& call) {
  std::vector<Value> results(call.n_results);
  run_meta({call.op, call.args, results.data(), call.n_args, call.n_results});
  for (Value& result : results) drop(result);
}

std::vector<const Expr*> conditions_of(const Graph& graph, const Artifact& code) {
  std::vector<const Expr*> out;
  for (const RecordedGuard& guard : graph.shape_env->guard_conditions())
    out.push_back(guard.condition);
  out.insert(out.end(), code.guards.begin(), code.guards.end());
  return out;
}

SymProgram program_of(const Graph& graph, const Artifact& code) {
  std::vector<const Expr*> symbols;
  for (const SymbolBinding& b : graph.symbols) symbols.push_back(b.symbol);
  return SymProgram::compile(symbols, conditions_of(graph, code));
}

CompileRequest request_for(const SingleOpGraph& made, ResultPlace place) {
  static std::atomic<uint64_t> number{0};
  CompileRequest request;
  request.graph = made.graph;
  request.stage = Stage::single_op;
  request.dynamic = true;
  request.deterministic = thread_modes.deterministic;
  request.compile_id = message("single_op/{}", number.fetch_add(1, std::memory_order_relaxed));
  if (place.kind == ResultPlace::Kind::self) request.aliased_outputs = {0};
  return request;
}

/// One attempt to run a call; the reason where it cannot be.
class SingleOpRun {
 public:
  SingleOpRun(const CallArgs& call, Device device, ResultPlace place)
      : call_(call), device_(device), place_(place) {}

  bool run() {
    if (run_as(NumberForm::symbols)) return true;
    return by_value_ && run_as(NumberForm::values);
  }

 private:
  bool run_as(NumberForm form) {
    ReadCall read(call_, device_, place_, form);
    if (!read.is_plain() || (fills() && read.operands().empty())) return false;
    InlineVector<int64_t, 32> numbers = read.numbers();
    std::span<const int64_t> words(numbers.begin(), numbers.size());
    SingleOpPtr op = known().code.find(read.key(), words);
    if (!op) op = made(read);
    if (!op) return false;
    if (op->by_value) return by_value_ = true, false;
    execute(*op, read, words);
    return true;
  }

  SingleOpPtr made(const ReadCall& read) {
    if (!known().declined.find(call_, device_, place_.kind).empty()) return nullptr;
    std::optional<BackendChoice> server = server_of(device_.type);
    if (!server) return nullptr;
    SingleOpPtr op;
    try {
      check_on_fakes(call_);
      op = compiled(read, *server);
    } catch (const BackendError& e) {
      if (e.status() != TN_DECLINED) throw;
      op = declined(read, e.what());
    } catch (const UserError& e) {
      if (e.code() != ErrorCode::data_dependent) throw;
      op = declined(read, "values decide the sizes of its results");
    }
    if (op) known().code.add(read.key(), op);
    return op;
  }

  SingleOpPtr compiled(const ReadCall& read, const BackendChoice& server) {
    static report::Counter& compiles = report::counter("device.single_op_compiles");
    SingleOpGraph made = make_single_op_graph(call_, read, place_.kind);
    if (!made.why_not.empty()) return declined(read, made.why_not);
    compiles.add(1);
    // The caller may be in the middle of a recording, with symbols of its own.
    ShapeEnvScope sizes(*made.graph->shape_env);
    auto op = std::make_shared<SingleOp>();
    op->code = compile_single_op(server, request_for(made, place_));
    if (fills() && !op->code->fills_given_outputs())
      return declined(read, "its code does not write into what it is given");
    op->n_outputs = made.graph->outputs().size();
    if (op->n_outputs > most_outputs) return declined(read, "it has too many results");
    op->conditions = program_of(*made.graph, *op->code);
    op->results = std::move(made.results);
    return op;
  }

  // With numbers among the arguments the next attempt has them in the graph.
  SingleOpPtr declined(const ReadCall& read, const std::string& why) {
    if (read.has_numbers()) {
      auto note = std::make_shared<SingleOp>();
      note->by_value = true;
      return note;
    }
    known().declined.add(call_, device_, place_.kind, why);
    return nullptr;
  }

  void execute(const SingleOp& op, const ReadCall& read, std::span<const int64_t> numbers) {
    InlineVector<detail::TensorHead*, 8> inputs;
    for (const Operand& o : read.operands())
      inputs.push_back(const_cast<detail::TensorHead*>(o.tensor->head()));
    for (size_t i = 0; i < read.number_args().size(); ++i) inputs.push_back(nullptr);
    Tensor outputs[most_outputs];
    std::span<Tensor> results(outputs, op.n_outputs);
    std::span<detail::TensorHead*> heads(inputs.begin(), inputs.size());
    if (fills()) {
      outputs[0] = place_.out ? *place_.out : *read.operands()[0].tensor;
      return op.code->fill(heads, numbers, results);
    }
    op.code->call(heads, numbers, results);
    give(op, outputs);
  }

  void give(const SingleOp& op, Tensor* outputs) {
    for (size_t r = 0; r < op.results.size(); ++r) {
      const ResultShape& shape = op.results[r];
      if (shape.kind == ResultShape::Kind::tensor) {
        call_.results[r] = Value::own(std::move(*outputs++));
      } else if (shape.kind == ResultShape::Kind::list) {
        std::vector<Tensor> list(outputs, outputs + shape.count);
        outputs += shape.count;
        call_.results[r] = Value::own(std::move(list));
      }
    }
  }

  bool fills() const { return place_.kind != ResultPlace::Kind::made; }

  const CallArgs& call_;
  Device device_;
  ResultPlace place_;
  bool by_value_ = false;
};

bool run_single_op(const CallArgs& call, Device device, ResultPlace place) {
  if (is_gate_closed() || (call.op->tags & TN_TAG_DATA_DEPENDENT)) return false;
  OnDevice there(call, device);
  return SingleOpRun(there.call(), device, place).run();
}

std::string why_not_run(const CallArgs& call, Device device) {
  std::string type = type_name(device.type);
  std::optional<BackendChoice> server = server_of(device.type);
  if (!server)
    return message("no installed plugin compiles single ops for {} (stages = [\"single_op\"])",
                   type);
  std::string why = known().declined.find(call, device, ResultPlace::Kind::made);
  const std::string& plugin = server->plugin->manifest.name;
  if (!why.empty()) return message("the plugin {} declined it: {}", plugin, why);
  return message("it is none that the plugin {} could be asked for", plugin);
}

void forget() {
  known().code.clear();
  known().declined.clear();
  std::lock_guard lock(known().choosing);
  known().backends.clear();
}

const struct FillSlots {
  FillSlots() {
    single_op_slot = &run_single_op;
    why_no_single_op_slot = &why_not_run;
  }
} fill_slots;

}  // namespace

void forget_single_ops() { forget(); }

}  // namespace tenon
