// Where factories make tensors that name no device.
#pragma once

#include "core/dispatch.h"

namespace tenon {

struct Schema;

/// The argument that names the device of a factory; -1: the op is none.
int8_t device_of_factory(const Schema& schema);
/// What the key of defaults does.
void run_on_default_device(const CallArgs& call);

}  // namespace tenon
