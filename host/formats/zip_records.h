// What zip's reader and writer share: marks, sizes and numbers of its records.
#pragma once

#include "formats/byte_reader.h"

#include <cstdint>
#include <string_view>

namespace tenon::formats::zip_records {

inline constexpr std::string_view kLocalMagic{"PK\3\4", 4};
inline constexpr std::string_view kCentralMagic{"PK\1\2", 4};
inline constexpr std::string_view kEndMagic{"PK\5\6", 4};
inline constexpr std::string_view kEnd64Magic{"PK\6\6", 4};
inline constexpr std::string_view kLocator64Magic{"PK\6\7", 4};
inline constexpr uint64_t kEndSize = 22;
inline constexpr uint64_t kLocator64Size = 20;
inline constexpr uint64_t kCentralSize = 46;
inline constexpr uint32_t kSee64 = 0xFFFFFFFFu;
inline constexpr uint16_t kStored = 0;
inline constexpr uint16_t kDeflated = 8;

/// Throws UserError(bad_file) unless `name` is a plain relative path.
void check_name(std::string_view name, std::string_view subject);

uint32_t crc_of(ByteSpan bytes);

}  // namespace tenon::formats::zip_records
