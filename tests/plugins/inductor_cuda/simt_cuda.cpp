// inductor_cuda for the double of the driver: the plugin, with images for the architecture "simt".
#include "simt_code.h"

#include <inductor_cuda/backend.h>

namespace {

struct Simt : inductor_cuda::Backend {
  Simt() { simt::make_images(); }
};

}  // namespace

TENON_PLUGIN_BACKENDS((Simt, "inductor"))
