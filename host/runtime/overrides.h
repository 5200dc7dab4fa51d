// Overrides by compile number, for bisecting: `filter:value;filter:value`.
//
// A filter is a list of numbers `0,5`, a range `10-20`, or a comparison `>10 >=10 <5 <=5`; the
// first rule whose filter holds counts. The number is that of the callable or of the loaded model, the
// first part of a compile id; they are counted together, from 0 on as they are made. Flags: dynamo.debug_backend_override, whose values are backends, and
// dynamo.debug_dynamo_config_override and dynamo.debug_inductor_config_override, whose values are
// `key=value,key=value`: flags of dynamo, options of the backend inductor.
#pragma once

#include "config/config.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

/// The number of a callable or a model that is made now. Threads: any.
uint32_t next_compile_number();

/// The value for `number`, if a rule holds. Throws UserError ConfigError for a text that is not a
/// list of rules; `flag` names it.
std::optional<std::string> override_for(std::string_view flag, std::string_view rules,
                                        int64_t number);

/// The backend that a callable or model of this number gets instead of its own; checked to exist.
std::optional<std::string> backend_override(int64_t number);
/// The flags and options that count while a callable or model of this number is compiled; null: none.
config::CompileOptions flag_override(int64_t number);

}  // namespace tenon
