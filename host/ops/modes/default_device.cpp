// The default device: factories that name no device make tensors there, see <tenon/devices.h>.
//
// Method: while it is not the CPU, a key above all others puts the device into calls of factories,
// so that graphs name it and nothing below knows of it. Without one the key is off and costs nothing.
#include "ops/modes/default_device.h"

#include "core/inline_vector.h"
#include "core/tensor/from_values.h"
#include "ops/op_table.h"

#include <tenon/devices.h>
#include <tenon/ops/copy.h>

namespace tenon {

int8_t device_of_factory(const Schema& schema) {
  int8_t at = -1;
  for (size_t i = 0; i < schema.args.size(); ++i) {
    const SchemaArg& arg = schema.args[i];
    if (arg.type.base == BaseType::tensor) return -1;  // it is made like that one
    if (arg.type.base == BaseType::device) at = static_cast<int8_t>(i);
  }
  return at;
}

void run_on_default_device(const CallArgs& call) {
  ModeScope below(0, bit(Key::defaults));
  int8_t at = call.op->device_of_factory;
  if (at < 0 || call.args[at].tag != Tag::none)
    return dispatch(*call.op, call.args, call.n_args, call.results, call.n_results);
  InlineVector<Value, 12> args;
  for (uint32_t i = 0; i < call.n_args; ++i) args.push_back(call.args[i]);
  args[at] = Value::of(thread_modes.default_device);
  dispatch(*call.op, args.data(), call.n_args, call.results, call.n_results);
}

Device default_device() { return thread_modes.default_device; }

void set_default_device(Device device) {
  bool is_always_there = device.type == DeviceType::cpu || device.type == DeviceType::meta;
  if (!is_always_there) static_cast<void>(device_properties(device));  // throws the reason
  thread_modes.default_device = device;
  uint64_t key = bit(Key::defaults);
  thread_modes.include = (thread_modes.include & ~key) | (device == kCPU ? 0 : key);
}

DefaultDevice::DefaultDevice(Device device) : before_(default_device()) {
  set_default_device(device);
}
DefaultDevice::~DefaultDevice() { set_default_device(before_); }

namespace {

// A literal is the program's own also within a body: nothing of it is recorded.
const bool moves_literals = (
    literal_slot =
        [](const Tensor& literal) {
          ModeScope for_real(0, bit(Key::trace) | bit(Key::autograd) | keys_of_user);
          return literal.to(thread_modes.default_device, literal.dtype());
        },
    true);

}  // namespace

}  // namespace tenon
