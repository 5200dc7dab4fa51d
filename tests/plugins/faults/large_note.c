/* Its manifest is larger than 64 KiB. */
#include "fault.h"

FAULT_TABLES("fault_large_note", fault_interpret);

__attribute__((used, section(".note.tenon"), aligned(4))) static const struct {
  uint32_t namesz, descsz, type;
  char name[8], desc[70000];
} note = {6, 70000, TN_NOTE_TYPE, "Tenon", "manifest = 1\n"};

FAULT_ENTRY(&fault_plugin)
