// Graph mode.
//
// Each recorded piece of the graph is cut out and compiled as a graph of its own; its launch list is
// a function of the plugin cuda, which calls, records or replays it. A list without products and
// ops of the host has nothing left to find out in a first call, so that one is recorded.
#include "graph_mode.h"

#include "../compile.h"
#include "../options.h"
#include "../saved/saved_form.h"

#include <loopir/lowering.h>
#include <loopir/saving/bytes.h>
#include <loopir/saving/saved_program.h>

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

}  // namespace

/// Makes the code of pieces, or takes what was saved.
class GraphModeCode::Pieces {
 public:
  Pieces(const tn_compile_request& request, const Machine& machine, GraphModeCode& out,
         bool is_loaded)
      : request_(request), machine_(machine), out_(out), is_loaded_(is_loaded) {}

  PieceCode code_of(const Piece& piece) {
    CutOut part = cut_out(request_, piece.nodes);
    std::shared_ptr<Executable> code =
        is_loaded_ ? loaded(part.request, piece) : compiled(part.request, piece);
    Launching launching{code, {}, {}, symbols_in(graph(part.request), graph(request_))};
    for (uint32_t id : part.inputs) launching.inputs.push_back(place_in(piece.inputs, id));
    for (uint32_t id : part.outputs) launching.outputs.push_back(place_in(piece.outputs, id));
    out_.parts_.push_back(code);
    PieceCode made{launching, {}, code->is_only_kernels()};
    if (code->has_setup()) {
      code->leave_preparing_to_caller();
      made.before = [launching](tn_call& c) { launching.prepare(c); };
    }
    return made;
  }

  // Whether the node becomes loops, which draw their numbers themselves.
  bool draws_there(uint32_t node) {
    auto [answer, is_new] = out_.saved_.draws_there.try_emplace(node);
    if (is_new && !is_loaded_) answer->second = becomes_loops(node);
    return answer->second != 0;
  }

 private:
  std::shared_ptr<Executable> compiled(const tn_compile_request& part, const Piece& piece) {
    std::shared_ptr<Executable> code = inductor_cuda::compile(part, machine_);
    if (std::string why = code->why_not_recorded(); !why.empty())
      throw Unrecorded{{"unsafe_op", why, "", "", TN_NO_VALUE}};
    out_.saved_.parts.push_back({piece.nodes, ""});
    return code;
  }

  std::shared_ptr<Executable> loaded(const tn_compile_request& part, const Piece& piece) {
    const auto& saved = out_.saved_.parts;
    size_t number = out_.parts_.size();
    loopir::expect_saved(number < saved.size() && saved[number].nodes == piece.nodes,
                         "the pieces of another graph");
    return load_executable(part, machine_, saved[number].code);
  }

  bool becomes_loops(uint32_t node) const try {
    CutOut part = cut_out(request_, {&node, 1});
    loopir::Program program = loopir::lower(
        part.request, lowering_options(Given::read(request_), device_of(machine_, request_)));
    return std::ranges::none_of(program.steps, [](const loopir::Step& step) {
      return std::holds_alternative<loopir::Extern>(step);
    });
  } catch (const tenon::plugin::error&) {
    return false;
  }

  const tn_compile_request& request_;
  const Machine& machine_;
  GraphModeCode& out_;
  bool is_loaded_;
};

bool is_in_graph_mode(const tn_compile_request& request) {
  if (request.stage == TN_STAGE_SINGLE_OP) return false;
  Given given = Given::read(request);
  return given.cudagraphs && !given.profile;  // which waits for the device
}

void GraphModeCode::record(const tn_compile_request& request, Pieces& pieces) {
  recordings::Outcome made = recordings::compile(
      request,
      {.settings = saved_.settings,
       .maker = {.code = [&](const Piece& piece, const auto&) { return pieces.code_of(piece); },
                 .takes_numbers = true},
       .draws_there = [&](uint32_t node) { return pieces.draws_there(node); }});
  recorded_ = std::move(made.recorded);
  saved_.told = std::move(made.told);
}

GraphModeCode::GraphModeCode(const tn_compile_request& request, const Machine& machine) {
  Given given = Given::read(request);
  saved_.settings =
      recordings::settings_of(given, "inductor", given.cudagraph_support_input_mutation, request);
  saved_.static_inputs.assign(request.static_inputs, request.static_inputs + request.n_static);
  Pieces pieces(request, machine, *this, false);
  record(request, pieces);
  if (recorded_) return;
  parts_.clear();
  parts_.push_back(inductor_cuda::compile(request, machine));
  saved_.parts.assign(1, {});
}

void GraphModeCode::call(tn_call& c) { recorded_ ? recorded_->call(c) : parts_[0]->call(c); }

std::string GraphModeCode::describe(int32_t what) const {
  std::vector<const Executable*> parts;
  for (const auto& part : parts_) parts.push_back(part.get());
  std::string out = inductor_cuda::describe(parts, what);
  if (what != TN_DESC_STATS_JSON) return out;
  std::vector<std::string> told, recorded;
  if (!saved_.told.empty()) told.push_back(saved_.told);
  if (recorded_) told = recorded_->told(), recorded = recorded_->recorded();
  return recordings::with_lists(std::move(out), told, recorded);
}

// ---- saved

template <class V>
void fields(V& v, SavedRecordings::Part& p) {
  v(p.nodes);
  v(p.code);
}

template <class V>
void fields(V& v, SavedRecordings& s) {
  loopir::each(v, s.settings, s.static_inputs, s.draws_there, s.parts, s.told);
}

std::string GraphModeCode::serialize() {
  SavedRecordings out = saved_;
  for (size_t i = 0; i < out.parts.size(); ++i) out.parts[i].code = parts_[i]->serialize();
  loopir::Expressions none_are_named;
  loopir::Writer writer(none_are_named);
  writer(out);
  return with_head(SavedKind::graph_mode, writer.take());
}

GraphModeCode::GraphModeCode(const tn_compile_request& request, const Machine& machine,
                             std::string_view saved_bytes) {
  SavedKind kind{};
  loopir::Reader reader(body_of(saved_bytes, kind));
  loopir::expect_saved(kind == SavedKind::graph_mode,
                       "a list of launches where recordings are expected");
  reader(saved_);
  reader.finish();
  graph g(request);
  if (Given::read(request).cuda_launch_blocking && !saved_.settings.is_blocking)
    throw tenon::plugin::error(
        TN_FAILED_PRECONDITION,
        "the code was saved as recordings, and inductor.cuda_launch_blocking "
        "is on, which allows none; turn it off or compile again");
  for (uint32_t i : saved_.static_inputs)
    loopir::expect_saved(i < g.inputs().size(), "a parameter that is no input");
  const recordings::Settings& asked = saved_.settings;
  loopir::expect_saved(
      asked.n_symbols == g.symbols().size() &&
          (asked.has_sizes ? asked.n_symbols > 0 && asked.sizes.size() % asked.n_symbols == 0
                           : asked.sizes.empty()),
      "the code of a graph with other symbols");
  tn_compile_request known = request;
  if (known.n_static == 0) {  // files do not tell which inputs are parameters
    known.static_inputs = saved_.static_inputs.data();
    known.n_static = static_cast<uint32_t>(saved_.static_inputs.size());
  }
  bool is_recorded = saved_.parts.size() != 1 || !saved_.parts[0].nodes.empty();
  if (!is_recorded) {
    parts_.push_back(load_executable(request, machine, saved_.parts[0].code));
    return;
  }
  Pieces pieces(known, machine, *this, true);
  record(known, pieces);
  loopir::expect_saved(recorded_ && parts_.size() == saved_.parts.size(),
                       "the pieces of another graph");
  for (SavedRecordings::Part& part : saved_.parts) part.code.clear();
}

}  // namespace inductor_cuda
