// A backend that supports what its options say, and checks all that it is given: what a request
// says of inputs and outputs must be true of each call. The graphs run in the host's interpreter.
#include "log.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>

using namespace tenon::plugin;

namespace {

std::mutex log_mutex;
std::string graphs;
std::atomic<int64_t> n_compiles, n_calls;

bool contains(const std::vector<std::string_view>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

void expect(bool holds, std::string_view what, uint64_t index) {
  if (!holds) throw error(TN_INTERNAL, text("the host broke its word: {} {}", what, index));
}

struct Checked {
  static constexpr uint32_t flags = TN_AF_STEALS_INPUTS;

  explicit Checked(const tn_compile_request& rq)
      : inner(interpret(rq.ctx, rq.graph)),
        mutated(rq.n_inputs),
        aliased(rq.aliased_outputs, rq.aliased_outputs + rq.n_outputs) {
    graph g(rq);
    expect(g.inputs().size() == rq.n_inputs, "inputs", rq.n_inputs);
    expect(g.outputs().size() == rq.n_outputs, "outputs", rq.n_outputs);
    n_symbols = g.symbols().size();
    for (uint32_t i = 0; i < rq.n_inputs; ++i) {
      value v = g.value_at(g.inputs()[i]);
      is_number.push_back(v.kind != TN_VAL_TENSOR);
      expect(is_number[i] == !rq.example_inputs[i], "example of input", i);
    }
    for (uint32_t i = 0; i < rq.n_mutated; ++i) mutated[rq.mutated_inputs[i]] = true;
    for (uint32_t i = 0; i < rq.n_static; ++i)
      expect(rq.static_inputs[i] < rq.n_inputs, "static", i);
  }

  void call(tn_call& c) {
    ++n_calls;
    expect(c.n_inputs == mutated.size() && c.n_outputs == aliased.size(), "counts", c.n_inputs);
    expect(c.n_syms == n_symbols, "number of symbols", c.n_syms);
    struct Seen {
      tensor held;  // so that what it was can be looked at once the input is gone
      uint64_t version = 0;
    };
    std::vector<Seen> seen(c.n_inputs);
    for (uint32_t i = 0; i < c.n_inputs; ++i) {
      expect(is_number[i] == !c.inputs[i], "presence of input", i);
      if (c.inputs[i]) seen[i] = {tensor::share(c.inputs[i]), *c.inputs[i]->version};
    }
    inner.call(c);
    for (uint32_t i = 0; i < c.n_inputs; ++i)
      expect(!seen[i].held || mutated[i] || *seen[i].held->version == seen[i].version,
             "a write to input", i);
    for (uint32_t i = 0; i < c.n_outputs; ++i)
      if (aliased[i] != TN_NO_VALUE)
        expect(c.outputs[i]->storage_id == seen[aliased[i]].held->storage_id, "alias of output", i);
  }

  artifact inner;
  std::vector<bool> mutated, is_number;
  std::vector<uint32_t> aliased;
  size_t n_symbols = 0;
};

struct Regions : Backend {
  void supports(const tn_compile_request& rq, std::span<uint8_t> verdicts) {
    options o(rq);
    graph g(rq);
    auto ops = o.list("ops"), fused = o.list("fused");
    auto seed = o.get<int64_t>("seed");
    if (o.get<std::string_view>("fail") == "supports") throw error(TN_INTERNAL, "told to fail");
    if (o.get<std::string_view>("fail") == "declines") throw declined("told to decline");
    for (uint32_t i = 0; i < verdicts.size(); ++i) {
      std::string_view op = sv(g.at(i).op_name);
      if (seed >= 0)
        verdicts[i] = drawn(static_cast<uint64_t>(seed), i);
      else if (contains(ops, op) || contains(ops, "*"))
        verdicts[i] = TN_SUPPORTED;
      else if (contains(fused, op))
        verdicts[i] = TN_SUPPORTED_IF_FUSED;
      if (o.get<std::string_view>("fail") == "verdict") verdicts[i] = 7;
    }
  }

  std::unique_ptr<Checked> compile(const tn_compile_request& rq) {
    graph g(rq);
    auto refused = options(rq).list("decline");
    for (uint32_t i = 0; i < g.size(); ++i)
      if (contains(refused, sv(g.at(i).op_name))) throw declined("told to decline the region");
    ++n_compiles;
    std::lock_guard lock(log_mutex);
    graphs += g.dump() + "static " + std::to_string(rq.n_static) + " mutated " +
              std::to_string(rq.n_mutated) + " stage " + std::to_string(rq.stage) + " id " +
              std::string(sv(rq.compile_id)) + "\n";
    return std::make_unique<Checked>(rq);
  }

  // One half of the nodes, the other half, or both verdicts of support.
  static uint8_t drawn(uint64_t seed, uint32_t node) {
    uint64_t x = (seed * 0x9E3779B97F4A7C15u) ^ ((node + 1) * 0xD1B54A32D192ED03u);
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 32;
    return x % 5 < 2 ? TN_NOT_SUPPORTED : x % 5 < 4 ? TN_SUPPORTED : TN_SUPPORTED_IF_FUSED;
  }
};

/// Hands its graph, or the nodes that an option names, to another backend.
struct Calls : Backend {
  explicit Calls(std::string_view entry) : name(entry) {}
  artifact compile(const tn_compile_request& rq) {
    if (name == "calls_itself") return compile_with(rq.ctx, rq.graph, "calls_itself");
    if (name == "calls_ping") return compile_with(rq.ctx, rq.graph, "calls_pong");
    if (name == "calls_pong") return compile_with(rq.ctx, rq.graph, "calls_ping");
    std::string next = "deep_" + std::to_string(std::stoi(std::string(name.substr(5))) + 1);
    if (next == "deep_9") return interpret(rq.ctx, rq.graph);
    return compile_with(rq.ctx, rq.graph, next);
  }
  std::string name;
};

/// Declines all: its fallback names it in turn.
struct Declines : Backend {
  artifact compile(const tn_compile_request&) { throw declined("never takes anything"); }
};

const regions_log the_log = {[] {
                               static std::string copy;
                               std::lock_guard lock(log_mutex);
                               return (copy = graphs).c_str();
                             },
                             [] { return n_compiles.load(); }, [] { return n_calls.load(); },
                             [] {
                               std::lock_guard lock(log_mutex);
                               graphs.clear();
                               n_compiles = n_calls = 0;
                             }};

}  // namespace

TENON_PLUGIN(p) {
  for (const char* name :
       {"regions", "regions_aot", "regions_alone", "regions_pairs", "regions_nested"})
    p.backend<Regions>(name);
  for (const char* name : {"calls_itself", "calls_ping", "calls_pong"}) p.backend<Calls>(name);
  for (const char* name :
       {"deep_0", "deep_1", "deep_2", "deep_3", "deep_4", "deep_5", "deep_6", "deep_7", "deep_8"})
    p.backend<Calls>(name);
  p.backend<Declines>("falls_to_pong").backend<Declines>("falls_to_ping");
  p.extension("test.regions", 1, &the_log);
}
