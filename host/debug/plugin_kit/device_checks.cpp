#include "debug/plugin_kit/check.h"
namespace tenon::kit {
void add_device_checks(std::vector<Check>&, const FoundPlugin&) {}
}
