// Functions that code of the host calls by name, as code of the module.
#pragma once

#include <llvm/IR/Module.h>

namespace inductor_cuda {

/// Gives bodies to what the module calls and no GPU has. Throws `declined` with the names of
/// functions that have none.
void add_helpers(llvm::Module& module);

}  // namespace inductor_cuda
