// abi_dump: prints the layout of <tenon/plugin.h>, as plugin-api/abi/v1.layout holds it.
#include <cstdio>

#include "abi_layout.h"

int main() { std::fputs(tenon::tools::abi_layout().c_str(), stdout); }
