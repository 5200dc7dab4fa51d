// What `tenon doctor` says of devices.
#pragma once

#include "cli/output.h"

namespace tenon::cli {

/// One entry a type of device that a plugin offers: devices, driver and libraries, or why there are
/// none. Loads the plugins and opens their drivers.
Json device_facts();
/// The same, asked in a child process: a driver that hangs or crashes does not take this one along.
Json device_facts_of_child();
std::string device_text(const Json& facts);

}  // namespace tenon::cli
