// How many threads the flag compiler.threads asks for.
#pragma once

namespace tenon {

/// The flag's number when a pool is made, `otherwise` where it is 0 or cannot be read (the call
/// that needs the flags reports that). From then on the pool follows the flag.
int initial_threads(int otherwise) noexcept;

}  // namespace tenon
