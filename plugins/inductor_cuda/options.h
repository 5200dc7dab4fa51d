// What the options of plugin.toml, and the device, ask of the parts of the compiler.
#pragma once

#include "emit/frame.h"
#include "machine.h"

#include <inductor_options.h>
#include <loopir/kernel.h>

namespace inductor_cuda {

using Given = tenon::plugin::inductor_options;

loopir::LoweringOptions lowering_options(const Given& given, const Device& device);
loopir::FusionOptions fusion_options(const Given& given, const Device& device);
FormOptions form_options(const Given& given, const tn_compile_request& request,
                         const Device& device);
Numerics numerics_of(const Given& given);

}  // namespace inductor_cuda
