/* Offers a device that no machine has. */
#include "fault.h"

#include <tenon/device.h>

TN_MANIFEST(FAULT_PLUGIN("fault_no_device", "1.0",
                         "needs_library = ['libtenon_test_driver.so.1', 'libc.so.6']\n")
                FAULT_BACKEND("fault_no_device") "[[device]]\ntype = 'abacus'\n");

static tn_status* count(void* self, int32_t* out) {
  (void)self;
  *out = 0;
  return 0;
}

static const tn_backend backend = {
    .struct_size = sizeof backend, .name = TN_STR("fault_no_device"), .compile = fault_interpret};
static const tn_device_provider device = {
    .struct_size = sizeof device, .type_name = TN_STR("abacus"), .count = count};
static const tn_backend* const backends[] = {&backend};
static const tn_device_provider* const devices[] = {&device};
static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_major = TN_ABI_MAJOR,
                                 .abi_minor = TN_ABI_MINOR,
                                 .backends = backends,
                                 .devices = devices,
                                 .n_backends = 1,
                                 .n_devices = 1};
FAULT_ENTRY(&plugin)
