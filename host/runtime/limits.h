// When a callable may be compiled once more, and what happens instead.
#pragma once

#include "runtime/call.h"

#include <string>

namespace tenon {

/// The name of a callable in messages.
std::string display_name(const detail::Site& site);

/// Throws UserError ConfigError for flags that contradict each other.
void check_flag_conflicts();

/// Finds out why no version serves the call, tells it as flags ask, and returns it. Throws
/// RecompileError under dynamo.error_on_recompile.
std::string note_recompile(detail::Site& site, const detail::Leaves& leaves);

/// What a call does that no version serves.
enum class Miss : uint8_t { compile, eager, replay };
/// Decides that by dynamo.recompile_limit, accumulated_recompile_limit and capture.on_limit; may
/// drop a version for a new one. Throws FailOnRecompileLimitHit where a limit is an error.
Miss what_to_do(detail::Site& site, const std::string& reason);

/// Throws where more inputs share memory, of which some is written, than
/// functorch._max_aliased_inputs_with_dynamic_shapes_enabled allows; for symbolic sizes.
void check_shared_inputs(const detail::Leaves& leaves);

/// Under dynamo.automatic_dynamic_exclusion_guard older versions of fixed sizes keep the calls that
/// they were made for.
void exclude_older(const detail::Site& site, Entry& entry);

/// After an exception of a compilation: true if dynamo.suppress_errors wants the body to run
/// eagerly instead, from now on; that is said once.
bool suppress_error(detail::Site& site, const std::exception& error);

}  // namespace tenon
