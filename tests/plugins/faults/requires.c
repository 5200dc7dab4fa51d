/* Offers one extension and requires another one: missing, or in a circle of two plugins. */
#include "fault.h"

TN_MANIFEST(FAULT_PLUGIN("fault_" FAULT_NAME, "1.0", "requires = ['" FAULT_REQUIRES "/1']\n")
                FAULT_BACKEND("fault_" FAULT_NAME) "[[extension]]\nid = '" FAULT_OFFERS
                                                   "'\nversion = 1\n");

static const tn_backend backend = {
    .struct_size = sizeof backend, .name = TN_STR("fault_" FAULT_NAME), .compile = fault_interpret};
static const tn_extension extension = {
    .struct_size = sizeof extension, .version = 1, .id = TN_STR(FAULT_OFFERS), .table = &backend};
static const tn_backend* const backends[] = {&backend};
static const tn_extension* const extensions[] = {&extension};
static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_major = TN_ABI_MAJOR,
                                 .abi_minor = TN_ABI_MINOR,
                                 .backends = backends,
                                 .extensions = extensions,
                                 .n_backends = 1,
                                 .n_extensions = 1};
FAULT_ENTRY(&plugin)
