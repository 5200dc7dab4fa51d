#include "debug/plugin_kit/check.h"
namespace tenon::kit {
void add_dynamic_checks(std::vector<Check>&, const BackendManifest&) {}
}
