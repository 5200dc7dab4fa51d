#include "debug/plugin_kit/check.h"
namespace tenon::kit {
void add_recorded_checks(std::vector<Check>&, const FoundPlugin&, const KitSettings&) {}
}
