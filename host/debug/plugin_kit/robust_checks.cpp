#include "debug/plugin_kit/check.h"
namespace tenon::kit {
void add_robust_checks(std::vector<Check>&, const BackendManifest&) {}
}
