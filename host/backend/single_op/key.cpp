// Reading a call: its key, and the numbers that the key leaves out.
#include "backend/single_op/key.h"

#include "core/device/matmul_precision.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tenon {

namespace {

constexpr uintptr_t vector_bytes = 16;

// Code for these is simpler than code for any number, and there are few of them.
bool is_plain_number(double x) {
  return x == 0.5 || x == -0.5 || (std::trunc(x) == x && std::abs(x) <= 4);
}

uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15;
  return hash ^ (hash >> 29);
}

// From the innermost dimension on; broadcast dimensions and those of size 1 come first.
void order_dims(const Tensor& t, InlineVector<DimClass, 6>& out) {
  const detail::TensorHead& head = *t.head();
  for (int32_t d = 0; d < head.ndim; ++d)
    out.push_back({static_cast<uint8_t>(d), Spread::dense, no_number, no_number});
  auto rank = [&](const DimClass& c) {
    return head.sizes[c.dim] == 1 ? int64_t{-1} : head.strides[c.dim];
  };
  std::sort(out.begin(), out.end(), [&](const DimClass& a, const DimClass& b) {
    return rank(a) != rank(b) ? rank(a) < rank(b) : a.dim > b.dim;
  });
}

// How much is read decides about code, though sizes are open: a sum is one block of threads, or all
// of a device.
uint64_t size_class(const InlineVector<Operand, 4>& operands) {
  constexpr int64_t much = int64_t{1} << 15, very_much = int64_t{1} << 20;
  int64_t most = 0;
  for (const Operand& o : operands) {
    int64_t n = 1;
    for (int32_t d = 0; d < o.tensor->head()->ndim; ++d) n *= o.tensor->head()->sizes[d];
    most = std::max(most, n);
  }
  return most < much ? 0 : most < very_much ? 1 : 2;
}

}  // namespace

void CallKey::add_bytes(const void* bytes, size_t size) {
  add(size);
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(bytes) + at, std::min(sizeof word, size - at));
    add(word);
  }
}

uint64_t CallKey::hash() const {
  uint64_t out = words_.size();
  for (uint64_t word : words_) out = mixed(out, word);
  return out;
}

ReadCall::ReadCall(const CallArgs& call, Device device, ResultPlace place, NumberForm form) {
  key_.add(static_cast<uint64_t>(call.op->id) << 32 | static_cast<uint64_t>(device.type) << 8 |
           static_cast<uint64_t>(place.kind) << 2 | static_cast<uint64_t>(form) << 1 |
           static_cast<uint64_t>(thread_modes.deterministic));
  key_.add(static_cast<uint64_t>(device.index) << 1 | static_cast<uint64_t>(allows_tf32()));
  for (uint32_t i = 0; i < call.n_args; ++i) read(call.args[i], call.op->schema.args[i], i, form);
  if (!call.op->def->formula) key_.add(size_class(operands_));
  if (place.kind == ResultPlace::Kind::given) read_tensor(*place.out);
}

InlineVector<int64_t, 32> ReadCall::numbers() const {
  InlineVector<int64_t, 32> out(sizes_.begin(), sizes_.end());
  for (int64_t stride : strides_) out.push_back(stride);
  for (int64_t bits : float_bits_) out.push_back(bits);
  return out;
}

void ReadCall::read(const Value& arg, const SchemaArg& schema, uint32_t index, NumberForm form) {
  key_.add(static_cast<uint64_t>(arg.tag) << 32 | arg.count);
  switch (arg.tag) {
    case Tag::none:
      return;
    case Tag::tensor:
      return read_tensor(*arg.as<Tensor>());
    case Tag::tensors:
      for (uint32_t i = 0; i < arg.count; ++i) read_tensor(arg.as<Tensor>()[i]);
      return;
    case Tag::ints:
    case Tag::floats:
      return key_.add_bytes(arg.as<char>(), arg.count * sizeof(int64_t));
    case Tag::bools:
    case Tag::string:
      return key_.add_bytes(arg.as<char>(), arg.count);
    case Tag::floating:
      if (form == NumberForm::symbols && schema.type.base == BaseType::scalar &&
          !is_plain_number(arg.number().to_double())) {
        floats_.push_back(index);
        float_bits_.push_back(std::bit_cast<int64_t>(arg.number().to_double()));
        return key_.add(1);
      }
      key_.add(0);
      return key_.add(arg.payload);
    case Tag::integer:
    case Tag::boolean:
    case Tag::dtype:
    case Tag::layout:
    case Tag::memory_format:
    case Tag::device:
      return key_.add(arg.payload);
    default:  // graphs, opaque objects, lists of strings
      plain_ = false;
  }
}

void ReadCall::read_tensor(const Tensor& t) {
  if (!t.defined()) return key_.add(~uint64_t{0});
  const detail::TensorHead& head = *t.head();
  Operand& operand = operands_.emplace_back();
  operand.tensor = &t;
  operand.is_aligned = reinterpret_cast<uintptr_t>(head.data) % vector_bytes == 0;
  key_.add(static_cast<uint64_t>(head.dtype) << 32 | static_cast<uint64_t>(head.ndim) << 8 |
           static_cast<uint64_t>(operand.is_aligned) << 1 |
           static_cast<uint64_t>(is_wrapped_number(t)));
  if (head.flags & (TN_T_CONJ | TN_T_NEG)) plain_ = false;
  read_dims(t, operand);
}

uint32_t ReadCall::size_number(int64_t size) {
  auto known = std::find(sizes_.begin(), sizes_.end(), size);
  auto at = static_cast<uint32_t>(known - sizes_.begin());
  if (known == sizes_.end()) sizes_.push_back(size);
  return at;
}

// A size is written as the value 0 or 1, or as 2 + where it stands among the sizes.
void ReadCall::read_dims(const Tensor& t, Operand& out) {
  const detail::TensorHead& head = *t.head();
  order_dims(t, out.dims);
  int64_t next = 1;  // the stride that a dense dimension has
  for (DimClass& c : out.dims) {
    int64_t size = head.sizes[c.dim], stride = head.strides[c.dim];
    if (size > 1) c.size = size_number(size);
    c.spread = size == 1        ? Spread::single
               : stride == 0    ? Spread::broadcast
               : stride == next ? Spread::dense
                                : Spread::strided;
    uint64_t word = size > 1 ? 2 + c.size : static_cast<uint64_t>(size);
    key_.add(word << 32 | static_cast<uint64_t>(c.dim) << 8 | static_cast<uint64_t>(c.spread));
    if (c.spread == Spread::strided && stride > 1) {
      c.stride = n_strides();
      strides_.push_back(stride);
    } else if (c.spread == Spread::strided) {
      key_.add(static_cast<uint64_t>(stride));  // 1, where elements share memory
    }
    if (c.spread == Spread::dense || c.spread == Spread::strided)
      next = stride * std::max<int64_t>(size, 1);
  }
}

}  // namespace tenon
