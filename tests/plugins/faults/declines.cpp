// Declines every graph without saying why, and leaves it to nobody, or to a backend that is not there.
#include "fault.h"

#include <tenon/plugin.hpp>

using namespace tenon::plugin;

namespace {

struct Declines : Backend {
  artifact compile(const tn_compile_request&) { throw declined(""); }
};

}  // namespace

TN_MANIFEST(FAULT_PLUGIN("fault_declines", "1.0", "")
                FAULT_BACKEND("fault_declines_to_nobody") "fallback = ''\n" FAULT_BACKEND(
                    "fault_declines_to_a_stranger") "fallback = 'nope'\n");

TENON_PLUGIN_BACKENDS((Declines, "fault_declines_to_nobody"),
                      (Declines, "fault_declines_to_a_stranger"))
