// Backends of which a part only is at work.
#include "debug/minify/backend_part.h"

#include "backend/backend.h"
#include "backend/compile/compile_regions.h"
#include "core/error.h"

namespace tenon {

std::string_view name_of(TrainingHalf half) {
  return half == TrainingHalf::forward    ? "forward"
         : half == TrainingHalf::backward ? "backward"
                                          : "";
}

TrainingHalf half_named(std::string_view name) {
  for (TrainingHalf half : {TrainingHalf::both, TrainingHalf::forward, TrainingHalf::backward})
    if (name == name_of(half)) return half;
  fail("half \"{}\": expected forward or backward", name);
}

std::string backend_for_part(const std::string& backend, const BackendPart& part) {
  if (part.regions >= 0) limit_regions(part.regions);
  if (part.half == TrainingHalf::both) return backend;
  BackendInfo info = backend_info(backend);
  info.plugin = "program";
  info.name = message("{}({})", name_of(part.half), backend);
  std::string name = info.name;
  bool is_backward = part.half == TrainingHalf::backward;
  register_backend(
      [backend, is_backward](const CompileRequest& request) {
        bool is_own = (request.stage == Stage::backward) == is_backward;
        return compile_with_backend(is_own ? backend : "debug_nop", request);
      },
      std::move(info));
  return name;
}

int64_t regions_of_part() { return regions_since_limit(); }

bool has_halves(const std::string& backend) {
  return backend_info(backend).stage != Stage::captured;
}
bool has_regions(const std::string& backend) { return !backend_info(backend).fallback.empty(); }

}  // namespace tenon
