// What explain(fn, args...) hears of the call that it makes. Other calls tell nothing, at the cost of
// one load a compile.
#pragma once

#include "capture/recording.h"
#include "runtime/call.h"

namespace tenon {

namespace detail {
/// What happens on calls that a version serves, and why.
std::string regime_of(const Site& site, const Entry& version);
}  // namespace detail

void explain_graph(const detail::Site& site, const Graph& graph, double compile_ms);
void explain_recording(const detail::Site& site, const Recording& recording);

}  // namespace tenon
