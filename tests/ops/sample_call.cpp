// Text to arguments, and texts out of schemas.
#include "sample_call.h"

#include "debug/op_compare.h"
#include "debug/random_inputs.h"
#include "ops/kernel_loops.h"

#include <tenon/ops.h>

#include <charconv>

namespace tenon::testing {

namespace {

using Texts = std::vector<std::string_view>;

// Parts between `separator`s outside of brackets.
Texts parts_of(std::string_view text, char separator) {
  Texts parts;
  int depth = 0;
  size_t begin = 0;
  auto end_at = [&](size_t at) {
    if (at > begin) parts.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '[' || text[i] == '{';
    depth -= text[i] == ']' || text[i] == '}';
    if (text[i] == separator && depth == 0) end_at(i);
  }
  end_at(text.size());
  return parts;
}

std::string_view inside(std::string_view text) { return text.substr(1, text.size() - 2); }

double real_of(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(),
          "a sample: a number is expected, found '{}'", text);
  return value;
}
int64_t integer_of(std::string_view text) { return static_cast<int64_t>(real_of(text)); }

Number number_of(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  bool is_real = text.find_first_of(".ein") != text.npos;
  return is_real ? Number(real_of(text)) : Number(integer_of(text));
}

std::vector<int64_t> integers_of(std::string_view list) {
  std::vector<int64_t> values;
  for (std::string_view part : parts_of(list, ',')) values.push_back(integer_of(part));
  return values;
}

// ---- tensors

Tensor uniform_tensor(IntList sizes, Dtype dtype, double low, double high, uint64_t seed) {
  Tensor t = make_tensor(sizes, Dtype::f64);
  for (int64_t i = 0; i < numel_of(t); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    double part = static_cast<double>(seed >> 11) * 0x1p-53;
    data_of<double>(t)[i] = low + (high - low) * part;
  }
  return is_floating(dtype) ? t.to(dtype) : t.floor().to(dtype);
}

Tensor matrix_of(IntList sizes, Dtype dtype, std::string_view kind, uint64_t seed) {
  Tensor a = random_tensor(sizes, Dtype::f64, seed);
  Tensor positive = a.matmul(a.mT()) + eye(sizes.back(), Dtype::f64) * 2;
  return (kind == "tri" ? positive.tril() : positive).to(dtype);
}

Tensor complex_tensor(std::vector<int64_t> sizes, Dtype dtype, uint64_t seed) {
  sizes.push_back(2);
  Dtype part = dtype == Dtype::c64 ? Dtype::f32 : Dtype::f64;
  return view_as_complex(random_tensor(IntList(sizes), part, seed));
}

// What stands behind the sizes.
Tensor filled_tensor(const std::vector<int64_t>& sizes, Dtype dtype, std::string_view fill,
                     uint64_t seed) {
  if (is_complex(dtype)) return complex_tensor(sizes, dtype, seed);
  if (fill.empty()) return random_tensor(IntList(sizes), dtype, seed);
  if (fill == "~spd" || fill == "~tri")
    return matrix_of(IntList(sizes), dtype, fill.substr(1), seed);
  if (fill[0] == '{') {
    Tensor t = make_tensor(IntList(sizes), dtype);
    Texts elements = parts_of(inside(fill), ',');
    require(static_cast<int64_t>(elements.size()) == numel_of(t),
            "a sample: {} elements are expected, found '{}'", numel_of(t), fill);
    for (size_t i = 0; i < elements.size(); ++i)
      store_number(data_of<char>(t) + static_cast<int64_t>(i) * itemsize(dtype), dtype,
                   number_of(elements[i]));
    return t;
  }
  size_t colon = fill.find(':');
  require(fill[0] == '~' && colon != fill.npos, "a sample: unknown numbers '{}'", fill);
  return uniform_tensor(IntList(sizes), dtype, real_of(fill.substr(1, colon - 1)),
                        real_of(fill.substr(colon + 1)), seed);
}

Tensor tensor_of(std::string_view text, uint64_t seed) {
  size_t open = text.find('['), close = text.find(']');
  auto dtype = parse_dtype(text.substr(0, open));
  require(open != text.npos && close != text.npos && dtype,
          "a sample: a tensor such as f32[2,3] is expected, found '{}'", text);
  std::vector<int64_t> sizes = integers_of(text.substr(open + 1, close - open - 1));
  return filled_tensor(sizes, *dtype, text.substr(close + 1), seed);
}

// ---- arguments

class CallText {
 public:
  explicit CallText(const OpEntry& op) : op_(op) {}

  CallValues run(std::string_view text) {
    std::vector<std::string_view> given(op_.schema.args.size());
    size_t next = 0;
    for (std::string_view part : parts_of(text, ' ')) {
      size_t equal = part.find('=');
      int at = equal == part.npos ? -1 : op_.schema.find_arg(part.substr(0, equal));
      if (at >= 0) part = part.substr(equal + 1);
      size_t index = at >= 0 ? static_cast<size_t>(at) : next++;
      require(index < given.size(), "a sample: {} has {} arguments, found '{}'", op_.name,
              given.size(), text);
      given[index] = part;
    }
    for (size_t i = 0; i < given.size(); ++i) add(i, given[i]);
    return std::move(call_);
  }

 private:
  void add(size_t index, std::string_view text) {
    const SchemaArg& arg = op_.schema.args[index];
    if (text.empty()) {
      require(arg.has_default() || arg.type.optional, "a sample: {} needs its argument {}",
              op_.name, arg.name);
      call_.values.push_back(arg.has_default() ? default_of(op_, index) : Value{});
    } else if (text == "none") {
      call_.values.emplace_back();
    } else {
      call_.values.push_back(arg.type.is_list ? list(arg, text) : plain(arg, text));
    }
  }

  Tensor tensor(std::string_view text) {
    return text == "none" ? Tensor() : tensor_of(text, 7 + 100 * n_tensors_++);
  }

  Value list(const SchemaArg& arg, std::string_view text) {
    Texts items = text[0] == '[' ? parts_of(inside(text), ',') : Texts{text};
    switch (arg.type.base) {
      case BaseType::tensor: {
        std::vector<Tensor>& list = call_.tensor_lists.emplace_back();
        for (std::string_view item : items) list.push_back(tensor(item));
        return Value::of(TensorList(list));
      }
      case BaseType::scalar:
      case BaseType::floating: {
        std::vector<double>& list = call_.floats.emplace_back();
        for (std::string_view item : items) list.push_back(real_of(item));
        return Value::of(DoubleList(list));
      }
      case BaseType::boolean: {
        auto& list = call_.bools.emplace_back(new bool[items.size() + 1]);
        for (size_t i = 0; i < items.size(); ++i) list[i] = items[i] == "true";
        return Value::of(BoolList(list.get(), items.size()));
      }
      default:
        return Value::of(
            IntList(call_.ints.emplace_back(integers_of(text[0] == '[' ? inside(text) : text))));
    }
  }

  Value plain(const SchemaArg& arg, std::string_view text) {
    switch (arg.type.base) {
      case BaseType::tensor:
        return Value::of(call_.tensors.emplace_back(tensor(text)));
      case BaseType::string:
        return Value::of(std::string_view(call_.strings.emplace_back(text)));
      case BaseType::floating:
      case BaseType::sym_float:
        return Value::of(real_of(text));
      case BaseType::boolean:
        return Value::of(text == "true");
      case BaseType::integer:
      case BaseType::sym_int:
        return Value::of(integer_of(text));
      case BaseType::scalar_type: {
        auto dtype = parse_dtype(text);
        require(dtype.has_value(), "a sample: a dtype is expected, found '{}'", text);
        return Value::of(*dtype);
      }
      case BaseType::device:
        return Value::of(kCPU);
      case BaseType::layout:
        return Value::of(Layout::strided);
      case BaseType::memory_format:
        return Value::of(text == "channels_last" ? MemoryFormat::channels_last
                                                 : MemoryFormat::contiguous);
      default:
        return Value::of(number_of(text));
    }
  }

  const OpEntry& op_;
  CallValues call_;
  uint64_t n_tensors_ = 0;
};

// ---- calls out of schemas

struct Style {
  std::string_view sizes, first, others, number;
};

std::vector<Style> styles() {
  const std::pair<std::string_view, std::string_view> dtypes[] = {
      {"f32", "f32"}, {"f32", "i64"}, {"i64", "i64"}, {"bool", "f32"}, {"c64", "c64"}};
  std::vector<Style> out;
  for (const auto& [first, others] : dtypes)
    for (std::string_view sizes : {"3,4", "4,4", "4", "2,3,4", "2,4,6,6", ""})
      for (std::string_view number : {"1", "2", "0"}) out.push_back({sizes, first, others, number});
  return out;
}

// An argument without a default.
std::string made_up(const SchemaArg& arg, const Style& style, bool& is_first) {
  std::string one(style.number);
  switch (arg.type.base) {
    case BaseType::tensor:
      one = message("{}[{}]", std::exchange(is_first, false) ? style.first : style.others,
                    style.sizes);
      break;
    case BaseType::string:
      return "none";
    case BaseType::boolean:
      one = "false";
      break;
    case BaseType::scalar_type:
      one = "f32";
      break;
    case BaseType::device:
    case BaseType::layout:
    case BaseType::memory_format:
      return "cpu";
    default:
      break;
  }
  if (!arg.type.is_list) return one;
  int32_t n = arg.type.list_size > 0 ? arg.type.list_size : 2;
  std::string list;
  for (int32_t i = 0; i < n; ++i) list += (i ? "," : "") + one;
  return "[" + list + "]";
}

bool takes(const OpEntry& op, const std::string& text) {
  try {
    CallValues call = call_of(op, text);
    OpResults results(op.n_returns);
    run_op(op, call, results);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

CallValues call_of(const OpEntry& op, std::string_view text) { return CallText(op).run(text); }

void make_fakes(CallValues& call, ArgumentKind kind) {
  uint32_t next = 0;
  auto make = [&](Tensor& t) {
    if (t.defined() && !is_wrapped_number(t)) t = fake_like(t, kind, next++);
  };
  for (Tensor& t : call.tensors) make(t);
  for (std::vector<Tensor>& list : call.tensor_lists)
    for (Tensor& t : list) make(t);
}

std::optional<std::string> made_up_call(const OpEntry& op) {
  for (const Style& style : styles()) {
    bool is_first = true;
    std::string text;
    for (const SchemaArg& arg : op.schema.args)
      if (!arg.has_default() && !arg.type.optional)
        text +=
            message("{}{}={}", text.empty() ? "" : " ", arg.name, made_up(arg, style, is_first));
    if (takes(op, text)) return text;
  }
  return std::nullopt;
}

}  // namespace tenon::testing
