// ts: a graph as a compact program: formulas fused into steps over blocks of elements, products
// and convolutions in place, a static memory plan, and what depends on parameters frozen.
#include <blocks/compile.h>
#include <blocks/text_form.h>
#include <loopir/supported.h>

#include <algorithm>

using namespace tenon::plugin;

namespace {

/// A program, saved as text.
struct Program {
  static constexpr uint32_t flags = inductor::Executable::flags;
  std::unique_ptr<inductor::Executable> steps;

  void call(tn_call& c) { steps->call(c); }
  bool fills_outputs() const { return steps->fills_outputs(); }
  std::string serialize() { return blocks::text_form(*steps); }
  std::string describe(int32_t what) { return steps->describe(what); }
};

bool are_fakes(const tn_compile_request& request) {
  for (uint32_t i = 0; i < request.n_inputs; ++i)
    if (const tn_tensor* t = request.example_inputs[i]; t && (t->flags & TN_T_FAKE)) return true;
  return request.n_inputs == 0 || !request.example_inputs;
}

/// Whether a run does more than compute results: it draws, writes inputs or calls the program's code.
bool has_effects(const tn_compile_request& request) {
  constexpr uint64_t tags =
      TN_TAG_RANDOM | TN_TAG_SIDE_EFFECT | TN_TAG_INPLACE | TN_TAG_HIGHER_ORDER;
  graph g(request);
  for (uint32_t i = 0; i < g.size(); ++i) {
    node n = g.at(i);
    auto is_opaque = [](const tn_arg& a) { return a.kind == TN_ARG_OPAQUE; };
    if (n.tags & tags || std::ranges::any_of(n.arguments(), is_opaque)) return true;
  }
  return false;
}

/// Runs the program once, so that what is frozen is made and memory is there before the first call.
void warm_up(Program& program, const tn_compile_request& request) {
  std::vector<tn_tensor*> inputs(request.example_inputs, request.example_inputs + request.n_inputs);
  std::vector<tn_tensor*> outputs(request.n_outputs);
  std::vector<int64_t> symbols;
  graph g(request);
  for (uint32_t s : g.symbols()) symbols.push_back(g.expr(s).hint);
  tn_call c{};
  c.struct_size = sizeof c;
  c.n_inputs = request.n_inputs, c.n_outputs = request.n_outputs;
  c.n_syms = static_cast<uint32_t>(symbols.size());
  c.inputs = inputs.data(), c.outputs = outputs.data(), c.syms = symbols.data();
  check(detail::call_artifact(program, c));
  for (tn_tensor* t : outputs) tensor released(t);
}

struct Ts : Backend {
  explicit Ts(std::string_view name) : is_simple_(name == "simple_ts") {}

  void supports(const tn_compile_request& request, std::span<uint8_t> verdicts) {
    loopir::support_nodes(request, false, verdicts);
  }
  std::unique_ptr<Program> compile(const tn_compile_request& request) {
    options given(request);
    blocks::Choices choices;
    choices.fuses = !is_simple_ && given.get<bool>("optimize");
    choices.freezes = given.get<bool>("freeze");
    choices.profiles = given.get<bool>("profile");
    auto out = std::make_unique<Program>(Program{blocks::compile(request, choices)});
    if (!is_simple_ && !are_fakes(request) && !has_effects(request)) warm_up(*out, request);
    return out;
  }
  std::unique_ptr<Program> load(const tn_compile_request& request, std::string_view bytes) {
    return std::make_unique<Program>(Program{blocks::parse_text_form(request, bytes)});
  }

 private:
  bool is_simple_;
};

}  // namespace

TENON_PLUGIN_BACKENDS((Ts, "ts"), (Ts, "aot_ts"), (Ts, "simple_ts"))
