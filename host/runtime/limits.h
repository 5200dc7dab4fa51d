// When a callable may be compiled once more, and what happens instead.
#pragma once

#include "core/function_ref.h"
#include "runtime/call.h"

#include <optional>
#include <string>
#include <string_view>

namespace tenon {

/// The name of a callable in messages.
std::string display_name(const detail::Site& site);

/// Why calls run a callable as it is.
enum class Eager : uint8_t {
  none,
  recompile_limit,
  accumulated_recompile_limit,
  suppressed_error,
  stance,
  disabled
};
/// Counts a call that does, for the reason that the callable remembers, and tells who wants to know.
void note_eager_call(detail::Site& site);
/// The same for a reason that is one of this call only. Also of calls some of whose segments run op by
/// op. Not under the lock of the site.
void note_eager_call(detail::Site& site, Eager reason);
/// Runs the body as it is.
void run_eagerly(detail::Site& site, const detail::Body& body);
/// The same for a reason that is one of this call only.
void run_eagerly(detail::Site& site, const detail::Body& body, Eager reason);

/// Whether calls that no version serves run the body for good. Throws RecompileError where a stance
/// forbids that.
bool is_given_up(const detail::Site& site);

/// What a call does that no version serves.
enum class Miss : uint8_t {
  compile,
  eager,
  replay,
  look_again  ///< another thread has made a version that serves it
};
/// Decides that by the flags, among them dynamo.recompile_limit, accumulated_recompile_limit and
/// capture.on_limit; tells why nothing served it, and may drop a version for a new one. Throws
/// UserError: ConfigError for flags that contradict each other, RecompileError under
/// dynamo.error_on_recompile, FailOnRecompileLimitHit where a limit is an error.
/// `has_come`: whether a version serves by now, asked under the lock of the site. `difference`: of a
/// body that has left the path of a version that accepts the arguments.
Miss what_to_do(detail::Site& site, const detail::Leaves& leaves, FunctionRef<bool()> has_come,
                const std::string& difference = "");

/// Whether a stance or flag says for now that nothing new is compiled, segments of bodies included.
bool compiles_nothing_new();

/// Counts a version of the segment at this place of the body. False where it runs op by op instead,
/// since dynamo.recompile_limit is reached there and capture.on_limit says so; throws where that is
/// an error, and where a second version is one. `n_alike`: versions of an equal segment, at any place,
/// that would serve, were it not for where their inputs lie.
bool may_compile_segment(detail::Site& site, size_t place, int64_t n_alike);

/// Throws where more inputs share memory, of which some is written, than
/// functorch._max_aliased_inputs_with_dynamic_shapes_enabled allows; for symbolic sizes.
void check_shared_inputs(const detail::Leaves& leaves);

/// Under dynamo.automatic_dynamic_exclusion_guard older versions of fixed sizes keep the calls that
/// they were made for.
void exclude_older(const detail::Site& site, Entry& entry);

/// Whether dynamo.suppress_errors hides this error of compiling the segment at `place`, or the whole
/// body, which no call tries again then. Said once a callable. What was recorded runs op by op.
bool hides_error(detail::Site& site, std::optional<size_t> place, std::string_view error);

/// Serves a call, which may record the body. Where that fails, dynamo.suppress_errors hides it, and the
/// body has had no effect, it runs as it is, from now on.
void serve_or_run_eagerly(detail::Site& site, const detail::Body& body, FunctionRef<void()> serve);

}  // namespace tenon
