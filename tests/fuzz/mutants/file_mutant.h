// Mutants of files: the parts of archives, the fields of zip files and safetensors.
#pragma once

#include "harness/choices.h"

#include <string>
#include <string_view>

namespace tenon::fuzz {

/// Of records (see fuzz.h): one part changes as what it is, or a part is gone, twice or renamed.
std::string records_mutant(std::string_view text, Choices& choices);
/// Of the archive that the records make: fields of its headers, or bytes.
std::string zip_mutant(std::string_view text, Choices& choices);
/// Its header as JSON, the header's length, bytes of data.
std::string safetensors_mutant(std::string_view file, Choices& choices);
/// Of any file of words: 1, 2, 4 or 8 bytes become a number at the limits, or bytes are gone.
std::string bytes_mutant(std::string_view file, Choices& choices);

}  // namespace tenon::fuzz
