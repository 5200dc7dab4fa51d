// A manifest that promises an op, and an entry that adds none.
#include <tenon/plugin.hpp>

TENON_PLUGIN(p) {}
