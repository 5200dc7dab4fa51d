// Recorded calls of PyTorch's ops (reference/ops/*.safetensors) and how to repeat them here.
//
//   OpRecording recording = OpRecording::read(path);
//   for (const RecordedCall& c : recording.cases()) {
//     CallValues call = make_call(recording, c, *find_op(recording.op()), ArgumentKind::real);
//     dispatch(op, call.values.data(), ...);
//   }
#pragma once

#include "core/sym/shape_env.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "ops/op_table.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

/// One call: views into the recording that it belongs to.
struct RecordedCall {
  size_t index;
  formats::JsonView args, kwargs, out;
  std::optional<formats::JsonView> vjp;  ///< absent where the op is not differentiable
};

/// A file of recorded calls of one overload.
class OpRecording {
 public:
  static OpRecording read(const std::string& path);
  const std::string& op() const { return file_->metadata.at("op"); }
  const std::vector<RecordedCall>& cases() const { return cases_; }
  /// The tensor that a JSON description names, with the strides that it tells; on the CPU.
  Tensor tensor(const formats::JsonView& description) const;

  /// Where the tensors of calls are, and what their device arguments say.
  void place_on(Device device) { device_ = device; }
  Device device() const { return device_; }
  /// The same elements and strides there.
  Tensor placed(const Tensor& t) const;

 private:
  Device device_ = kCPU;
  std::unique_ptr<formats::Safetensors> file_;
  std::unique_ptr<formats::JsonDocument> document_;
  std::vector<RecordedCall> cases_;
};

enum class ArgumentKind {
  real,      ///< tensors with data
  fake,      ///< fakes with plain sizes
  symbolic,  ///< fakes in which every size is a symbol of the current ShapeEnv
};

/// Arguments of one call, with all that they point to. Not copyable: values hold addresses.
struct CallValues {
  std::vector<Value> values;
  std::deque<Tensor> tensors;
  std::deque<std::vector<Tensor>> tensor_lists;
  std::deque<std::vector<int64_t>> ints;
  std::deque<std::vector<double>> floats;
  std::deque<std::unique_ptr<bool[]>> bools;
  std::deque<std::string> strings;
  /// The recorded tensors by their keys, in the order in which they were read.
  std::vector<std::pair<std::string, Tensor>> recorded;

  CallValues() = default;
  CallValues(CallValues&&) = default;
  CallValues(const CallValues&) = delete;
};

/// The arguments in schema order, those left out with their defaults. Throws UserError for what the
/// host does not support, such as complex numbers.
CallValues make_call(const OpRecording& recording, const RecordedCall& recorded, const OpEntry& op,
                     ArgumentKind kind);

/// The floating tensors of the call as `vjp.grads` counts them: those in args, then in kwargs, in
/// the order in which they were recorded.
std::vector<Tensor> recorded_float_tensors(const RecordedCall& recorded, const CallValues& call);

/// Like `t` without data; in `symbolic` form its sizes are symbols with the sizes of `t` as hints.
Tensor fake_like(const Tensor& t, ArgumentKind kind, uint32_t input);

bool is_recorded_tensor(const formats::JsonView& value);
/// A number of JSON, or {"float": "inf"}.
Number recorded_number(const formats::JsonView& value);

}  // namespace tenon
