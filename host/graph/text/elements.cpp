// Elements of constants: row-major walk, numbers that keep every bit, digests.
#include "graph/text/elements.h"

#include <tenon/half.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/dispatch.h"
#include "core/tensor/tensor_impl.h"
#include "graph/hash.h"
#include "ops/op_ids.h"
#include "ops/op_table.h"

namespace tenon {

namespace {

Tensor on_device(const Tensor& tensor, Device device) {
  if (tensor.device() == device) return tensor;
  const OpEntry& op = entry_of(OpId::aten__to_copy_default);
  std::vector<Value> args;
  for (size_t i = 0; i < op.schema.args.size(); ++i)
    args.push_back(op.schema.args[i].name == "self"     ? Value::of(tensor)
                   : op.schema.args[i].name == "device" ? Value::of(device)
                                                        : default_of(op, i));
  Value result;
  call_op(op.id, args.data(), static_cast<uint32_t>(args.size()), &result, 1);
  return take<Tensor>(result);
}

// Calls f(byte offset from the first element) for each element in row-major order.
template <class F>
void for_each_element(IntList sizes, IntList strides, size_t item, F f) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
  std::vector<int64_t> index(sizes.size(), 0);
  for (int64_t offset = 0;;) {
    f(offset * static_cast<int64_t>(item));
    size_t d = sizes.size();
    for (; d > 0; --d) {
      offset += strides[d - 1];
      if (++index[d - 1] < sizes[d - 1]) break;
      offset -= strides[d - 1] * sizes[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

template <class F>
void for_each_element(const Tensor& t, F f) {
  const TensorImpl* impl = impl_of(t);
  size_t rank = static_cast<size_t>(impl->ndim);
  for_each_element(IntList(impl->sizes, rank), IntList(impl->strides, rank),
                   static_cast<size_t>(itemsize(t.dtype())), f);
}

// What each dtype with numbers in the text is read and written through.
template <class F>
bool with_number_type(Dtype dtype, F f) {
  auto run = [&](auto zero) {
    f(zero);
    return true;
  };
  switch (dtype) {
    case Dtype::u8:
      return run(uint8_t{});
    case Dtype::i8:
      return run(int8_t{});
    case Dtype::i16:
      return run(int16_t{});
    case Dtype::i32:
      return run(int32_t{});
    case Dtype::i64:
      return run(int64_t{});
    case Dtype::f16:
      return run(Half{});
    case Dtype::bf16:
      return run(BFloat16{});
    case Dtype::f32:
      return run(float{});
    case Dtype::f64:
      return run(double{});
    case Dtype::bool_:
      return run(bool{});
    default:
      return false;
  }
}

template <class T>
T element_of(const Literal& literal) {
  auto refuse = [&](std::string_view expected) {
    fail_at(literal.at, message("expected {} as an element", expected));
  };
  if constexpr (std::is_same_v<T, bool>) {
    if (literal.kind != Literal::Kind::boolean) refuse("true or false");
    return literal.integer != 0;
  } else if constexpr (std::is_integral_v<T>) {
    bool fits = literal.integer >= std::numeric_limits<T>::min() &&
                literal.integer <= std::numeric_limits<T>::max();
    if (literal.kind != Literal::Kind::integer || !fits) refuse("an integer that the dtype holds");
    return static_cast<T>(literal.integer);
  } else {
    if (literal.kind == Literal::Kind::integer)
      return static_cast<T>(static_cast<double>(literal.integer));
    if (literal.kind != Literal::Kind::floating) refuse("a number");
    if constexpr (std::is_same_v<T, double>)
      return literal.floating;
    else
      return static_cast<T>(static_cast<float>(literal.floating));
  }
}

// The double with the fewest digits that is read back as this float.
double shortest(float value) {
  char text[32];
  auto written = std::to_chars(text, text + sizeof text, value);
  double out = value;
  std::from_chars(text, written.ptr, out);
  return std::isnan(value) ? double{value} : out;
}

template <class T>
Literal literal_of(T value) {
  if constexpr (std::is_same_v<T, bool>)
    return {.kind = Literal::Kind::boolean, .integer = value};
  else if constexpr (std::is_integral_v<T>)
    return Literal::of_int(value);
  else if constexpr (std::is_same_v<T, double>)
    return {.kind = Literal::Kind::floating, .floating = value};
  else
    return {.kind = Literal::Kind::floating, .floating = shortest(static_cast<float>(value))};
}

constexpr uint64_t plain_nan = 0x7FF8000000000000;  // what `nan` is read as

// Numbers for the elements, unless one would come back with other bits (NaN with content).
bool describe_numbers(const Tensor& tensor, std::vector<Literal>& elements) {
  const char* first = static_cast<const char*>(impl_of(tensor)->data);
  bool exact = true;
  bool has_numbers = with_number_type(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for_each_element(tensor, [&](int64_t offset) {
      T value;
      std::memcpy(static_cast<void*>(&value), first + offset, sizeof value);
      elements.push_back(literal_of(value));
      T again = element_of<T>(elements.back());
      if (std::memcmp(&again, &value, sizeof value) != 0) exact = false;
      exact &= elements.back().floating == elements.back().floating ||
               std::bit_cast<uint64_t>(elements.back().floating) == plain_nan;
    });
  });
  return has_numbers && exact;
}

void check_content(const StatementDoc& statement, const std::string& bytes, size_t wanted) {
  if (bytes.size() != wanted)
    fail_at(statement.at, message("constant %{}: {} bytes of elements are needed, found {}",
                                  statement.results[0].name, wanted, bytes.size()));
}

std::string bytes_of_hex(const StatementDoc& statement) {
  auto digit = [&](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    fail_at(statement.at, message("expected hexadecimal digits 0-9 and a-f, found '{}'", c));
  };
  if (statement.bytes.size() % 2)
    fail_at(statement.at, "expected an even number of hexadecimal digits");
  std::string bytes;
  for (size_t i = 0; i < statement.bytes.size(); i += 2)
    bytes += static_cast<char>(digit(statement.bytes[i]) * 16 + digit(statement.bytes[i + 1]));
  return bytes;
}

std::string bytes_of_numbers(const StatementDoc& statement, Dtype dtype) {
  std::string bytes;
  bool has_numbers = with_number_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (const Literal& literal : statement.elements) {
      T value = element_of<T>(literal);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  });
  if (!has_numbers)
    fail_at(statement.at, message("constants of dtype {} are written as bytes \"...\"", dtype));
  return bytes;
}

// Bytes from the start of the storage to the end of the last element, checked against the limit.
int64_t storage_bytes(const StatementDoc& statement, const TensorMeta& meta, int64_t offset) {
  int64_t last = offset, bytes = 0;
  bool fits = offset >= 0, empty = false;
  for (size_t d = 0; d < meta.sizes.size(); ++d) {
    int64_t size = meta.sizes[d].word(), reach = 0;
    empty |= size == 0;
    if (size == 0) continue;
    fits &= meta.strides[d].word() >= 0 &&
            !__builtin_mul_overflow(size - 1, meta.strides[d].word(), &reach) &&
            !__builtin_add_overflow(last, reach, &last);
  }
  if (empty) last = offset - 1;
  fits = fits && !__builtin_add_overflow(last, int64_t{1}, &last) &&
         !__builtin_mul_overflow(last, itemsize(meta.dtype), &bytes) &&
         bytes <= graph_limits::constant_bytes;
  if (!fits)
    fail_at(statement.at,
            message("constant %{}: the storage of a constant in a text is limited to {} bytes",
                    statement.results[0].name, graph_limits::constant_bytes));
  return bytes;
}

Tensor tensor_with_bytes(const StatementDoc& statement, const TensorMeta& meta, int64_t offset,
                         const std::string& bytes) {
  int64_t item = itemsize(meta.dtype);
  int64_t all = storage_bytes(statement, meta, offset);
  Tensor base = make_tensor(IntList(all / item), meta.dtype);
  if (all) std::memset(impl_of(base)->data, 0, static_cast<size_t>(all));
  Tensor tensor = make_view(base, list_of(meta.sizes), list_of(meta.strides), offset);
  const char* next = bytes.data();
  char* first = static_cast<char*>(impl_of(tensor)->data);
  for_each_element(tensor, [&](int64_t at) {
    std::memcpy(first + at, next, static_cast<size_t>(item));
    next += item;
  });
  return tensor;
}

// Number of elements; the sizes come from a text, so their product is checked.
int64_t element_count(const StatementDoc& statement, const TensorMeta& meta) {
  int64_t count = itemsize(meta.dtype);
  for (SymInt size : meta.sizes)
    if (__builtin_mul_overflow(count, size.word(), &count))
      fail_at(statement.at, "the sizes of the constant multiply to more than 64 bits hold");
  return count / itemsize(meta.dtype);
}

Tensor supplied_constant(const StatementDoc& statement, const TensorMeta& meta,
                         const ParseOptions& options) {
  const std::string& name = statement.results[0].name;
  if (!options.constant)
    fail_at(statement.at, message("the elements of constant %{} are not in the text; give them to "
                                  "the reader (ParseOptions::constant)",
                                  name));
  Tensor tensor = options.constant({name, meta, statement.bytes});
  require(tensor.defined() && tensor.dtype() == meta.dtype &&
              symbolic_text(tensor.sizes()) == symbolic_text(list_of(meta.sizes)),
          "constant %{}: the text says {}{}, the tensor supplied for it is {}", name, meta.dtype,
          symbolic_text(list_of(meta.sizes)), symbolic_text(tensor));
  if (options.check_digests && !statement.bytes.empty()) {
    Digest digest = sha256(element_bytes(tensor));
    std::string found = to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
    if (found != statement.bytes)
      fail_at(statement.at, message("constant %{}: the elements supplied have digest {}, the text "
                                    "says {}",
                                    name, found, statement.bytes));
  }
  return tensor;
}

}  // namespace

std::string element_bytes(const Tensor& tensor) {
  Tensor host = on_device(tensor, kCPU);
  std::string bytes;
  size_t item = static_cast<size_t>(itemsize(host.dtype()));
  const char* first = static_cast<const char*>(impl_of(host)->data);
  if (host.is_contiguous())
    return std::string(first, static_cast<size_t>(impl_of(host)->numel) * item);
  bytes.reserve(static_cast<size_t>(impl_of(host)->numel) * item);
  for_each_element(host, [&](int64_t offset) { bytes.append(first + offset, item); });
  return bytes;
}

void describe_elements(const Tensor& tensor, size_t inline_elements, StatementDoc& statement) {
  statement.content = StatementDoc::Content::sha256;
  if (tensor.is_fake()) return;  // no elements, hence no digest
  if (static_cast<size_t>(impl_of(tensor)->numel) <= inline_elements) {
    statement.content = StatementDoc::Content::elements;
    if (describe_numbers(on_device(tensor, kCPU), statement.elements)) return;
    statement.elements.clear();
    statement.content = StatementDoc::Content::bytes;
    statement.bytes = to_hex(element_bytes(tensor));
    return;
  }
  Digest digest = sha256(element_bytes(tensor));
  statement.bytes = to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

Tensor build_constant(const StatementDoc& statement, const TensorMeta& meta, int64_t offset,
                      const ParseOptions& options) {
  int64_t count = element_count(statement, meta);
  if (statement.content == StatementDoc::Content::sha256)
    return supplied_constant(statement, meta, options);
  storage_bytes(statement, meta, offset);
  std::string bytes = statement.content == StatementDoc::Content::bytes
                          ? bytes_of_hex(statement)
                          : bytes_of_numbers(statement, meta.dtype);
  int64_t wanted;
  if (__builtin_mul_overflow(count, itemsize(meta.dtype), &wanted)) wanted = -1;
  check_content(statement, bytes, static_cast<size_t>(wanted));
  return on_device(tensor_with_bytes(statement, meta, offset, bytes), meta.device);
}

}  // namespace tenon
