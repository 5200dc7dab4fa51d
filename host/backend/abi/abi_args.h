// Arguments of ops at the border of the plugin ABI: tn_arg from Value, and back.
#pragma once

#include "backend/abi/bridge.h"
#include "core/value.h"

#include <list>
#include <span>
#include <string_view>
#include <vector>

namespace tenon {

struct OpEntry;

/// The strings of converted arguments; what points into one stays valid while others are added.
using StringLists = std::list<std::vector<tn_str>>;

/// An argument of kind none, with no byte unset.
tn_arg empty_arg(uint32_t count = 0);
/// A value that is neither a tensor nor a reference nor symbolic. Lists are borrowed from `v`, but
/// for strings, which have another layout and go into `strings`. Kinds without a plain form are
/// none.
tn_arg plain_arg(const Value& v, StringLists& strings);

/// A call's arguments as the ABI has them, on the stack as far as it goes. Tensors are numbered in
/// order of appearance; `values` has their handles.
class AbiArguments {
 public:
  explicit AbiArguments(const Value* args, uint32_t n_args);
  const tn_arg* args() const { return args_.data(); }
  uint32_t size() const { return static_cast<uint32_t>(args_.size()); }
  tn_tensor* const* values() const { return values_.data(); }

 private:
  uint32_t add(const Tensor& t);
  InlineVector<tn_arg, 16> args_;
  InlineVector<tn_tensor*, 16> values_;
  std::list<std::vector<uint32_t>> id_lists_;
  StringLists string_lists_;
};

/// The other way: what a plugin passes for an op, checked as far as the ABI allows. Throws
/// UserError for an unknown kind and for a symbolic argument.
class HostArguments {
 public:
  HostArguments(const tn_arg* args, uint32_t n_args, tn_tensor* const* values);
  HostArguments(const HostArguments&) = delete;
  std::span<Value> values() { return {values_.data(), values_.size()}; }
  /// The arguments that were left out at the end. Throws UserError where one has no default.
  void add_defaults(const OpEntry& op);

 private:
  Value convert(const tn_arg& a);
  Value convert_list(const tn_arg& a);
  Value convert_dims(const tn_arg& a);

  tn_tensor* const* tensors_;
  InlineVector<Value, 16> values_;
  std::vector<Tensor> held_;  // values point into it: it has room for all arguments
  // Lists, which allocate nothing while they are empty.
  std::list<std::vector<Tensor>> lists_;
  std::list<std::vector<std::string_view>> strings_;
  std::list<std::vector<int64_t>> ints_;
};

}  // namespace tenon
