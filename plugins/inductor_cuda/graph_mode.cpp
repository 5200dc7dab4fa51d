// Graph mode.
//
// Each recorded piece of the graph is cut out and compiled as a graph of its own; its launch list is
// a function of the plugin cuda, which calls, records or replays it. A list without products and
// ops of the host has nothing left to find out in a first call, so that one is recorded.
#include "graph_mode.h"

#include "compile.h"
#include "options.h"

#include <loopir/lowering.h>

#include <algorithm>

namespace inductor_cuda {

using recordings::Piece;
using recordings::PieceCode;
using recordings::Unrecorded;
using tenon::plugin::check;
using tenon::plugin::graph;
using tenon::plugin::sv;
using tenon::plugin::tensor;
using tenon::plugin::text;

namespace {

/// Nodes of a request's graph as a request of their own.
struct CutOut {
  tn_compile_request request;
  std::span<const uint32_t> inputs, outputs;  // values of the outer graph, by position
};

CutOut cut_out(const tn_compile_request& outer, std::span<const uint32_t> nodes) {
  CutOut out{outer, {}, {}};
  const uint32_t *inputs = nullptr, *outputs = nullptr;
  check(tenon::plugin::host->run->extract(outer.ctx, outer.graph, nodes.data(),
                                          static_cast<uint32_t>(nodes.size()), &out.request.graph,
                                          &inputs, &outputs));
  graph g(out.request);
  out.inputs = {inputs, g.inputs().size()};
  out.outputs = {outputs, g.outputs().size()};
  out.request.n_inputs = static_cast<uint32_t>(out.inputs.size());
  out.request.n_outputs = static_cast<uint32_t>(out.outputs.size());
  // What the compiler does not ask for, and what is numbered otherwise.
  out.request.example_inputs = nullptr;
  out.request.static_inputs = out.request.mutated_inputs = out.request.aliased_outputs = nullptr;
  out.request.n_static = out.request.n_mutated = out.request.n_saved = 0;
  return out;
}

constexpr uint32_t nowhere = UINT32_MAX;

uint32_t place_in(const std::vector<uint32_t>& list, uint32_t id) {
  auto at = std::ranges::find(list, id);
  return id == TN_NO_VALUE || at == list.end() ? nowhere : static_cast<uint32_t>(at - list.begin());
}

// The pieces of a graph share its symbols, by name.
std::vector<uint32_t> symbols_in(const graph& inner, const graph& outer) {
  std::vector<uint32_t> out;
  for (uint32_t s : inner.symbols()) {
    auto of_outer = outer.symbols();
    auto at = std::ranges::find_if(
        of_outer, [&](uint32_t o) { return sv(outer.expr(o).name) == sv(inner.expr(s).name); });
    if (at == of_outer.end())
      throw tenon::plugin::declined("a piece of the graph has a symbol that the graph has not");
    out.push_back(static_cast<uint32_t>(at - of_outer.begin()));
  }
  return out;
}

/// A call of a piece as a call of its code.
struct Launching {
  std::shared_ptr<Executable> code;
  std::vector<uint32_t> inputs;   // of the code: their places among the piece's
  std::vector<uint32_t> outputs;  // likewise
  std::vector<uint32_t> symbols;  // of the code: their places among the graph's

  void operator()(tn_call& c) const {
    with_call(c, [&](tn_call& inner) {
      check(tenon::plugin::detail::call_artifact(*code, inner));
      for (size_t i = 0; i < outputs.size(); ++i) {
        tensor result(inner.outputs[i]);
        if (outputs[i] != nowhere) c.outputs[outputs[i]] = result.release();
      }
    });
  }
  void prepare(tn_call& c) const {
    with_call(c, [&](tn_call& inner) { code->prepare(inner); });
  }

 private:
  template <class F>
  void with_call(tn_call& c, F&& run) const {
    std::vector<tn_tensor*> given, made(outputs.size());
    for (uint32_t at : inputs) given.push_back(at == nowhere ? nullptr : c.inputs[at]);
    std::vector<int64_t> numbers;
    for (uint32_t at : symbols) numbers.push_back(c.syms[at]);
    tn_call inner = c;
    inner.flags = 0;
    inner.n_inputs = static_cast<uint32_t>(given.size());
    inner.n_outputs = static_cast<uint32_t>(made.size());
    inner.n_syms = static_cast<uint32_t>(numbers.size());
    inner.inputs = given.data();
    inner.outputs = made.data();
    inner.syms = numbers.data();
    run(inner);
  }
};

/// Makes the code of pieces.
class Pieces {
 public:
  Pieces(const tn_compile_request& request, const Machine& machine,
         std::vector<std::shared_ptr<Executable>>& made)
      : request_(request), machine_(machine), made_(made) {}

  PieceCode code_of(const Piece& piece) const {
    CutOut part = cut_out(request_, piece.nodes);
    std::shared_ptr<Executable> code = inductor_cuda::compile(part.request, machine_);
    if (std::string why = code->why_not_recorded(); !why.empty())
      throw Unrecorded{{"unsafe_op", why, "", "", TN_NO_VALUE}};
    Launching launching{code, {}, {}, symbols_in(graph(part.request), graph(request_))};
    for (uint32_t id : part.inputs) launching.inputs.push_back(place_in(piece.inputs, id));
    for (uint32_t id : part.outputs) launching.outputs.push_back(place_in(piece.outputs, id));
    made_.push_back(code);
    PieceCode out{launching, {}, code->is_only_kernels()};
    if (code->has_setup()) {
      code->leave_preparing_to_caller();
      out.before = [launching](tn_call& c) { launching.prepare(c); };
    }
    return out;
  }

  // Whether the node becomes loops, which draw their numbers themselves.
  bool draws_there(uint32_t node) const try {
    CutOut part = cut_out(request_, {&node, 1});
    loopir::Program program = loopir::lower(
        part.request, lowering_options(Given::read(request_), device_of(machine_, request_)));
    return std::ranges::none_of(program.steps, [](const loopir::Step& step) {
      return std::holds_alternative<loopir::Extern>(step);
    });
  } catch (const tenon::plugin::error&) {
    return false;
  }

 private:
  const tn_compile_request& request_;
  const Machine& machine_;
  std::vector<std::shared_ptr<Executable>>& made_;
};

}  // namespace

bool is_in_graph_mode(const tn_compile_request& request) {
  return request.stage != TN_STAGE_SINGLE_OP && Given::read(request).cudagraphs;
}

GraphModeCode::GraphModeCode(const tn_compile_request& request, const Machine& machine) {
  Given given = Given::read(request);
  Pieces pieces(request, machine, parts_);
  recordings::Outcome made = recordings::compile(
      request,
      {.settings = recordings::settings_of(given, "inductor",
                                           given.cudagraph_support_input_mutation, request),
       .maker = {.code = [&](const Piece& piece, const auto&) { return pieces.code_of(piece); },
                 .takes_numbers = true},
       .draws_there = [&](uint32_t node) { return pieces.draws_there(node); }});
  recorded_ = std::move(made.recorded);
  told_ = std::move(made.told);
  if (recorded_) return;
  parts_.clear();
  parts_.push_back(inductor_cuda::compile(request, machine));
}

void GraphModeCode::call(tn_call& c) { recorded_ ? recorded_->call(c) : parts_[0]->call(c); }

std::string GraphModeCode::describe(int32_t what) const {
  std::vector<const Executable*> parts;
  for (const auto& part : parts_) parts.push_back(part.get());
  std::string out = inductor_cuda::describe(parts, what);
  if (what != TN_DESC_STATS_JSON) return out;
  std::vector<std::string> told, recorded;
  if (!told_.empty()) told.push_back(told_);
  if (recorded_) told = recorded_->told(), recorded = recorded_->recorded();
  return recordings::with_lists(std::move(out), told, recorded);
}

}  // namespace inductor_cuda
