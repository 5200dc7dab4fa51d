// Calls of recorded graphs.
//
// Problem: a graph is recorded as far as it launches kernels; numbers on the CPU must reach it anew
// at each call, and what cannot be recorded runs between its pieces.
// Model: a call is a course over the values of the graph. Numbers that the caller brings are copied
// to the device first, then the host computes those that follow from them, then the pieces run in
// their order, each with the values that it reads of others.
// Method: a recorded piece is a function of tenon.cuda/1, whose callback runs the backend's code of
// the piece; the plugin cuda decides whether it is called, recorded or replayed.
// Cost: a call of a graph that is one piece and reads no numbers adds a few hundred ns to the
// function's own.
#include "recorded.h"

#include <array>

namespace recordings {

using tenon::plugin::check;
using tenon::plugin::collect;
using tenon::plugin::graph;
using tenon::plugin::node;
using tenon::plugin::program;
using tenon::plugin::str;
using tenon::plugin::sv;
using tenon::plugin::tensor;
using tenon::plugin::text;
using tenon::plugin::value;

namespace {

/// What the function of a piece launches. Lives as long as the function.
struct Body {
  Launches launches;
  void call(tn_call& c) { launches(c); }
};

tn_status* launch(void* self, tn_call* c) {
  return tenon::plugin::detail::call_artifact(*static_cast<Body*>(self), *c);
}
void drop(void* self) { delete static_cast<Body*>(self); }

/// The description of a function, with the texts that it points to.
class Description {
 public:
  Description(const tn_compile_request& request, const Piece& piece) : g_(request) {
    std::span<const uint32_t> inputs = g_.inputs(), outputs = g_.outputs();
    for (uint32_t i = 0; i < request.n_static; ++i)
      static_.push_back(inputs[request.static_inputs[i]]);
    for (uint32_t i = 0; i < request.n_mutated; ++i)
      written_.push_back(inputs[request.mutated_inputs[i]]);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (i + request.n_saved < outputs.size()) results_.push_back(outputs[i]);
    for (uint32_t n : piece.nodes) add_node(g_.at(n));
    for (uint32_t id : piece.inputs) add_input(id);
    for (uint32_t id : piece.outputs) add_output(id);
  }

  std::vector<tn_cuda_value> inputs, outputs;
  std::vector<tn_tensor*> constants;  // of the CPU

 private:
  static bool has(const std::vector<uint32_t>& list, uint32_t id) {
    return std::ranges::find(list, id) != list.end();
  }
  tn_str kept(std::string words) { return str(*texts_.emplace_back(new std::string(words))); }

  void add_node(const node& n) {
    by_place_ = by_place_ || (n.tags & TN_TAG_BY_PLACE);
    for_each_operand(n, [&](uint32_t id) {
      value v = g_.value_at(id);
      if (v.source == TN_SRC_CONSTANT && place_of(v) == Place::host_number)
        constants.push_back(kept_.emplace_back(g_.constant(id)).get());
    });
  }
  void add_input(uint32_t id) {
    value v = g_.value_at(id);
    bool stays = has(static_, id) || v.source == TN_SRC_CONSTANT;
    bool is_number = place_of(v) == Place::host_number;  // or a copy of it, on the device
    uint32_t flags = (stays && !is_number ? uint32_t{TN_CUDA_INPUT_STATIC} : 0) |
                     (is_number ? uint32_t{TN_CUDA_INPUT_NUMBER} : 0) |
                     (has(written_, id) ? uint32_t{TN_CUDA_INPUT_WRITTEN} : 0) |
                     (by_place_ ? uint32_t{TN_CUDA_INPUT_BY_PLACE} : 0);
    inputs.push_back({flags, 0, kept(std::string(sv(v.name)))});
    if (flags & TN_CUDA_INPUT_STATIC)
      tenon::plugin::log(TN_LOG_INFO, "cudagraph_static_inputs", "{}", sv(v.name));
  }
  void add_output(uint32_t id) {
    value v = g_.value_at(id);
    node n = g_.at(v.source_index);
    std::string source = source_of(n);
    std::string maker = text(source.empty() ? "{}" : "{} at {}", sv(n.op_name), source);
    uint32_t flags = has(results_, id) ? 0 : uint32_t{TN_CUDA_OUTPUT_SAVED};
    outputs.push_back({flags, 0, kept(std::move(maker))});
  }

  graph g_;
  std::vector<uint32_t> static_, written_, results_;  // values
  bool by_place_ = false;  // a node looks at where in its storage a tensor begins
  std::vector<tensor> kept_;
  std::vector<std::unique_ptr<std::string>> texts_;
};

}  // namespace

RecordedPiece::RecordedPiece(const tn_compile_request& request, PieceCode code, const Piece& piece,
                             const Settings& settings, const std::string& name)
    : before_(std::move(code.before)) {
  Description description(request, piece);
  auto body = std::make_unique<Body>(Body{std::move(code.launches)});
  tn_cuda_function_info info{};
  info.struct_size = sizeof info;
  info.flags =
      settings.flags | (code.is_planned ? uint32_t{TN_CUDA_FN_RECORD_AT_ONCE} : uint32_t{0});
  info.device = *device_of(graph(request));
  info.outputs = settings.outputs;
  info.name = str(name);
  info.n_inputs = static_cast<uint32_t>(description.inputs.size());
  info.n_outputs = static_cast<uint32_t>(description.outputs.size());
  info.n_syms = settings.n_symbols;
  info.n_capture_sizes =
      settings.has_sizes ? static_cast<uint32_t>(settings.sizes.size()) / settings.n_symbols : 0;
  info.input_info = description.inputs.data();
  info.output_info = description.outputs.data();
  info.capture_sizes = settings.sizes.data();
  info.max_sizes = settings.max_sizes;
  info.size_warn_limit = settings.size_warn_limit;
  info.rerecord_limit = settings.rerecord_limit;
  info.arena_bytes = settings.arena_bytes;
  info.self = body.get();
  info.launch = &launch;
  info.drop = &drop;
  info.constants = description.constants.data();
  info.n_constants = static_cast<uint32_t>(description.constants.size());
  check(cuda_.function_new(&info, &function_));
  static_cast<void>(body.release());
}

void RecordedPiece::run(std::span<tn_tensor*> inputs, std::span<tn_tensor*> outputs,
                        const tn_call& outer) {
  tn_call c = outer;
  c.flags = 0;
  c.n_inputs = static_cast<uint32_t>(inputs.size());
  c.n_outputs = static_cast<uint32_t>(outputs.size());
  c.inputs = inputs.data();
  c.outputs = outputs.data();
  if (before_) before_(c);
  check(cuda_.function_run(function_, &c));
}

std::string RecordedPiece::describe() const {
  return collect([&](const tn_sink* sink) { return cuda_.function_describe(function_, sink); });
}

// ---- a graph

Recorded::Recorded(const tn_compile_request& request, std::unique_ptr<program> steps, Pieces pieces,
                   int32_t device, const Settings& settings, const std::string& name,
                   const Maker& maker)
    : steps_(std::move(steps)), pieces_(std::move(pieces)), device_(device) {
  graph g(request);
  is_number_.resize(g.values());
  for (size_t p = 0; p < pieces_.list.size(); ++p) {
    const Piece& piece = pieces_.list[p];
    auto& function = recorded_.emplace_back();
    if (!piece.is_recorded) continue;
    std::string called = pieces_.list.size() > 1 ? text("{}, piece {}", name, p) : name;
    function = std::make_unique<RecordedPiece>(request, maker.code(piece, *steps_), piece, settings,
                                               called);
    if (maker.takes_numbers) continue;
    for (uint32_t id : piece.inputs) {
      value v = g.value_at(id);
      if (is_number_[id] || place_of(v) != Place::host_number) continue;
      is_number_[id] = true;
      if (v.source == TN_SRC_INPUT) number_inputs_.push_back(id);
    }
  }
  is_one_piece_ = find_sources(g);
}

std::optional<Recorded::Source> Recorded::source_of_value(const graph& g, uint32_t id) {
  using From = Source::From;
  if (id == TN_NO_VALUE) return Source{};
  value v = g.value_at(id);
  if (is_number_[id]) return std::nullopt;
  if (v.source == TN_SRC_INPUT) return Source{From::caller, v.source_index};
  if (v.source == TN_SRC_CONSTANT) {
    constants_.push_back(g.constant(id));
    return Source{From::constant, static_cast<uint32_t>(constants_.size() - 1)};
  }
  const std::vector<uint32_t>& made = pieces_.list[0].outputs;
  auto at = std::ranges::find(made, id);
  if (at == made.end()) return std::nullopt;
  return Source{From::piece, static_cast<uint32_t>(at - made.begin())};
}

// Whether a call only has to hand values to the one piece and back.
bool Recorded::find_sources(const graph& g) {
  if (pieces_.list.size() != 1 || !recorded_[0] || !pieces_.host_nodes.empty()) return false;
  auto find = [&](std::span<const uint32_t> ids, std::vector<Source>& out) {
    for (uint32_t id : ids) {
      std::optional<Source> source = source_of_value(g, id);
      if (!source) return false;
      out.push_back(*source);
    }
    return true;
  };
  return find(pieces_.list[0].inputs, input_sources_) && find(g.outputs(), output_sources_);
}

namespace {

/// Tensors of a call: of the heap's memory only where they are many.
class Tensors {
 public:
  explicit Tensors(size_t n) : n_(n), many_(n > few_.size() ? n : 0) {}
  std::span<tn_tensor*> all() { return {many_.empty() ? few_.data() : many_.data(), n_}; }

 private:
  size_t n_;
  std::array<tn_tensor*, 24> few_{};
  std::vector<tn_tensor*> many_;
};

}  // namespace

void Recorded::call_one_piece(tn_call& c) {
  using From = Source::From;
  Tensors given(input_sources_.size()), made(pieces_.list[0].outputs.size());
  std::span<tn_tensor*> inputs = given.all(), results = made.all();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Source& s = input_sources_[i];
    inputs[i] = s.from == From::caller ? c.inputs[s.index] : constants_[s.index].get();
  }
  recorded_[0]->run(inputs, results, c);
  for (size_t i = 0; i < output_sources_.size(); ++i) {
    const Source& s = output_sources_[i];
    tn_tensor* from = s.from == From::piece      ? results[s.index]
                      : s.from == From::caller   ? c.inputs[s.index]
                      : s.from == From::constant ? constants_[s.index].get()
                                                 : nullptr;
    c.outputs[i] = tensor::share(from).release();
  }
  for (tn_tensor* t : results) tensor released(t);
}

/// One call.
class Recorded::Course {
 public:
  Course(Recorded& code, tn_call& c)
      : code_(code), call_(c), now_(*code.steps_, {c.syms, c.n_syms}, c.stream) {
    std::span<const uint32_t> inputs = code.steps_->inputs();
    for (size_t i = 0; i < inputs.size(); ++i) now_.lend(inputs[i], c.inputs[i]);
  }

  void run() {
    // Before the host writes what the caller has brought.
    for (uint32_t id : code_.number_inputs_) bring(id);
    for (uint32_t n : code_.pieces_.host_nodes) now_.run(n);
    for (size_t p = 0; p < code_.recorded_.size(); ++p) run_piece(p);
    std::span<const uint32_t> outputs = code_.steps_->outputs();
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] != TN_NO_VALUE)
        call_.outputs[i] = tensor::share(now_.at(outputs[i])).release();
  }

 private:
  void bring(uint32_t id) {
    const tn_tensor* number = now_.at(id);
    tensor there = tensor::empty({}, number->dtype, TN_DEV_CUDA, code_.device_);
    there.copy_from(number, call_.stream);
    brought_.emplace_back(id, std::move(there));
  }

  tn_tensor* on_device(uint32_t id) {
    if (!code_.is_number_[id]) return now_.at(id);
    auto known = std::ranges::find(brought_, id, &std::pair<uint32_t, tensor>::first);
    if (known == brought_.end()) {
      bring(id);
      return brought_.back().second.get();
    }
    return known->second.get();
  }

  void run_piece(size_t p) {
    const Piece& piece = code_.pieces_.list[p];
    if (!code_.recorded_[p]) {
      for (uint32_t n : piece.nodes) now_.run(n);
    } else {
      std::vector<tn_tensor*> inputs, outputs(piece.outputs.size());
      for (uint32_t id : piece.inputs) inputs.push_back(on_device(id));
      code_.recorded_[p]->run(inputs, outputs, call_);
      for (size_t i = 0; i < outputs.size(); ++i) now_.give(piece.outputs[i], tensor(outputs[i]));
    }
    for (uint32_t n : piece.nodes) now_.drop_values_read_last_by(n);
  }

  Recorded& code_;
  tn_call& call_;
  program::pass now_;
  std::vector<std::pair<uint32_t, tensor>> brought_;
};

void Recorded::call(tn_call& c) {
  if (is_one_piece_)
    call_one_piece(c);
  else
    Course(*this, c).run();
}

// ---- what is told

std::string told_of(const Skip& skip) {
  std::string place = skip.reason;
  for (const std::string& part : {skip.node, skip.source})
    if (!part.empty()) place += ", " + part;
  return text("not recorded: {} ({})", skip.sentence, place);
}

std::vector<std::string> Recorded::told() const {
  std::vector<std::string> out;
  for (const Skip& skip : pieces_.skips) out.push_back(told_of(skip));
  return out;
}

std::vector<std::string> Recorded::recorded() const {
  std::vector<std::string> out;
  for (const auto& piece : recorded_)
    if (piece) out.push_back(piece->describe());
  return out;
}

}  // namespace recordings
