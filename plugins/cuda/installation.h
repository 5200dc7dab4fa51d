// What of the vendor's is installed, for people who look for a fault.
#pragma once

#include <string>

namespace tenon::cuda {

/// A JSON object: version of the driver, and of each library version and path or why it is not
/// there. Opens the libraries.
std::string describe_installation();

}  // namespace tenon::cuda
