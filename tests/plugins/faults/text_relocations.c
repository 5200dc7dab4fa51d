/* Has an address in its code that the linker must write. */
#include "fault.h"

FAULT_MANIFEST("fault_text_relocations");
FAULT_TABLES("fault_text_relocations", fault_interpret);

__asm__(".text\n.p2align 3\n.quad fault_interpret\n");

FAULT_ENTRY(&fault_plugin)
