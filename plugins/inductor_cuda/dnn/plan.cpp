// From operations as data to descriptors, an engine, a plan.
#include "plan.h"

#include <algorithm>
#include <sstream>

namespace inductor_cuda {

using tenon::plugin::text;

namespace {

constexpr const char* subject = "planning for cuDNN";
constexpr int64_t most_bytes_of_plan = int64_t{256} << 20;

/// Whether the status says that the library has no way, and did not fail.
bool is_declined(dnn::Status status) {
  constexpr dnn::Status category = 1000;
  return status / category * category == dnn::not_supported ||
         status / category * category == dnn::bad_param;
}

}  // namespace

// ---- descriptors

DnnDescriptor::DnnDescriptor(const DnnLibrary& library, dnn::DescriptorType type)
    : library_(library) {
  library.check(library.functions().cudnnBackendCreateDescriptor(type, &descriptor_),
                "cudnnBackendCreateDescriptor", subject);
}
DnnDescriptor::~DnnDescriptor() { library_.functions().cudnnBackendDestroyDescriptor(descriptor_); }

void DnnDescriptor::set_bytes(dnn::Attribute attribute, dnn::AttributeType type, int64_t count,
                              const void* elements) {
  library_.check(
      library_.functions().cudnnBackendSetAttribute(descriptor_, attribute, type, count, elements),
      "cudnnBackendSetAttribute", text("{}, attribute {}", subject, int{attribute}));
}
void DnnDescriptor::set(dnn::Attribute attribute, dnn::AttributeType type,
                        std::span<const int64_t> values) {
  set_bytes(attribute, type, static_cast<int64_t>(values.size()), values.data());
}
void DnnDescriptor::finish() {
  dnn::Status status = library_.functions().cudnnBackendFinalize(descriptor_);
  if (is_declined(status))
    throw DnnDeclined(TN_UNIMPLEMENTED, text("cuDNN does not take it (status {})", status));
  library_.check(status, "cudnnBackendFinalize", subject);
}

// ---- keys

std::string DnnGraph::key() const {
  std::ostringstream out;
  auto list = [&](const std::vector<int64_t>& values) {
    for (int64_t v : values) out << v << ',';
    out << ';';
  };
  for (const DnnTensor& t : tensors) {
    out << 't' << static_cast<int>(t.place) << ',' << t.dtype << ';';
    list(t.sizes), list(t.strides);
  }
  for (const DnnOperation& o : operations) {
    out << 'o' << static_cast<int>(o.kind) << ',' << o.mode << ',' << o.axis << ';';
    for (size_t t : o.tensors) out << static_cast<int64_t>(t) << ',';
    list(o.strides), list(o.paddings), list(o.dilations);
  }
  return out.str();
}

bool DnnGraph::is_attention() const {
  return std::ranges::any_of(
      operations, [](const DnnOperation& o) { return o.kind == DnnOperation::Kind::product; });
}

// ---- operations

namespace {

using Descriptors = std::vector<std::unique_ptr<DnnDescriptor>>;
using Kind = DnnOperation::Kind;

/// The descriptors of a graph; all that it makes goes to `out`.
class Writer {
 public:
  Writer(const DnnLibrary& library, dnn::Handle handle, const DnnGraph& graph, Descriptors& out)
      : library_(library), handle_(handle), graph_(graph), out_(out) {}

  DnnDescriptor& write() {
    for (size_t i = 0; i < graph_.tensors.size(); ++i) tensors_.push_back(&tensor(i));
    std::vector<dnn::Descriptor> operations;
    for (const DnnOperation& o : graph_.operations) operations.push_back(operation(o).get());
    DnnDescriptor& g = make(dnn::graph_descriptor);
    g.set_bytes(dnn::graph_operations, dnn::type_descriptor,
                static_cast<int64_t>(operations.size()), operations.data());
    g.set(dnn::graph_handle, dnn::type_handle, handle_);
    g.finish();
    return g;
  }

 private:
  DnnDescriptor& make(dnn::DescriptorType type) {
    return *out_.emplace_back(std::make_unique<DnnDescriptor>(library_, type));
  }
  DnnDescriptor& tensor(size_t i) {
    const DnnTensor& t = graph_.tensors[i];
    DnnDescriptor& d = make(dnn::tensor_descriptor);
    d.set(dnn::tensor_data_type, dnn::type_data_type, t.dtype);
    d.set(dnn::tensor_dimensions, dnn::type_int64, std::span(t.sizes));
    d.set(dnn::tensor_strides, dnn::type_int64, std::span(t.strides));
    d.set(dnn::tensor_alignment, dnn::type_int64, int64_t{dnn_alignment});
    d.set(dnn::tensor_id, dnn::type_int64, static_cast<int64_t>(i) + 1);
    if (t.place == DnnTensor::Place::between)
      d.set(dnn::tensor_is_virtual, dnn::type_boolean, true);
    if (t.place == DnnTensor::Place::number)
      d.set(dnn::tensor_is_by_value, dnn::type_boolean, true);
    d.finish();
    return d;
  }
  DnnDescriptor& operation(const DnnOperation& o) {
    return o.kind == Kind::pointwise   ? pointwise(o)
           : o.kind == Kind::product   ? product(o)
           : o.kind == Kind::reduction ? reduction(o)
           : o.kind == Kind::reshape   ? reshape(o)
                                       : convolution(o);
  }
  void set(DnnDescriptor& d, int32_t attribute, size_t tensor) {
    if (tensor != DnnOperation::absent)
      d.set(static_cast<dnn::Attribute>(attribute), *tensors_[tensor]);
  }

  DnnDescriptor& convolution(const DnnOperation& o) {
    DnnDescriptor& c = make(dnn::convolution_descriptor);
    c.set(dnn::convolution_type, dnn::type_data_type, dnn::data_f32);
    c.set(dnn::convolution_mode, dnn::type_convolution_mode, dnn::cross_correlation);
    c.set(dnn::convolution_dimensions, dnn::type_int64, static_cast<int64_t>(o.strides.size()));
    c.set(dnn::convolution_strides, dnn::type_int64, std::span(o.strides));
    c.set(dnn::convolution_dilations, dnn::type_int64, std::span(o.dilations));
    c.set(dnn::convolution_pre_paddings, dnn::type_int64, std::span(o.paddings));
    c.set(dnn::convolution_post_paddings, dnn::type_int64, std::span(o.paddings));
    c.finish();
    bool is_forward = o.kind == Kind::forward, is_source = o.kind == Kind::of_source;
    DnnDescriptor& d = make(is_forward  ? dnn::forward_descriptor
                            : is_source ? dnn::of_source_descriptor
                                        : dnn::of_weights_descriptor);
    int32_t first = is_forward  ? dnn::forward_alpha
                    : is_source ? dnn::of_source_alpha
                                : dnn::of_weights_alpha;
    d.set(static_cast<dnn::Attribute>(first), dnn::type_float, 1.0f);
    d.set(static_cast<dnn::Attribute>(first + 1), dnn::type_float, 0.0f);
    d.set(static_cast<dnn::Attribute>(first + 2), c);
    for (int32_t i = 0; i < 3; ++i) set(d, first + 3 + i, o.tensors[static_cast<size_t>(i)]);
    d.finish();
    return d;
  }
  DnnDescriptor& pointwise(const DnnOperation& o) {
    DnnDescriptor& p = make(dnn::pointwise_descriptor);
    p.set(dnn::pointwise_mode, dnn::type_pointwise_mode, o.mode);
    p.set(dnn::pointwise_precision, dnn::type_data_type, dnn::data_f32);
    if (o.axis >= 0) p.set(dnn::pointwise_axis, dnn::type_int64, o.axis);
    p.finish();
    DnnDescriptor& d = make(dnn::pointwise_operation_descriptor);
    d.set(dnn::pointwise_operation_pointwise, p);
    set(d, dnn::pointwise_operation_x, o.tensors[0]);
    set(d, dnn::pointwise_operation_b, o.tensors[1]);
    set(d, dnn::pointwise_operation_y, o.tensors[2]);
    set(d, dnn::pointwise_operation_t, o.tensors[3]);
    d.finish();
    return d;
  }
  DnnDescriptor& product(const DnnOperation& o) {
    DnnDescriptor& p = make(dnn::product_descriptor);
    p.set(dnn::product_type, dnn::type_data_type, dnn::data_f32);
    p.finish();
    DnnDescriptor& d = make(dnn::product_operation_descriptor);
    set(d, dnn::product_operation_a, o.tensors[0]);
    set(d, dnn::product_operation_b, o.tensors[1]);
    set(d, dnn::product_operation_c, o.tensors[2]);
    d.set(dnn::product_operation_product, p);
    d.finish();
    return d;
  }
  DnnDescriptor& reduction(const DnnOperation& o) {
    DnnDescriptor& r = make(dnn::reduction_descriptor);
    r.set(dnn::reduction_operator, dnn::type_reduction, o.mode);
    r.set(dnn::reduction_type, dnn::type_data_type, dnn::data_f32);
    r.finish();
    DnnDescriptor& d = make(dnn::reduction_operation_descriptor);
    set(d, dnn::reduction_operation_x, o.tensors[0]);
    set(d, dnn::reduction_operation_y, o.tensors[1]);
    d.set(dnn::reduction_operation_reduction, r);
    d.finish();
    return d;
  }

  DnnDescriptor& reshape(const DnnOperation& o) {
    DnnDescriptor& d = make(dnn::reshape_operation_descriptor);
    set(d, dnn::reshape_operation_x, o.tensors[0]);
    set(d, dnn::reshape_operation_y, o.tensors[1]);
    d.finish();
    return d;
  }

  const DnnLibrary& library_;
  dnn::Handle handle_;
  const DnnGraph& graph_;
  Descriptors& out_;
  std::vector<DnnDescriptor*> tensors_;
};

/// The engines that a heuristic names for a graph. Where it knows none, it may say so by a status.
Descriptors engines_for(const DnnLibrary& library, const DnnDescriptor& graph,
                        dnn::HeuristicMode mode) {
  const dnn::Functions& f = library.functions();
  DnnDescriptor heuristic(library, dnn::heuristic_descriptor);
  heuristic.set(dnn::heuristic_graph, graph);
  heuristic.set(dnn::heuristic_mode, dnn::type_heuristic_mode, mode);
  dnn::Status status = f.cudnnBackendFinalize(heuristic.get());
  if (is_declined(status)) return {};
  library.check(status, "cudnnBackendFinalize", subject);
  int64_t count = 0;
  library.check(f.cudnnBackendGetAttribute(heuristic.get(), dnn::heuristic_results,
                                           dnn::type_descriptor, 0, &count, nullptr),
                "cudnnBackendGetAttribute", subject);
  Descriptors out;
  std::vector<dnn::Descriptor> raw;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(std::make_unique<DnnDescriptor>(library, dnn::engine_config_descriptor));
    raw.push_back(out.back()->get());
  }
  if (count > 0)
    library.check(f.cudnnBackendGetAttribute(heuristic.get(), dnn::heuristic_results,
                                             dnn::type_descriptor, count, &count, raw.data()),
                  "cudnnBackendGetAttribute", subject);
  out.resize(static_cast<size_t>(count));
  return out;
}

std::vector<int32_t> notes_of(const DnnLibrary& library, dnn::Descriptor engine_config,
                              dnn::Attribute attribute, dnn::AttributeType type) {
  const dnn::Functions& f = library.functions();
  DnnDescriptor engine(library, dnn::engine_descriptor);
  dnn::Descriptor raw = engine.get();
  int64_t count = 0;
  library.check(f.cudnnBackendGetAttribute(engine_config, dnn::engine_config_engine,
                                           dnn::type_descriptor, 1, &count, &raw),
                "cudnnBackendGetAttribute", subject);
  constexpr int64_t most_notes = 16;
  std::vector<int32_t> out(most_notes);
  library.check(
      f.cudnnBackendGetAttribute(engine.get(), attribute, type, most_notes, &count, out.data()),
      "cudnnBackendGetAttribute", subject);
  out.resize(static_cast<size_t>(std::min(count, most_notes)));
  return out;
}

/// Engines that are compiled when a plan is made take up to ten seconds each. For attention there are
/// no others.
bool is_ready(const DnnLibrary& library, dnn::Descriptor engine_config) {
  std::vector<int32_t> notes =
      notes_of(library, engine_config, dnn::engine_behavior_notes, dnn::type_behavior_note);
  return std::ranges::find(notes, int32_t{dnn::note_runtime_compilation}) == notes.end();
}

/// Whether an engine computes as it is asked to: f32 in full where tf32 is not allowed, and never by
/// transformations that round more than sums do.
bool is_admitted(const std::vector<int32_t>& notes, bool is_f32, const DnnOptions& options) {
  auto has = [&](dnn::NumericalNote note) { return std::ranges::find(notes, note) != notes.end(); };
  if (options.deterministic && has(dnn::note_nondeterministic)) return false;
  if (has(dnn::note_fft) || has(dnn::note_reduced_precision) || has(dnn::note_winograd))
    return false;
  bool is_exact = options.allows_tf32 || !is_f32;
  return is_exact || !(has(dnn::note_tensor_core) || has(dnn::note_down_convert));
}

// On a GPU of the Hopper generation (cuDNN 9.19): mode B knows better engines than mode A for single
// convolutions (one of 1 x 1 with stride 2: 12 us for 77), and the fallback a better tile than both
// for attention of up to 128 keys (5.5 us for 7.1).
std::vector<dnn::HeuristicMode> modes_for(const DnnGraph& graph) {
  if (graph.has_few_keys) return {dnn::heuristic_fallback, dnn::heuristic_a};
  if (graph.operations.size() > 1) return {dnn::heuristic_a, dnn::heuristic_fallback};
  return {dnn::heuristic_b, dnn::heuristic_a, dnn::heuristic_fallback};
}

}  // namespace

// ---- plans

DnnPlan::DnnPlan(const DnnLibrary& library, dnn::Handle handle, const DnnGraph& graph)
    : library_(library), handle_(handle) {
  for (size_t i = 0; i < graph.tensors.size(); ++i)
    if (graph.tensors[i].place != DnnTensor::Place::between) bound_.push_back(i);
}

std::optional<DnnPlan::Choice> DnnPlan::choice(std::unique_ptr<DnnDescriptor> engine_config) const {
  Choice out{std::move(engine_config),
             std::make_unique<DnnDescriptor>(library_, dnn::plan_descriptor)};
  out.plan->set(dnn::plan_engine_config, dnn::type_descriptor, out.config->get());
  return finished(std::move(out));
}

std::optional<DnnPlan::Choice> DnnPlan::finished(Choice out) const {
  out.plan->set(dnn::plan_handle, dnn::type_handle, handle_);
  if (library_.functions().cudnnBackendFinalize(out.plan->get()) != dnn::success)
    return std::nullopt;
  int64_t count = 0;
  library_.check(library_.functions().cudnnBackendGetAttribute(
                     out.plan->get(), dnn::plan_workspace_bytes, dnn::type_int64, 1, &count,
                     &out.workspace_bytes),
                 "cudnnBackendGetAttribute", subject);
  if (out.workspace_bytes > most_bytes_of_plan) return std::nullopt;
  return out;
}

/// Whether the library makes the plan from what it said of one like it.
bool DnnPlan::restore(const std::string& description) try {
  Choice out{nullptr, std::make_unique<DnnDescriptor>(library_, dnn::plan_descriptor)};
  out.plan->set_bytes(dnn::plan_description, dnn::type_text,
                      static_cast<int64_t>(description.size()), description.data());
  choice_ = finished(std::move(out)).value();
  return true;
} catch (const std::exception&) {  // it has no value, or the library refuses the description
  return false;
}

/// Empty where the library has none.
std::string DnnPlan::description() const {
  const dnn::Functions& f = library_.functions();
  auto get = [&](int64_t wanted, int64_t& count, char* out) {
    return f.cudnnBackendGetAttribute(choice_.plan->get(), dnn::plan_description, dnn::type_text,
                                      wanted, &count, out) == dnn::success;
  };
  int64_t count = 0;
  std::string out(get(0, count, nullptr) && count > 0 ? static_cast<size_t>(count) : 0, '\0');
  return !out.empty() && get(count, count, out.data()) ? out : "";
}

bool DnnPlan::make(const DnnGraph& graph, const DnnOptions& options, const Tuning* tuning,
                   std::string& why_not) try {
  constexpr size_t most_choices = 16;
  bool is_f32 = graph.tensors[0].dtype == dnn::data_f32;
  bool has_ready_ones = !graph.is_attention();
  size_t wanted = tuning && has_ready_ones ? most_choices : 1;
  std::vector<Choice> choices;
  DnnDescriptor& written = Writer(library_, handle_, graph, parts_).write();
  for (dnn::HeuristicMode mode : modes_for(graph))
    for (auto& config : engines_for(library_, written, mode)) {
      if (choices.size() == wanted) break;
      std::vector<int32_t> notes =
          notes_of(library_, config->get(), dnn::engine_numerical_notes, dnn::type_numerical_note);
      if (!is_admitted(notes, is_f32, options)) continue;
      // What else the heuristic names first for some in 16 bits turns images around and takes
      // three times as long.
      bool is_fast = std::ranges::find(notes, int32_t{dnn::note_tensor_core}) != notes.end();
      if (has_ready_ones && !is_f32 && graph.operations.size() > 1 && !is_fast) continue;
      if (has_ready_ones && !is_ready(library_, config->get())) {
        if (graph.operations.size() == 1 || !choices.empty()) continue;
        // Those behind it are ten times slower; the convolution alone has others.
        why_not = "its engines have to be compiled";
        return false;
      }
      if (auto made = choice(std::move(config))) choices.push_back(std::move(*made));
    }
  if (tuning) choose(graph, options, *tuning, choices);
  if (!choices.empty()) {
    choice_ = std::move(choices[0]);
    return true;
  }
  why_not = "cuDNN has no engine for it";
  return false;
} catch (const DnnDeclined& why) {
  why_not = why.what();
  return false;
}

namespace {

int32_t dtype_of(dnn::DataType type) {
  return type == dnn::data_bf16  ? int32_t{TN_BF16}
         : type == dnn::data_f16 ? int32_t{TN_F16}
                                 : int32_t{TN_F32};
}

/// Whether an operation of the graph writes the tensor.
bool is_written(const DnnGraph& graph, size_t tensor) {
  return std::ranges::any_of(graph.operations, [&](const DnnOperation& o) {
    size_t result = o.kind == Kind::of_source                              ? o.tensors[1]
                    : o.kind == Kind::of_weights                           ? o.tensors[0]
                    : o.kind == Kind::reduction || o.kind == Kind::reshape ? o.tensors[1]
                                                                           : o.tensors[2];
    return result == tensor;
  });
}

}  // namespace

/// Puts the fastest choice first.
void DnnPlan::choose(const DnnGraph& graph, const DnnOptions& options, const Tuning& tuning,
                     std::vector<Choice>& choices) {
  bool has_numbers = std::ranges::any_of(
      graph.tensors, [](const DnnTensor& t) { return t.place == DnnTensor::Place::number; });
  if (choices.size() < 2 || has_numbers) return;
  std::vector<TrialMemory> memory;
  std::vector<size_t> places;
  for (size_t i : bound_) {
    const DnnTensor& t = graph.tensors[i];
    int64_t last = 0;
    for (size_t d = 0; d < t.sizes.size(); ++d) last += (t.sizes[d] - 1) * t.strides[d];
    int32_t dtype = dtype_of(t.dtype);
    memory.push_back({(last + 1) * (dtype == TN_F32 ? 4 : 2), dtype, is_written(graph, i)});
    places.push_back(i);
  }
  int64_t workspace = 0;
  for (const Choice& c : choices) workspace = std::max(workspace, c.workspace_bytes);
  memory.push_back({workspace, TN_F32, false});
  auto run_one = [&](size_t which, std::span<void* const> given, void* stream) {
    std::vector<void*> addresses(graph.tensors.size());
    for (size_t k = 0; k < places.size(); ++k) addresses[places[k]] = given[k];
    try {
      run(choices[which], addresses, given.back(), reinterpret_cast<dnn::Stream>(stream),
          "max_autotune");
    } catch (const tenon::plugin::error&) {
      return false;
    }
    return true;
  };
  std::string problem =
      text("cudnn {} {} {}", graph.key(), options.allows_tf32, options.deterministic);
  size_t best = tuning.fastest(problem, memory, choices.size(), run_one);
  std::swap(choices[0], choices[best]);
}

void DnnPlan::run(std::span<void* const> addresses, void* workspace, dnn::Stream stream,
                  const std::string& name) const {
  run(choice_, addresses, workspace, stream, name);
}

void DnnPlan::run(const Choice& choice, std::span<void* const> addresses, void* workspace,
                  dnn::Stream stream, const std::string& name) const {
  std::vector<int64_t> ids;
  std::vector<void*> bound;
  for (size_t i : bound_) {
    ids.push_back(static_cast<int64_t>(i) + 1);
    bound.push_back(addresses[i]);
  }
  DnnDescriptor pack(library_, dnn::pack_descriptor);
  pack.set(dnn::pack_ids, dnn::type_int64, std::span<const int64_t>(ids));
  pack.set_bytes(dnn::pack_addresses, dnn::type_address, static_cast<int64_t>(bound.size()),
                 bound.data());
  pack.set(dnn::pack_workspace, dnn::type_address, workspace);
  pack.finish();
  library_.execute(choice.plan->get(), pack.get(), stream, name);
}

}  // namespace inductor_cuda
