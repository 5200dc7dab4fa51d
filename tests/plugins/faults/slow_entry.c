/* Its entry does what should wait for the first compile. */
#include "fault.h"

#include <time.h>

FAULT_MANIFEST("fault_slow_entry");
FAULT_TABLES("fault_slow_entry", fault_interpret);

tn_status* tenon_plugin_entry_v1(const tn_host* given, const tn_plugin** out) {
  struct timespec pause = {.tv_sec = 0, .tv_nsec = 250000000};
  nanosleep(&pause, 0);
  host = given;
  *out = &fault_plugin;
  return 0;
}
