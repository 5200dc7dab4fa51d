/* Has two manifests, equal so that their order does not matter. */
#include "fault.h"

TN_MANIFEST("manifest = 1\n");
FAULT_TABLES("fault_two_notes", fault_interpret);

__attribute__((used, section(".note.tenon"), aligned(4))) static const struct {
  uint32_t namesz, descsz, type;
  char name[8], desc[16];
} second_note = {6, 14, TN_NOTE_TYPE, "Tenon", "manifest = 1\n"};

FAULT_ENTRY(&fault_plugin)
