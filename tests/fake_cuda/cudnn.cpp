// The functions of the double of cuDNN: descriptors, what is refused, and enqueueing.
#include "cudnn_work.h"
#include "fake_cuda.h"
#include "fake_cudnn.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>

namespace fake_cudnn {

namespace {

struct Handle {
  int device;
  dnn::Stream stream = nullptr;
};

/// Attributes as bytes; descriptors among them are addresses of others, which outlive it.
struct Descriptor {
  struct Value {
    dnn::AttributeType type;
    std::vector<std::byte> bytes;
  };
  dnn::DescriptorType type;
  std::map<int32_t, Value> values;
  bool is_finished = false;
  bool is_exact = false;  // an engine that does not round operands

  template <class T>
  std::vector<T> list(int32_t attribute) const {
    auto at = values.find(attribute);
    if (at == values.end()) return {};
    std::vector<T> out(at->second.bytes.size() / sizeof(T));
    std::memcpy(out.data(), at->second.bytes.data(), out.size() * sizeof(T));
    return out;
  }
  template <class T>
  T one(int32_t attribute, T missing = {}) const {
    auto all = list<T>(attribute);
    return all.empty() ? missing : all[0];
  }
  const Descriptor* other(int32_t attribute) const {
    return static_cast<const Descriptor*>(one<dnn::Descriptor>(attribute));
  }
};

std::mutex counting;
FakeCudnnCounts counted{};

Descriptor& of(dnn::Descriptor d) { return *static_cast<Descriptor*>(d); }
Handle& of(dnn::Handle h) { return *reinterpret_cast<Handle*>(h); }

/// Runs a function's body unless it is to fail.
template <class F>
dnn::Status call(const char* name, F&& body) {
  if (int32_t instead = fake_cuda_instead_of(name)) return instead;
  return body();
}

size_t bytes_of(dnn::AttributeType type) {
  switch (type) {
    case dnn::type_boolean:
    case dnn::type_text:
      return 1;
    case dnn::type_int64:
    case dnn::type_handle:
    case dnn::type_address:
    case dnn::type_descriptor:
      return 8;
    default:
      return 4;
  }
}

Tensor tensor_of(const Descriptor& d) {
  return {.type = d.one<dnn::DataType>(dnn::tensor_data_type),
          .sizes = d.list<int64_t>(dnn::tensor_dimensions),
          .strides = d.list<int64_t>(dnn::tensor_strides),
          .id = d.one<int64_t>(dnn::tensor_id),
          .alignment = d.one<int64_t>(dnn::tensor_alignment, 1),
          .is_virtual = d.one<uint8_t>(dnn::tensor_is_virtual) != 0,
          .is_by_value = d.one<uint8_t>(dnn::tensor_is_by_value) != 0};
}

/// Reads a graph out of its descriptors.
struct Reader {
  Graph graph;

  int64_t tensor(const Descriptor& operation, int32_t attribute) {
    const Descriptor* d = operation.other(attribute);
    if (!d) return 0;
    Tensor t = tensor_of(*d);
    graph.tensors[t.id] = t;
    return t.id;
  }
  bool convolution(const Descriptor& d, Operation::Kind kind, int32_t first) {
    const Descriptor* c = d.other(first + 2);
    if (!c || c->one<int32_t>(dnn::convolution_mode) != dnn::cross_correlation) return false;
    Operation o{.kind = kind};
    for (int32_t i = 0; i < 3; ++i) o.tensors[static_cast<size_t>(i)] = tensor(d, first + 3 + i);
    o.strides = c->list<int64_t>(dnn::convolution_strides);
    o.paddings = c->list<int64_t>(dnn::convolution_pre_paddings);
    o.dilations = c->list<int64_t>(dnn::convolution_dilations);
    graph.operations.push_back(std::move(o));
    return c->list<int64_t>(dnn::convolution_post_paddings) == graph.operations.back().paddings &&
           graph.tensors.at(graph.operations.back().tensors[0]).sizes.size() ==
               graph.operations.back().strides.size() + 2;
  }
  bool operation(const Descriptor& d) {
    using Kind = Operation::Kind;
    switch (d.type) {
      case dnn::forward_descriptor:
        return convolution(d, Kind::forward, dnn::forward_alpha);
      case dnn::of_source_descriptor:
        return convolution(d, Kind::of_source, dnn::of_source_alpha);
      case dnn::of_weights_descriptor:
        return convolution(d, Kind::of_weights, dnn::of_weights_alpha);
      case dnn::pointwise_operation_descriptor: {
        const Descriptor* p = d.other(dnn::pointwise_operation_pointwise);
        graph.operations.push_back(
            {Kind::pointwise,
             {tensor(d, dnn::pointwise_operation_x), tensor(d, dnn::pointwise_operation_b),
              tensor(d, dnn::pointwise_operation_y), tensor(d, dnn::pointwise_operation_t)},
             p->one<int32_t>(dnn::pointwise_mode),
             p->one<int64_t>(dnn::pointwise_axis, -1)});
        return true;
      }
      case dnn::product_operation_descriptor:
        graph.operations.push_back(
            {Kind::product,
             {tensor(d, dnn::product_operation_a), tensor(d, dnn::product_operation_b),
              tensor(d, dnn::product_operation_c)}});
        return true;
      case dnn::reduction_operation_descriptor:
        graph.operations.push_back(
            {Kind::reduction,
             {tensor(d, dnn::reduction_operation_x), tensor(d, dnn::reduction_operation_y)},
             d.other(dnn::reduction_operation_reduction)->one<int32_t>(dnn::reduction_operator)});
        return true;
      case dnn::reshape_operation_descriptor: {
        graph.operations.push_back(
            {Kind::reshape,
             {tensor(d, dnn::reshape_operation_x), tensor(d, dnn::reshape_operation_y)}});
        const auto& o = graph.operations.back();
        std::vector<int64_t> turned = graph.tensors.at(o.tensors[0]).strides;
        std::swap(turned.end()[-1], turned.end()[-2]);
        return graph.tensors.at(o.tensors[1]).strides == turned;
      }
      default:
        return false;
    }
  }
};

bool read_graph(const Descriptor& d, Graph& out) {
  Reader reader;
  for (dnn::Descriptor o : d.list<dnn::Descriptor>(dnn::graph_operations))
    if (!reader.operation(of(o))) return false;
  out = std::move(reader.graph);
  return !out.operations.empty();
}

/// Of an engine, or of a text that another plan gave.
bool read_plan_of(const Descriptor& d, Plan& out) {
  auto text = d.list<char>(dnn::plan_description);
  if (!text.empty()) return read_plan({text.begin(), text.end()}, out);
  const Descriptor* config = d.other(dnn::plan_engine_config);
  out.is_exact = config->is_exact;
  return read_graph(*config->other(dnn::heuristic_graph), out.graph);
}

bool is_aligned(const void* address, int64_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(alignment) == 0;
}

dnn::Status finished(Descriptor& d) {
  if (d.is_finished) return dnn::bad_param;
  d.is_finished = true;
  if (d.type == dnn::graph_descriptor) {
    Graph graph;
    if (of(d.one<dnn::Handle>(dnn::graph_handle)).device != fake_cuda_current())
      return dnn::not_initialized;
    return read_graph(d, graph) ? dnn::success : dnn::not_supported;
  }
  if (d.type == dnn::plan_descriptor) {
    Plan plan;
    if (!read_plan_of(d, plan)) return dnn::bad_param;
    std::lock_guard lock(counting);
    ++(d.values.contains(dnn::plan_description) ? counted.restored : counted.plans);
  }
  return dnn::success;
}

template <class T>
dnn::Status give(int64_t wanted, int64_t* count, void* out, std::initializer_list<T> values) {
  *count = static_cast<int64_t>(values.size());
  if (wanted < *count) return wanted == 0 ? dnn::success : dnn::bad_param;
  std::memcpy(out, values.begin(), values.size() * sizeof(T));
  return dnn::success;
}

// Two engines: one that rounds f32 operands, then one that does not.
dnn::Status give_engines(const Descriptor& heuristic, int64_t wanted, int64_t* count, void* out) {
  *count = 2;
  auto* configs = static_cast<dnn::Descriptor*>(out);
  for (int64_t i = 0; i < std::min<int64_t>(wanted, 2); ++i) {
    Descriptor& config = of(configs[i]);
    config.values = heuristic.values;
    config.is_finished = true;
    config.is_exact = i == 1;
  }
  return dnn::success;
}

// As the library's are that add something in f32 to what lies in 16 bits.
bool has_to_be_compiled(const Descriptor& graph) {
  Graph read;
  if (!read_graph(graph, read) || read.operations.size() == 1) return false;
  auto has = [&](bool is_wide) {
    return std::any_of(read.tensors.begin(), read.tensors.end(), [&](const auto& t) {
      return !t.second.is_virtual && (t.second.type == dnn::data_f32) == is_wide;
    });
  };
  return has(true) && has(false);
}

dnn::Status given(const Descriptor& d, dnn::Attribute attribute, int64_t wanted, int64_t* count,
                  void* out) {
  switch (attribute) {
    case dnn::heuristic_results:
      return give_engines(d, wanted, count, out);
    case dnn::engine_config_engine:
      *count = 1;
      of(*static_cast<dnn::Descriptor*>(out)).is_exact = d.is_exact;
      of(*static_cast<dnn::Descriptor*>(out)).values = d.values;
      return dnn::success;
    case dnn::engine_numerical_notes:
      if (d.is_exact) return give<int32_t>(wanted, count, out, {});
      return give<int32_t>(wanted, count, out, {dnn::note_tensor_core});
    case dnn::engine_behavior_notes:
      if (!has_to_be_compiled(*d.other(dnn::heuristic_graph)))
        return give<int32_t>(wanted, count, out, {});
      return give<int32_t>(wanted, count, out, {dnn::note_runtime_compilation});
    case dnn::plan_workspace_bytes: {
      Plan plan;
      read_plan_of(d, plan);
      return give<int64_t>(wanted, count, out, {plan.graph.workspace_bytes()});
    }
    case dnn::plan_description: {
      Plan plan;
      read_plan_of(d, plan);
      std::string text = text_of(plan);
      *count = static_cast<int64_t>(text.size());
      if (wanted > 0) std::memcpy(out, text.data(), std::min<size_t>(wanted, text.size()));
      return dnn::success;
    }
    default:
      return dnn::bad_param;
  }
}

// Takes what a pack says into the run. Device memory is touched when it runs, numbers are not there.
dnn::Status bind(const Descriptor& pack, Run& run) {
  auto ids = pack.list<int64_t>(dnn::pack_ids);
  auto addresses = pack.list<void*>(dnn::pack_addresses);
  if (ids.size() != addresses.size()) return dnn::bad_param;
  for (size_t i = 0; i < ids.size(); ++i) {
    auto t = run.graph.tensors.find(ids[i]);
    if (t == run.graph.tensors.end()) return dnn::bad_param;
    bool is_fit = t->second.is_by_value || is_aligned(addresses[i], t->second.alignment);
    if (!is_fit) return dnn::bad_param;
    if (t->second.is_by_value)
      run.numbers[ids[i]] = static_cast<double>(*static_cast<const float*>(addresses[i]));
    else
      run.addresses[ids[i]] = addresses[i];
  }
  for (const auto& [id, t] : run.graph.tensors)
    if (!t.is_virtual && !run.addresses.contains(id) && !run.numbers.contains(id))
      return dnn::bad_param;
  run.workspace = pack.one<void*>(dnn::pack_workspace);
  return dnn::success;
}

}  // namespace

}  // namespace fake_cudnn

using namespace fake_cudnn;

extern "C" {

#define EXPORTED __attribute__((visibility("default")))

EXPORTED FakeCudnnCounts fake_cudnn_counts() {
  std::lock_guard lock(counting);
  return counted;
}

EXPORTED dnn::Status cudnnCreate(dnn::Handle* handle) {
  return call("cudnnCreate", [&]() -> dnn::Status {
    if (fake_cuda_current() < 0) return dnn::not_initialized;
    *handle = reinterpret_cast<dnn::Handle>(new Handle{fake_cuda_current()});
    return dnn::success;
  });
}
EXPORTED dnn::Status cudnnSetStream(dnn::Handle handle, dnn::Stream stream) {
  return call("cudnnSetStream", [&]() -> dnn::Status {
    of(handle).stream = stream;
    return dnn::success;
  });
}
EXPORTED const char* cudnnGetErrorString(dnn::Status status) {
  return status == dnn::not_supported ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_OF_THE_DOUBLE";
}

EXPORTED size_t cudnnGetVersion() { return 91900; }

EXPORTED dnn::Status cudnnBackendCreateDescriptor(dnn::DescriptorType type, dnn::Descriptor* out) {
  return call("cudnnBackendCreateDescriptor", [&]() -> dnn::Status {
    *out = new Descriptor{type};
    return dnn::success;
  });
}
EXPORTED dnn::Status cudnnBackendDestroyDescriptor(dnn::Descriptor descriptor) {
  delete &of(descriptor);
  return dnn::success;
}
EXPORTED dnn::Status cudnnBackendFinalize(dnn::Descriptor descriptor) {
  return call("cudnnBackendFinalize", [&] { return finished(of(descriptor)); });
}
EXPORTED dnn::Status cudnnBackendSetAttribute(dnn::Descriptor descriptor, dnn::Attribute attribute,
                                              dnn::AttributeType type, int64_t count,
                                              const void* elements) {
  return call("cudnnBackendSetAttribute", [&]() -> dnn::Status {
    if (of(descriptor).is_finished || count < 0) return dnn::bad_param;
    auto* first = static_cast<const std::byte*>(elements);
    auto bytes = static_cast<size_t>(count) * bytes_of(type);
    of(descriptor).values[attribute] = {type, std::vector<std::byte>(first, first + bytes)};
    return dnn::success;
  });
}
EXPORTED dnn::Status cudnnBackendGetAttribute(dnn::Descriptor descriptor, dnn::Attribute attribute,
                                              dnn::AttributeType, int64_t wanted, int64_t* count,
                                              void* elements) {
  return call("cudnnBackendGetAttribute",
              [&] { return given(of(descriptor), attribute, wanted, count, elements); });
}

EXPORTED dnn::Status cudnnBackendExecute(dnn::Handle handle, dnn::Descriptor plan,
                                         dnn::Descriptor pack) {
  return call("cudnnBackendExecute", [&]() -> dnn::Status {
    if (of(handle).device != fake_cuda_current()) return dnn::not_initialized;
    auto run = std::make_unique<Run>();
    Plan known;
    if (!of(plan).is_finished || !read_plan_of(of(plan), known)) return dnn::bad_param;
    run->graph = std::move(known.graph);
    run->is_tf32 = !known.is_exact;
    if (dnn::Status wrong = bind(of(pack), *run)) return wrong;
    {
      std::lock_guard lock(counting);
      ++counted.runs;
      counted.all_operations += run->graph.operations.size();
      counted.operations = static_cast<int32_t>(run->graph.operations.size());
      counted.is_tf32 = run->is_tf32;
      const Operation& first = run->graph.operations[0];
      if (first.kind == Operation::Kind::forward)
        counted.channels = static_cast<int32_t>(run->graph.tensors[first.tensors[0]].sizes[1]);
    }
    FakeCudaWork enqueued{run.get(),
                          [](void* self, bool (*may_touch)(const void*, size_t)) {
                            return static_cast<Run*>(self)->run(may_touch);
                          },
                          [](void* self) { delete static_cast<Run*>(self); }};
    if (fake_cuda_enqueue(of(handle).stream, &enqueued)) return dnn::internal_error;
    run.release();
    return dnn::success;
  });
}
}
