// An op that the host runs: its arguments with the tensors and sizes of a call.
#pragma once

#include "call_tensors.h"
#include "loopir/program.h"

#include <tenon/plugin.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace loopir {

/// Threads: any; the object is not changed by calls.
class ExternCall {
 public:
  ExternCall() = default;
  explicit ExternCall(const Extern& op);

  /// Borrowed: who gives the tensor keeps it until run() is over.
  using TensorOf = std::function<tn_tensor*(const View&)>;
  /// The results, in order; those of no tensor are empty.
  std::vector<tenon::plugin::tensor> run(const Expressions& x, std::span<const int64_t> table,
                                         const TensorOf& tensor_of) const;
  /// Buffers; none where nobody reads one.
  const Ids& results() const { return results_; }
  /// Whether tensor_of() has to give it views of whole storages.
  bool looks_by_place() const { return looks_by_place_; }
  /// What other code reads as result r: the tensor, or where its strides are others, or its memory
  /// is the call's own (`is_lent`), a copy of it. Throws unless dtype and sizes are the buffer's.
  tenon::plugin::tensor as_promised(size_t r, tenon::plugin::tensor found, const Program& program,
                                    std::span<const int64_t> table, bool is_lent,
                                    const CallPlace& place) const;

  template <class V>
  void fields(V& v) {
    v(name_);
    v(views_);
    v(results_);
    v(arguments_);
    v(looks_by_place_);
  }
  /// After reading: finds the op. Throws `error`: TN_DATA_LOSS where the program has not what it
  /// reads, TN_NOT_FOUND for an op that the host does not have.
  void link(const Program& program);

 private:
  void check_result(size_t r, const tn_tensor* t, int32_t dtype,
                    std::span<const int64_t> sizes) const;
  /// One argument with all that it points to.
  struct Argument {
    uint32_t kind = TN_ARG_NONE;
    int64_t plain[2] = {};        // numbers, dtypes and the like, as their bits; of symbolic real
                                  // numbers the place in the table
    std::vector<uint32_t> views;  // of values: positions in views_
    std::vector<int64_t> ints;
    std::vector<double> floats;
    std::vector<uint8_t> bools;
    std::vector<std::string> texts;
    Ids symbolic;  // indices of symbolic numbers

    template <class V>
    friend void fields(V& v, Argument& a) {
      v(a.kind);
      v(a.plain);
      v(a.views);
      v(a.ints);
      v(a.floats);
      v(a.bools);
      v(a.texts);
      v.indices(a.symbolic);
    }
  };
  void add(const tn_arg& a, const Extern& op, size_t position, const std::map<Id, uint32_t>& views);
  tn_arg pointing_into(const Argument& a);
  void make_args();

  uint32_t op_ = TN_NO_VALUE;
  std::string name_;
  std::vector<View> views_;
  Ids results_;
  std::vector<Argument> arguments_;
  bool looks_by_place_ = false;
  std::vector<std::vector<tn_str>> heads_;  // of arguments that are lists of texts
  std::vector<tn_arg> args_;                // over arguments_
};

template <class V>
void fields(V& v, ExternCall& call) {
  call.fields(v);
}

}  // namespace loopir
