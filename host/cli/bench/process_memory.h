// What the kernel says of this process and this machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::cli {

/// A line "Name:   value" of a file in /proc; "" where there is none.
std::string proc_value(const char* file, std::string_view name);
/// The most memory that was resident since the process began or the mark was taken back.
uint64_t peak_memory();
void reset_peak_memory();

}  // namespace tenon::cli
