// The catalog of the process, for the files of this room.
#pragma once

#include "backend/find/discover.h"

namespace tenon {

/// Made at first use, from command line, environment and flags.
PluginCatalog& plugin_catalog();

}  // namespace tenon
