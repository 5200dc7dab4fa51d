// What a call of an op on a device is known by: calls of one key run one compiled graph.
//
// Problem: an eager op shall find its code by one look-up, and as few graphs as possible shall serve
// all calls. Model: what the code may not depend on is left out of the key and handed over as a
// number: sizes from 2 on, strides that do not follow from sizes, floating numbers. What remains is
// the op, and of each tensor dtype, rank, which sizes are 0, 1 or equal to another, the order of its
// dimensions in memory, which of them are dense, broadcast or strided, and whether it begins on 16
// bytes; of all other arguments the value. Method: one walk over the arguments writes the key and
// collects the numbers in an order that the key determines, so that the graph made at the first call
// and every later call name them alike. Cost: about 10 ns a dimension.
#pragma once

#include "core/inline_vector.h"
#include "ops/device_call.h"
#include "ops/op_table.h"

#include <span>

namespace tenon {

/// Words that are compared as they are.
class CallKey {
 public:
  void add(uint64_t word) { words_.push_back(word); }
  void add_bytes(const void* bytes, size_t size);
  uint64_t hash() const;
  friend bool operator==(const CallKey& a, const CallKey& b) {
    return std::equal(a.words_.begin(), a.words_.end(), b.words_.begin(), b.words_.end());
  }

 private:
  InlineVector<uint64_t, 48> words_;
};

struct CallKeyHash {
  size_t operator()(const CallKey& key) const { return key.hash(); }
};

/// How a dimension lies in memory: one after another from the innermost to the outermost.
enum class Spread : uint8_t {
  dense,      ///< right behind the one inside of it
  broadcast,  ///< stride 0
  single,     ///< of size 1: its stride means nothing
  strided     ///< its stride is a number of its own
};

/// A dimension of an operand: where its size and stride stand among the numbers of the call.
struct DimClass {
  uint8_t dim;  ///< of the tensor
  Spread spread;
  uint32_t size, stride;  ///< positions; `no_number` where the key says the value
};
inline constexpr uint32_t no_number = 0xFFFFFFFFu;

struct Operand {
  const Tensor* tensor;
  InlineVector<DimClass, 6> dims;  ///< from the innermost on
  bool is_aligned;                 ///< begins on 16 bytes
};

/// How numbers among the arguments are treated.
enum class NumberForm : uint8_t {
  symbols,  ///< floating ones are handed over at each call, unless they are as plain as 0, 1 or 2
  values    ///< the graph holds them
};

/// A call, taken apart. Borrows the arguments. Threads: one.
class ReadCall {
 public:
  /// A given tensor that the result goes into is the last operand.
  ReadCall(const CallArgs& call, Device device, ResultPlace place, NumberForm form);
  ReadCall(const ReadCall&) = delete;

  const CallKey& key() const { return key_; }
  std::span<const Operand> operands() const { return {operands_.begin(), operands_.end()}; }
  /// Arguments that are numbers of the call, in order.
  std::span<const uint32_t> number_args() const { return {floats_.begin(), floats_.end()}; }
  bool has_numbers() const { return !floats_.empty(); }
  /// What is handed over: sizes, then strides, then floating numbers as their bits.
  InlineVector<int64_t, 32> numbers() const;
  uint32_t n_sizes() const { return static_cast<uint32_t>(sizes_.size()); }
  uint32_t n_strides() const { return static_cast<uint32_t>(strides_.size()); }
  /// Whether every argument can stand in a graph of one node.
  bool is_plain() const { return plain_; }

 private:
  void read(const Value& arg, const SchemaArg& schema, uint32_t index, NumberForm form);
  void read_tensor(const Tensor& t);
  void read_dims(const Tensor& t, Operand& out);
  uint32_t size_number(int64_t size);

  CallKey key_;
  InlineVector<Operand, 4> operands_;
  InlineVector<int64_t, 12> sizes_, strides_;
  InlineVector<uint32_t, 4> floats_;
  InlineVector<int64_t, 4> float_bits_;
  bool plain_ = true;
};

}  // namespace tenon
