// The vendor's libraries and files, found at run time.
#pragma once

#include <string>
#include <string_view>

namespace tenon::cuda {

/// Opens a library by its file name; null where there is none. Searched are the folders of
/// plugins.library_path, what the loader knows, $CUDA_HOME and the toolkit's usual place. Stays
/// open; a question is answered once. Threads: any.
void* open_library(const std::string& name);

/// A function of such a library. Throws TN_UNAVAILABLE without the library, TN_NOT_FOUND without
/// the function.
void* library_symbol(const std::string& library, const std::string& name);

/// Where such a library lies, or a file of the toolkit such as nvvm/libdevice/libdevice.10.bc, which
/// is searched for in the same places and beside them. Throws TN_UNAVAILABLE. Valid for good.
std::string_view find_file(const std::string& file);

}  // namespace tenon::cuda
