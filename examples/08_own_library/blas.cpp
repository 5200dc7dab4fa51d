// A backend that wraps a library: linear layers through CBLAS.
//
// What such a plugin has to get right is here, each where it happens: which nodes are taken and why
// others are not (`judge`), sizes that are known at the call only, weights that are packed once,
// options, a library with rules of its own about threads, and artifacts that are saved and loaded.
#include "packed.h"

#include <blas_options.h>
#include <cblas.h>

#include <cstring>
#include <map>
#include <utility>

using namespace tenon::plugin;

namespace {

// ---- which nodes

// Dense and row-major, for every size that the graph admits.
bool is_dense(const value& v) {
  return v.is_tensor() && v.dtype == TN_F32 && v.memory_format == TN_FORMAT_CONTIGUOUS;
}

// Hash-consed: equal ids are equal expressions.
bool is_same(const tn_dim& a, const tn_dim& b) {
  return a.expr == b.expr && (a.expr != TN_EXPR_STATIC || a.value == b.value);
}

/// Why a node is not taken; empty: it is.
std::string reason_against(const graph& g, const node& n) {
  bool linear = n.op == op("aten.linear.default"), relu = n.op == op("aten.relu.default");
  if (!linear && !relu) return "only linear and relu are taken";
  if (!is_dense(g.value_at(n.first_result))) return "its result is not dense f32";
  for (const tn_arg& a : n.arguments()) {
    if (a.kind == TN_ARG_NONE) continue;  // no bias
    value operand = g.value_at(a.u.value);
    if (!is_dense(operand)) return text("operand {} is not dense f32", sv(operand.name));
    if (operand.source == TN_SRC_CONSTANT) return "an operand is a constant";
  }
  if (relu) return {};
  value weight = g.value_at(n.args[1].u.value);
  if (weight.ndim != 2) return "its weight is not a matrix";
  if (n.args[2].kind == TN_ARG_NONE) return {};
  value bias = g.value_at(n.args[2].u.value);
  bool fits = bias.ndim == 1 && is_same(bias.dims()[0], weight.dims()[0]);
  return fits ? "" : "its bias is broadcast";
}

// ---- a compiled graph

/// Tensors of a call are numbered: its inputs first, then the result of each step.
struct Step {
  enum Kind : uint32_t { linear, relu };
  uint32_t kind, x, w, bias;  // TN_NO_VALUE: no bias
  bool operator==(const Step&) const = default;
};

/// All that a graph becomes; these words are also what is saved.
struct Plan {
  uint32_t n_inputs = 0;
  std::vector<Step> steps;
  std::vector<uint32_t> outputs;
  std::vector<uint32_t> parameters;  // inputs that keep their contents between calls
  bool operator==(const Plan&) const = default;
};

class Planner {
 public:
  explicit Planner(const tn_compile_request& request) : graph_(request) {}

  Plan plan() {
    for (uint32_t id : graph_.inputs()) {
      value v = graph_.value_at(id);
      if (v.is_tensor() && (v.flags & TN_V_PARAMETER)) plan_.parameters.push_back(plan_.n_inputs);
      at_[id] = plan_.n_inputs++;
    }
    for (uint32_t i = 0; i < graph_.size(); ++i) add(i);
    for (uint32_t id : graph_.outputs()) {
      if (id == TN_NO_VALUE || at_.at(id) < plan_.n_inputs)
        throw declined("an output is not computed here");
      plan_.outputs.push_back(at_.at(id));
    }
    return std::move(plan_);
  }

 private:
  void add(uint32_t i) {
    node n = graph_.at(i);
    std::string why = reason_against(graph_, n);
    if (!why.empty()) throw declined(text("{}: {}", sv(n.op_name), why));
    Step s{Step::relu, place(n.args[0]), TN_NO_VALUE, TN_NO_VALUE};
    if (n.op == op("aten.linear.default"))
      s = {Step::linear, place(n.args[0]), place(n.args[1]), place(n.args[2])};
    plan_.steps.push_back(s);
    at_[n.first_result] = plan_.n_inputs + uint32_t(plan_.steps.size()) - 1;
  }
  uint32_t place(const tn_arg& a) const {
    return a.kind == TN_ARG_NONE ? TN_NO_VALUE : at_.at(a.u.value);
  }

  graph graph_;
  Plan plan_;
  std::map<uint32_t, uint32_t> at_;  // by value
};

// ---- running

// The serial build of OpenBLAS has no locks of its own: one thread at a time.
std::mutex library;

// CBLAS counts in int.
int counted(int64_t n) {
  if (!std::in_range<int>(n))
    throw error(TN_OUT_OF_RANGE, text("CBLAS takes sizes below 2^31, not {}; split the batch?", n));
  return int(n);
}

class Program {
 public:
  Program(Plan plan, bool packs) : plan_(std::move(plan)), packs_(packs) {}

  // Sizes come with the tensors of the call: nothing here depends on those of the traced graph.
  void call(tn_call& c) {
    std::vector<tensor> made;
    std::vector<const tn_tensor*> at(c.inputs, c.inputs + c.n_inputs);
    for (const Step& s : plan_.steps) {
      made.push_back(s.kind == Step::linear ? linear(s, at) : relu(at[s.x]));
      at.push_back(made.back().get());
    }
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      c.outputs[i] = tensor::share(made[plan_.outputs[i] - plan_.n_inputs].get()).release();
  }

  std::string serialize() const;

 private:
  bool is_parameter(uint32_t place) const {
    return std::ranges::find(plan_.parameters, place) != plan_.parameters.end();
  }

  tensor linear(const Step& s, const std::vector<const tn_tensor*>& at) {
    const tn_tensor *x = at[s.x], *w = at[s.w];
    int64_t out = w->sizes[0], in = w->sizes[1];
    std::vector<int64_t> dims(x->sizes, x->sizes + x->ndim);
    dims.back() = out;
    tensor result = tensor::empty(dims, TN_F32);
    auto* y = result.data<float>();
    int64_t rows = out ? result->numel / out : 0;
    int m = counted(rows), n = counted(out), k = counted(in);
    fill_with_bias(y, rows, out, s.bias == TN_NO_VALUE ? nullptr : at[s.bias]);
    if (m == 0 || n == 0 || k == 0) return result;

    // y += x * w^T, from the packed copy or from the weight itself.
    bool packed = packs_ && is_parameter(s.w);
    auto copy = packed ? weights_.of(s.w, w) : nullptr;
    const float* b = copy ? copy->data() : static_cast<const float*>(w->data);
    std::lock_guard one(library);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, copy ? CblasNoTrans : CblasTrans, m, n, k, 1,
                static_cast<const float*>(x->data), k, b, copy ? n : k, 1, y, n);
    return result;
  }

  static void fill_with_bias(float* y, int64_t rows, int64_t out, const tn_tensor* bias) {
    for (int64_t r = 0; r < rows; ++r)
      if (bias)
        std::copy_n(static_cast<const float*>(bias->data), out, y + r * out);
      else
        std::fill_n(y + r * out, out, 0.0f);
  }

  static tensor relu(const tn_tensor* x) {
    tensor result = tensor::empty(sizes(x), TN_F32);
    const auto* from = static_cast<const float*>(x->data);
    auto* to = result.data<float>();
    // Not max(x, 0), which would lose NaN.
    for (int64_t i = 0; i < x->numel; ++i) to[i] = from[i] < 0 ? 0 : from[i];
    return result;
  }

  Plan plan_;
  bool packs_;
  blas::PackedWeights weights_;
};

// ---- saving

using Words = std::vector<uint32_t>;
constexpr uint32_t magic = 0x626c6173, format = 1;

void append(Words& words, const Words& list) {
  words.push_back(uint32_t(list.size()));
  words.insert(words.end(), list.begin(), list.end());
}

uint32_t checksum(std::span<const uint32_t> words) {
  uint32_t sum = 2166136261u;
  for (uint32_t w : words)
    for (int byte = 0; byte < 4; ++byte) sum = (sum ^ (w >> 8 * byte & 0xFF)) * 16777619u;
  return sum;
}

// Inputs are identified by their position: that is the same when the bytes are loaded, ids of
// values need not be. The weights are inputs, so no byte of them is here.
std::string Program::serialize() const {
  Words words{magic, format, packs_, plan_.n_inputs}, steps;
  for (const Step& s : plan_.steps) steps.insert(steps.end(), {s.kind, s.x, s.w, s.bias});
  append(words, steps);
  append(words, plan_.outputs);
  append(words, plan_.parameters);
  words.push_back(checksum(words));
  return std::string(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint32_t));
}

/// Takes words off saved bytes, none of which is believed.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : words_(bytes.size() / sizeof(uint32_t)) {
    if (bytes.empty() || bytes.size() % sizeof(uint32_t)) damaged();
    std::memcpy(words_.data(), bytes.data(), bytes.size());
    if (words_.back() != checksum(std::span(words_).first(words_.size() - 1))) damaged();
    words_.pop_back();
  }
  uint32_t next() {
    if (at_ >= words_.size()) damaged();
    return words_[at_++];
  }
  Words list() {
    uint32_t n = next();
    if (n > words_.size() - at_) damaged();
    auto begin = words_.begin() + int64_t(at_);
    at_ += n;
    return Words(begin, begin + n);
  }
  [[noreturn]] static void damaged() { throw error(TN_DATA_LOSS, "the saved bytes are damaged"); }

 private:
  Words words_;
  size_t at_ = 0;
};

// A sound plan of another graph would read out of bounds here: a vector as the weight, say. Where
// planning takes as little time as it does here, the graph itself tells what the plan must be.
std::unique_ptr<Program> program_from(std::string_view bytes, const Plan& expected) {
  Reader reader(bytes);
  if (reader.next() != magic || reader.next() != format) Reader::damaged();
  bool packs = reader.next() != 0;
  Plan plan;
  plan.n_inputs = reader.next();
  Words steps = reader.list();
  for (size_t i = 0; i + 3 < steps.size(); i += 4)
    plan.steps.push_back({steps[i], steps[i + 1], steps[i + 2], steps[i + 3]});
  plan.outputs = reader.list();
  plan.parameters = reader.list();
  if (plan != expected) Reader::damaged();
  return std::make_unique<Program>(std::move(plan), packs);
}

// ---- the backend

struct Blas : Backend {
  void judge(const tn_compile_request& request, verdicts v) {
    graph g(request);
    bool alone = blas_options::read(request).relu == blas_options::relu_choice::alone;
    for (uint32_t i = 0; i < g.size(); ++i) {
      node n = g.at(i);
      std::string why = reason_against(g, n);
      if (!why.empty())
        v.leave(i, why);
      else
        v.take(i,
               n.op == op("aten.linear.default") || alone ? TN_SUPPORTED : TN_SUPPORTED_IF_FUSED);
    }
  }
  std::unique_ptr<Program> compile(const tn_compile_request& request) {
    if (graph(request).size() == 0) throw declined("nothing to compute");
    return std::make_unique<Program>(Planner(request).plan(), blas_options::read(request).pack);
  }
  std::unique_ptr<Program> load(const tn_compile_request& request, std::string_view bytes) {
    return program_from(bytes, Planner(request).plan());
  }
  std::string fingerprint() { return "blas plan 1"; }
};

}  // namespace

TENON_PLUGIN_BACKENDS((Blas, "blas"))
