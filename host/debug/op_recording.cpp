// Reads recordings and builds the arguments of their calls.
#include "debug/op_recording.h"

#include "core/device/device_memory.h"
#include "formats/limits.h"
#include "ops/kernel_loops.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tenon {

using formats::Json;
using formats::JsonView;

OpRecording OpRecording::read(const std::string& path) {
  OpRecording r;
  r.file_ = std::make_unique<formats::Safetensors>(formats::read_safetensors(path));
  auto cases = r.file_->metadata.find("cases");
  require(cases != r.file_->metadata.end() && r.file_->metadata.count("op"), ErrorCode::bad_file,
          "{}: no recording; metadata op and cases are expected", path);
  r.document_ = std::make_unique<formats::JsonDocument>(formats::parse_json(cases->second, path));
  for (const JsonView& c : r.document_->view().items())
    r.cases_.push_back({r.cases_.size(), c.field("args"), c.field("kwargs"), c.field("out"),
                        c.optional_field("vjp")});
  return r;
}

namespace {

std::vector<int64_t> integers_of(const JsonView& list) {
  std::vector<int64_t> out;
  for (const JsonView& v : list.items()) out.push_back(v.integer());
  return out;
}

// A bool is a number too, where a list of integers is meant.
bool is_boolean(const JsonView& v) { return std::holds_alternative<bool>(v.json().value()); }

double double_of(const JsonView& v) {
  if (!v.is_object()) return is_boolean(v) ? v.boolean() : v.real();
  const std::string& text = v.field("float").text();
  double infinity = std::numeric_limits<double>::infinity();
  return text == "inf"    ? infinity
         : text == "-inf" ? -infinity
                          : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

bool is_recorded_tensor(const JsonView& value) {
  return value.is_object() && value.json().find("tensor");
}

Number recorded_number(const JsonView& value) {
  if (is_boolean(value)) return value.boolean();
  if (value.is_integer()) return value.integer();
  require(!value.is_object() || value.json().find("float"), ErrorCode::unsupported,
          "{}: not a real number", value);
  return double_of(value);
}

namespace {

// What the description says must be what lies in the file, spread over no more than a recording
// has reason for.
void check_layout(const formats::RawTensor& raw, const std::vector<int64_t>& shape,
                  const std::vector<int64_t>& stride, const JsonView& description) {
  constexpr uint64_t most_bytes = uint64_t{256} << 20;
  require(raw.sizes == shape, ErrorCode::bad_file,
          "{}: expected the shape {} of the tensor, found {}", description,
          to_text(IntList(raw.sizes)), to_text(IntList(shape)));
  formats::check_view({raw.dtype, shape, stride}, most_bytes, description);
}

}  // namespace

Tensor OpRecording::tensor(const JsonView& description) const {
  auto found = file_->tensors.find(description.field("tensor").text());
  require(found != file_->tensors.end(), ErrorCode::bad_file, "{}: the tensor is missing",
          description);
  const formats::RawTensor& raw = found->second;
  std::vector<int64_t> shape = integers_of(description.field("shape"));
  std::vector<int64_t> stride = integers_of(description.field("stride"));
  check_layout(raw, shape, stride, description);
  Tensor dense = make_tensor(IntList(shape), raw.dtype);
  if (numel_of(dense))
    std::memcpy(data_of<char>(dense), raw.data.span.data(), raw.data.span.size());
  TensorMeta meta{raw.dtype, kCPU, dims_of(SymIntList(shape)), dims_of(SymIntList(stride))};
  Tensor t = make_tensor(meta);
  if (numel_of(t)) copy_elements(t, dense);
  return t;
}

Tensor fake_like(const Tensor& t, ArgumentKind kind, uint32_t input) {
  TensorMeta meta = meta_of(t);
  if (kind == ArgumentKind::fake) return make_fake(meta);
  ShapeEnv* env = current_shape_env();
  for (uint32_t d = 0; d < meta.sizes.size(); ++d)
    meta.sizes[d] =
        env->create_symbol(t.size(d).guard_int(), {SymbolSource::Kind::input_size, input, d},
                           message("arg{}.size({})", input, d));
  // Strides that a dense layout explains follow the symbols; others stay plain numbers.
  std::vector<size_t> order(meta.sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    int64_t x = t.strides()[a].word(), y = t.strides()[b].word();
    return x != y ? x < y : a > b;
  });
  SymInt symbolic = 1;
  int64_t plain = 1;
  for (size_t d : order) {
    if (t.strides()[d].word() != plain) continue;
    meta.strides[d] = symbolic;
    symbolic = symbolic * sym_max(meta.sizes[d], 1);
    plain *= std::max<int64_t>(t.sizes()[d].word(), 1);
  }
  return make_fake(meta);
}

Tensor OpRecording::placed(const Tensor& t) const {
  if (device_ == kCPU) return t;
  TensorMeta meta = meta_of(t);
  meta.device = device_;
  Tensor there = make_tensor(meta);
  copy_across(there, t);
  return there;
}

namespace {

class CallBuilder {
 public:
  CallBuilder(const OpRecording& recording, ArgumentKind kind)
      : recording_(recording), kind_(kind) {}

  void add(const SchemaArg& arg, const JsonView& v) {
    if (v.is_null())
      call.values.emplace_back();
    else
      call.values.push_back(arg.type.is_list ? list_value(arg, v) : plain_value(arg, v));
  }
  void add(Value value) { call.values.push_back(value); }

  CallValues call;

 private:
  Tensor tensor_of(const JsonView& v) {
    if (v.is_null()) return Tensor();
    if (!is_recorded_tensor(v)) return wrapped_number_tensor(recorded_number(v));
    Tensor t = recording_.tensor(v);
    t = recording_.placed(t);
    if (kind_ != ArgumentKind::real) t = fake_like(t, kind_, next_input_++);
    call.recorded.emplace_back(v.field("tensor").text(), t);
    return t;
  }

  Value keep(std::vector<int64_t> list) {
    return Value::of(IntList(call.ints.emplace_back(std::move(list))));
  }

  Value list_value(const SchemaArg& arg, const JsonView& v) {
    std::vector<JsonView> items = v.is_array() ? v.items() : std::vector<JsonView>{v};
    switch (arg.type.base) {
      case BaseType::tensor: {
        std::vector<Tensor>& list = call.tensor_lists.emplace_back();
        for (const JsonView& item : items) list.push_back(tensor_of(item));
        return Value::of(TensorList(list));
      }
      case BaseType::scalar:
      case BaseType::floating: {
        std::vector<double>& list = call.floats.emplace_back();
        for (const JsonView& item : items) list.push_back(double_of(item));
        return Value::of(DoubleList(list));
      }
      case BaseType::boolean: {
        auto& list = call.bools.emplace_back(new bool[items.size() + 1]);
        for (size_t i = 0; i < items.size(); ++i) list[i] = items[i].boolean();
        return Value::of(BoolList(list.get(), items.size()));
      }
      default: {
        std::vector<int64_t> list;
        for (const JsonView& item : items) list.push_back(recorded_number(item).to_int());
        return keep(std::move(list));
      }
    }
  }

  Value plain_value(const SchemaArg& arg, const JsonView& v) {
    switch (arg.type.base) {
      case BaseType::tensor:
        return Value::of(call.tensors.emplace_back(tensor_of(v)));
      case BaseType::string:
        return Value::of(std::string_view(call.strings.emplace_back(v.text())));
      case BaseType::floating:
        return Value::of(double_of(v));
      case BaseType::boolean:
        return Value::of(v.is_integer() ? v.integer() != 0 : v.boolean());
      case BaseType::integer:
      case BaseType::sym_int:
        return Value::of(enumerator_or(v, [&] { return recorded_number(v).to_int(); }));
      case BaseType::scalar_type:
      case BaseType::layout:
      case BaseType::memory_format:
      case BaseType::device:
        return enumerator(arg.type.base, v);
      default:
        return Value::of(recorded_number(v));
    }
  }

  template <class F>
  int64_t enumerator_or(const JsonView& v, F plain) {
    if (v.is_object() && v.json().find("dtype")) return static_cast<int64_t>(dtype_of(v));
    return plain();
  }

  static Dtype dtype_of(const JsonView& v) {
    const std::string& name = v.field("dtype").text();
    std::optional<Dtype> dtype = parse_dtype(name);
    require(dtype.has_value(), ErrorCode::unsupported, "{}: dtype {} is not known", v, name);
    return *dtype;
  }

  Value enumerator(BaseType base, const JsonView& v) {
    if (base == BaseType::scalar_type) return Value::of(dtype_of(v));
    if (base == BaseType::device) return Value::of(recording_.device());
    const std::string& name = v.only_member().second.text();
    if (base == BaseType::layout)
      return Value::of(name.ends_with("strided") ? Layout::strided : Layout::sparse);
    return Value::of(name.ends_with("preserve_format")    ? MemoryFormat::preserve
                     : name.ends_with("channels_last")    ? MemoryFormat::channels_last
                     : name.ends_with("channels_last_3d") ? MemoryFormat::channels_last_3d
                                                          : MemoryFormat::contiguous);
  }

  const OpRecording& recording_;
  ArgumentKind kind_;
  uint32_t next_input_ = 0;
};

// Whether what a recording gives is of the kind that the schema asks for.
bool fits(const Value& v, const SchemaType& type) {
  if (v.is_none()) return type.optional;
  if (type.is_list) {
    bool is_full = v.tag != Tag::tensors || type.optional_element ||
                   std::all_of(v.as<Tensor>(), v.as<Tensor>() + v.count,
                               [](const Tensor& t) { return t.defined(); });
    return is_full && (type.base == BaseType::tensor) == (v.tag == Tag::tensors);
  }
  switch (type.base) {
    case BaseType::tensor:
      return v.tag == Tag::tensor;
    case BaseType::integer:
    case BaseType::sym_int:
      return v.tag == Tag::integer;
    case BaseType::floating:
    case BaseType::sym_float:
      return v.tag == Tag::floating;
    case BaseType::boolean:
    case BaseType::sym_bool:
      return v.tag == Tag::boolean;
    case BaseType::scalar:
      return v.is_number();
    case BaseType::string:
      return v.tag == Tag::string;
    default:
      return true;
  }
}

void check_arguments(const OpEntry& op, const RecordedCall& recorded, const CallValues& call) {
  for (size_t i = 0; i < call.values.size(); ++i) {
    const SchemaArg& arg = op.schema.args[i];
    require(fits(call.values[i], arg.type), ErrorCode::bad_file,
            "{}: argument {} of {} is {}, which does not fit its type {}", recorded.args, arg.name,
            op.name, call.values[i].is_none() ? "missing or null" : "of another kind",
            to_text(arg.type));
  }
}

}  // namespace

CallValues make_call(const OpRecording& recording, const RecordedCall& recorded, const OpEntry& op,
                     ArgumentKind kind) {
  CallBuilder builder(recording, kind);
  std::vector<JsonView> positional = recorded.args.items();
  require(positional.size() <= op.schema.args.size(), ErrorCode::bad_file,
          "{}: {} arguments are recorded, {} takes {}", recorded.args, positional.size(), op.name,
          op.schema.args.size());
  for (size_t i = 0; i < op.schema.args.size(); ++i) {
    const SchemaArg& arg = op.schema.args[i];
    std::optional<JsonView> named = recorded.kwargs.optional_field(arg.name);
    if (i < positional.size() && !arg.kwarg_only)
      builder.add(arg, positional[i]);
    else if (named)
      builder.add(arg, *named);
    else if (arg.type.base == BaseType::device && recording.device() != kCPU)
      builder.add(Value::of(recording.device()));
    else
      builder.add(recorded.kwargs.json().find(arg.name) ? Value{} : default_of(op, i));
  }
  check_arguments(op, recorded, builder.call);
  return std::move(builder.call);
}

namespace {

void collect_floats(const JsonView& v, std::vector<std::pair<std::string, Tensor>>& left,
                    std::vector<Tensor>& out) {
  if (v.is_array())
    for (const JsonView& item : v.items()) collect_floats(item, left, out);
  if (!v.is_object() || !is_recorded_tensor(v)) return;
  const std::string& key = v.field("tensor").text();
  auto at = std::find_if(left.begin(), left.end(), [&](const auto& r) { return r.first == key; });
  require(at != left.end(), ErrorCode::bad_file, "{}: the tensor is not an argument of the op", v);
  if (is_floating(at->second.dtype())) out.push_back(at->second);
  left.erase(at);
}

}  // namespace

std::vector<Tensor> recorded_float_tensors(const RecordedCall& recorded, const CallValues& call) {
  auto left = call.recorded;
  std::vector<Tensor> out;
  collect_floats(recorded.args, left, out);
  for (const auto& [name, value] : recorded.kwargs.members()) collect_floats(value, left, out);
  return out;
}

}  // namespace tenon
