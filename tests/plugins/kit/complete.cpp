// A backend that offers all that a backend may offer and keeps the rules, so that no check of the
// conformance kit is without something to look at. It runs nodes by the host's kernels.
#include <tenon/plugin.hpp>

#include <cstring>

using namespace tenon::plugin;

namespace {

/// Memory of the host, given back at the end of its scope.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : bytes_(bytes), block_(host->svc->alloc(bytes, 64)) {
    if (!block_) throw std::bad_alloc();
  }
  ~Scratch() { host->svc->free(block_, bytes_, 64); }
  Scratch(const Scratch&) = delete;
  tn_tensor** values() const { return static_cast<tn_tensor**>(block_); }

 private:
  size_t bytes_;
  void* block_;
};

uint64_t checksum(std::string_view bytes) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (unsigned char c : bytes) sum = (sum ^ c) * 0x100000001b3u;
  return sum;
}

/// What is stored of an artifact: the graph's hash, since the graph comes with the request.
std::string stored_form(const tn_graph* graph) {
  std::string bytes("complete", 8);
  uint8_t digest[32];
  check(host->graph->hash(graph, digest));
  bytes.append(reinterpret_cast<const char*>(digest), sizeof digest);
  uint64_t sum = checksum(bytes);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return bytes;
}

struct Program {
  static constexpr uint32_t flags = TN_AF_STEALS_INPUTS;
  std::vector<owned_node> nodes;
  std::vector<std::pair<uint32_t, tensor>> constants;
  std::vector<uint32_t> inputs, outputs;
  std::vector<std::vector<uint32_t>> last_uses;  // by node
  uint32_t n_values = 0;
  std::string stored;
  bool from_cache = false;
  int64_t threads = 0;  ///< of the host, as a program that divides its work would ask for

  /// The tensors of one call; owns what was computed, and inputs that were stolen.
  struct Frame {
    Scratch memory;
    std::vector<tensor> owned;
    tn_tensor** values;
    explicit Frame(uint32_t n)
        : memory(n * sizeof(tn_tensor*) + 1), owned(n), values(memory.values()) {
      std::fill_n(values, n, nullptr);
    }
    void own(uint32_t id) { owned[id] = tensor(values[id]); }
    void release(uint32_t id) { owned[id] = tensor(); }
  };

  void take_inputs(tn_call& c, Frame& frame) const {
    for (size_t i = 0; i < inputs.size(); ++i) {
      frame.values[inputs[i]] = c.inputs[i];
      if (!(c.flags & TN_CALL_STEAL_INPUTS)) continue;
      frame.own(inputs[i]);
      c.inputs[i] = nullptr;
    }
  }
  void call(tn_call& c) {
    Frame frame(n_values);
    for (const auto& [id, constant] : constants) frame.values[id] = constant.get();
    take_inputs(c, frame);
    for (size_t i = 0; i < nodes.size(); ++i) {
      const owned_node& n = nodes[i];
      run_op(n.op, n.args(), frame.values, {&frame.values[n.first_result], n.n_results}, c.stream);
      for (uint32_t r = 0; r < n.n_results; ++r) frame.own(n.first_result + r);
      for (uint32_t id : last_uses[i]) frame.release(id);
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] != TN_NO_VALUE)
        c.outputs[i] = tensor::share(frame.values[outputs[i]]).release();
  }

  std::string serialize() { return stored; }
  std::string describe(int32_t what) {
    if (what != TN_DESC_STATS_JSON) return what == TN_DESC_SOURCE ? "runs nodes" : "";
    return text(
        "{\"kernels\": 0, \"extern_calls\": {}, \"extern_ops\": [], \"fused_nodes\": 0, "
        "\"planned_bytes\": 0, \"naive_bytes\": 0, \"compile_ms\": 0, \"codegen_ms\": 0, "
        "\"from_cache\": {}}",
        nodes.size(), from_cache ? "true" : "false");
  }
  void set_constants(std::span<const uint32_t> ids, std::span<tn_tensor* const> tensors) {
    for (size_t i = 0; i < ids.size(); ++i)
      for (auto& [id, constant] : constants)
        if (id == ids[i]) constant = tensor::share(tensors[i]);
  }
};

void find_last_uses(const graph& g, Program& p) {
  std::vector<uint32_t> last(p.n_values, TN_NO_VALUE);
  auto use = [&](uint32_t id, uint32_t at) {
    if (id != TN_NO_VALUE) last[id] = at;
  };
  for (uint32_t i = 0; i < g.size(); ++i) {
    node n = g.at(i);
    for (uint32_t r = 0; r < n.n_results; ++r) use(n.first_result + r, i);
    for (const tn_arg& a : n.arguments()) {
      if (a.kind == TN_ARG_VALUE) use(a.u.value, i);
      for (uint32_t k = 0; a.kind == TN_ARG_VALUES && k < a.count; ++k) use(a.u.values[k], i);
    }
  }
  for (uint32_t id : p.outputs) use(id, TN_NO_VALUE);
  p.last_uses.resize(g.size());
  for (uint32_t id = 0; id < p.n_values; ++id)
    if (last[id] != TN_NO_VALUE) p.last_uses[last[id]].push_back(id);
}

void expect_known(const graph& g, uint32_t i) {
  for (const tn_arg& a : g.at(i).arguments())
    if (a.kind > TN_ARG_OPAQUE) throw declined("an argument of unknown kind");
}

/// Notes of an earlier compile; damaged ones are none.
bool has_notes(const tn_compile_request& request) {
  std::string key(sv(request.cache_key));
  auto notes = cache_get(request.ctx, key);
  bool good = notes && *notes == "seen " + key;
  if (!good) cache_put(request.ctx, key, "seen " + key);
  return good;
}

struct Complete : Backend {
  std::unique_ptr<Program> compile(const tn_compile_request& request) {
    graph g(request);
    if (!g.symbols().empty()) throw declined("symbolic sizes");
    auto p = std::make_unique<Program>();
    p->n_values = g.values();
    for (uint32_t i = 0; i < g.size(); ++i) {
      progress(request.ctx, double(i) / g.size(), "nodes");
      expect_known(g, i);
      p->nodes.emplace_back(g.at(i));
    }
    for (uint32_t i = 0; i < g.values(); ++i) {
      value v = g.value_at(i);
      if (v.kind > TN_VAL_NONE) throw declined("a value of unknown kind");
      if (v.source == TN_SRC_CONSTANT) p->constants.emplace_back(i, g.constant(i));
    }
    p->inputs.assign(g.inputs().begin(), g.inputs().end());
    p->outputs.assign(g.outputs().begin(), g.outputs().end());
    find_last_uses(g, *p);
    p->stored = stored_form(request.graph);
    p->from_cache = has_notes(request);
    options given(request);
    p->threads = given.config<int64_t>("compiler.threads");
    if (given.get<int64_t>("level") < 0) throw error(TN_INVALID_ARGUMENT, "level is negative");
    return p;
  }
  std::unique_ptr<Program> load(const tn_compile_request& request, std::string_view bytes) {
    if (bytes != stored_form(request.graph))
      throw error(TN_DATA_LOSS, "the bytes are damaged, or of another graph");
    return compile(request);
  }
  void supports(const tn_compile_request&, std::span<uint8_t> verdicts) {
    std::ranges::fill(verdicts, uint8_t{TN_SUPPORTED});
  }
  std::string fingerprint() { return "complete 1"; }
  void reset() {}
};

}  // namespace

TENON_PLUGIN_BACKENDS((Complete, "complete"))
