/* Its entry gives an error, and a table that must not be used then. */
#include "fault.h"

TN_MANIFEST(FAULT_PLUGIN("fault_entry_fails", "1.0", "") FAULT_BACKEND(
    "fault_entry_fails") "[[extension]]\nid = 'org.example.broken'\nversion = 1\n");
FAULT_TABLES("fault_entry_fails", fault_interpret);

tn_status* tenon_plugin_entry_v1(const tn_host* given, const tn_plugin** out) {
  static const char text[] = "the licence has run out";
  host = given;
  *out = &fault_plugin;
  return host->status_new(TN_UNAVAILABLE, text, sizeof text - 1);
}
