// Calls of ops, as a model file may ask for them: any op, any arguments that its schema has room
// for. An op computes or refuses, as do numbers that no argument can hold. The first line is the
// op; another text stands for some op. What follows are the arguments, in numbers that make small
// tensors, small numbers and a few extremes. A call that runs must run on fakes, and as the parts
// of the op where it has some, and give results of the same dtypes and shapes there; integers must
// be equal. TENON_FUZZ_PRINT=1 shows each call.
#include "core/tensor/tensor_impl.h"
#include "debug/op_compare.h"
#include "harness/fuzz.h"
#include "ops/decompose.h"

#include <cstdio>
#include <cstdlib>
#include <limits>

using namespace tenon;

namespace {

const OpEntry& op_of(std::string_view line) {
  if (const OpEntry* op = find_op(line)) return *op;
  static const auto& names = *new std::vector<std::string>(all_op_names());
  return *find_op(names[std::hash<std::string_view>()(line) % names.size()]);
}

// Arguments out of an input's bytes; zeros once they are used up.
class Caller {
 public:
  Caller(std::string_view bytes, const OpEntry& op, ArgumentKind kind)
      : bytes_(bytes), kind_(kind) {
    for (size_t i = 0; i < op.schema.args.size(); ++i) add(op, i);
  }

  CallValues call;
  std::string text;
  bool is_integral = true;

 private:
  void add(const OpEntry& op, size_t index) {
    const SchemaArg& arg = op.schema.args[index];
    if (arg.has_default() && next() % 4 == 0) return add_value(default_of(op, index), "default");
    if (arg.type.optional && next() % 4 == 0) return add_value({}, "none");
    arg.type.is_list ? add_list(arg) : add_plain(arg);
  }

  uint8_t next() {
    if (bytes_.empty()) return 0;
    auto byte = static_cast<uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return byte;
  }

  void add_value(Value value, std::string_view shown) {
    call.values.push_back(value);
    text += message(" {}", shown);
  }

  Dtype dtype() {
    constexpr Dtype all[] = {Dtype::f32, Dtype::i64,    Dtype::f64,  Dtype::bool_, Dtype::i32,
                             Dtype::u8,  Dtype::f16,    Dtype::bf16, Dtype::i8,    Dtype::i16,
                             Dtype::c64, Dtype::f8e5m2, Dtype::c128, Dtype::c32,   Dtype::f8e4m3fn};
    return all[next() % std::size(all)];
  }

  int64_t integer() {
    constexpr int64_t odd[] = {
        INT64_MIN, INT64_MAX, int64_t{1} << 62, -(int64_t{1} << 62), INT32_MIN, 100, -100, 64};
    auto byte = next();
    return byte < 240 ? byte % 12 - 4 : odd[byte % std::size(odd)];
  }

  double real() {
    is_integral = false;
    constexpr double inf = std::numeric_limits<double>::infinity();
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    constexpr double odd[] = {0.5, -0.5, 1e300, -1e300, 1e-300, inf, -inf, nan};
    auto byte = next();
    return byte < 128 ? byte % 16 - 4 : odd[byte % std::size(odd)];
  }

  // Small sizes, rows or columns first, now and then the same element again and again.
  Tensor tensor() {
    Dtype type = dtype();
    auto form = next();
    std::vector<int64_t> sizes(form % 6), strides(sizes.size());
    for (int64_t& size : sizes) size = next() % 5;
    int64_t step = 1;
    for (size_t i = 0; i < sizes.size(); ++i) {
      size_t d = form & 64 ? i : sizes.size() - 1 - i;
      strides[d] = form & 128 && i == 0 ? 0 : step;
      step *= std::max<int64_t>(sizes[d], 1);
    }
    Tensor t = make_tensor(
        TensorMeta{type, kCPU, dims_of(SymIntList(sizes)), dims_of(SymIntList(strides))});
    fill(t, type);
    text += " " + to_text(t);
    is_integral = is_integral && (is_integer(type) || type == Dtype::bool_);
    return kind_ == ArgumentKind::real ? t : fake_like(t, kind_, 0);
  }

  void fill(const Tensor& t, Dtype type) {
    TensorImpl* impl = impl_of(t);
    auto rank = static_cast<size_t>(impl->ndim);
    int64_t items = span_of(IntList(impl->sizes, rank), IntList(impl->strides, rank));
    auto* data = static_cast<uint8_t*>(impl->data);
    size_t item = static_cast<size_t>(itemsize(type));
    for (int64_t i = 0; i < items; ++i, data += item) {
      std::fill(data, data + item, 0);
      auto byte = next();
      if (type == Dtype::bool_)
        data[0] = byte & 1;
      else if (is_integer(type) && byte < 240)
        store_small(data, item, byte % 8 - 2);
      else
        data[item - 1] = byte, data[0] = byte;
    }
  }
  static bool is_integer(Dtype t) {
    return t == Dtype::u8 || t == Dtype::i8 || t == Dtype::i16 || t == Dtype::i32 ||
           t == Dtype::i64;
  }
  static void store_small(uint8_t* data, size_t item, int value) {
    std::fill(data, data + item, value < 0 ? 0xFF : 0);
    data[0] = static_cast<uint8_t>(value);
  }

  void add_list(const SchemaArg& arg) {
    size_t length =
        arg.type.list_size > 0 && next() % 4 ? static_cast<size_t>(arg.type.list_size) : next() % 5;
    text += " [";
    Value list;
    switch (arg.type.base) {
      case BaseType::tensor: {
        auto& items = call.tensor_lists.emplace_back();
        for (size_t i = 0; i < length; ++i)
          items.push_back(arg.type.optional_element && next() % 3 == 0 ? Tensor() : tensor());
        list = Value::of(TensorList(items));
        break;
      }
      case BaseType::floating: {
        auto& items = call.floats.emplace_back();
        for (size_t i = 0; i < length; ++i) items.push_back(real());
        list = Value::of(DoubleList(items));
        break;
      }
      case BaseType::boolean: {
        auto& items = call.bools.emplace_back(new bool[length + 1]());
        for (size_t i = 0; i < length; ++i) items[i] = next() & 1;
        list = Value::of(BoolList(items.get(), length));
        break;
      }
      default: {
        auto& items = call.ints.emplace_back();
        for (size_t i = 0; i < length; ++i) items.push_back(integer());
        list = Value::of(IntList(items));
        text += to_text(IntList(items));
      }
    }
    add_value(list, "]");
  }

  void add_plain(const SchemaArg& arg) {
    switch (arg.type.base) {
      case BaseType::tensor:
        return add_value(Value::of(call.tensors.emplace_back(tensor())), "");
      case BaseType::floating: {
        double value = real();
        return add_value(Value::of(value), message("{}", value));
      }
      case BaseType::boolean: {
        bool value = next() & 1;
        return add_value(Value::of(value), message("{}", value));
      }
      case BaseType::scalar: {
        Number value = next() & 1 ? Number(real()) : Number(integer());
        return add_value(Value::of(value), to_text(value));
      }
      case BaseType::string:
        return add_string();
      case BaseType::scalar_type: {
        Dtype value = dtype();
        return add_value(Value::of(value), name_of(value));
      }
      case BaseType::layout:
        return add_value(Value::of(next() % 8 ? Layout::strided : Layout::sparse), "layout");
      case BaseType::device:
        return add_value(Value::of(kCPU), "cpu");
      case BaseType::memory_format:
        return add_value(Value::of(static_cast<MemoryFormat>(next() % 4)), "memory_format");
      default: {
        int64_t value = integer();
        return add_value(Value::of(value), message("{}", value));
      }
    }
  }

  void add_string() {
    constexpr std::string_view all[] = {"none",   "",      "mean", "sum",  "floor",
                                        "trunc",  "prod",  "amax", "tanh", "reflect",
                                        "linear", "lower", "ij",   "left", "xy"};
    std::string_view value = all[next() % std::size(all)];
    add_value(Value::of(value), value);
  }

  std::string_view bytes_;
  ArgumentKind kind_;
};

bool same_shape(const Tensor& a, const Tensor& b) {
  bool same = a.dim() == b.dim();
  for (int64_t d = 0; same && d < a.dim(); ++d) same = a.size(d).word() == b.size(d).word();
  return same;
}

// A view may show one element more often than a comparison has memory for.
bool is_small(const Tensor& t) { return t.numel().word() <= 1 << 20; }

// `with_values`: results of integers must be equal, too.
void check_same(const OpEntry& op, const OpResults& found, const OpResults& expected,
                bool with_values, std::string_view how) {
  std::vector<Value> a = flattened(found), b = flattened(expected);
  fuzz::check(a.size() == b.size(), message("{} {}: another number of results", op.name, how));
  for (size_t i = 0; i < a.size(); ++i) {
    Tensor x = tensor_in(a[i]), y = tensor_in(b[i]);
    bool both = x.defined() && y.defined();
    bool like = both ? x.dtype() == y.dtype() && same_shape(x, y) : x.defined() == y.defined();
    fuzz::check(like, message("{} {}: result {} is {}, expected {}", op.name, how, i, to_text(x),
                              to_text(y)));
    bool exact = both && with_values && !is_floating(y.dtype()) && !is_complex(y.dtype());
    if (exact && is_small(y)) fuzz::check(x.equal(y), message("{} {}: other values", op.name, how));
  }
}

// What the kernel takes, fakes and parts take, or say that they cannot.
template <class F>
void check_other_way(const OpEntry& op, const OpResults& expected, bool with_values,
                     std::string_view how, const F& run) {
  OpResults found(op.n_returns);
  try {
    run(found);
  } catch (const UserError& e) {
    bool cannot = e.code() == ErrorCode::unsupported || e.code() == ErrorCode::data_dependent;
    fuzz::check(cannot, message("{} {} refuses what the kernel takes: {}", op.name, how, e.what()));
    return;
  }
  check_same(op, found, expected, with_values, how);
}

constexpr std::initializer_list<ErrorCode> refusals = {
    ErrorCode::invalid_argument, ErrorCode::unsupported, ErrorCode::data_dependent};

}  // namespace

TENON_FUZZ_TARGET(op_call) {
  static const bool prints = std::getenv("TENON_FUZZ_PRINT") != nullptr;
  fuzz::Lines lines(input);
  const OpEntry& op = op_of(lines.next());
  std::string_view bytes = lines.rest();
  OpResults results(op.n_returns);
  bool integral = false;
  bool ran = fuzz::accepts(refusals, [&] {
    Caller caller(bytes, op, ArgumentKind::real);
    if (prints) std::fprintf(stderr, "%s%s\n", op.name.c_str(), caller.text.c_str());
    integral = caller.is_integral && !(op.tags & TN_TAG_RANDOM);
    run_op(op, caller.call, results);
  });
  if (!ran) return;
  check_other_way(op, results, false, "on fakes", [&](OpResults& found) {
    Caller caller(bytes, op, ArgumentKind::fake);
    FakeScope fakes;
    run_op(op, caller.call, found);
  });
  if (!can_decompose(op) || op.mutated_args) return;
  check_other_way(op, results, integral, "in parts", [&](OpResults& found) {
    Caller caller(bytes, op, ArgumentKind::real);
    const std::vector<Value>& args = caller.call.values;
    decompose({&op, args.data(), found.values.data(), static_cast<uint32_t>(args.size()),
               static_cast<uint32_t>(found.values.size())});
  });
}
