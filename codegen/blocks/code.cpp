#include "code.h"

#include <tenon/plugin.hpp>

namespace blocks {

using tenon::plugin::declined;
using tenon::plugin::text;

Type type_of(int32_t dtype) {
  switch (dtype) {
    case TN_F32:
    case TN_F16:
    case TN_BF16:
      return Type::f32;
    case TN_F64:
      return Type::f64;
    case TN_I64:
      return Type::i64;
    case TN_I32:
      return Type::i32;
    case TN_I16:
      return Type::i16;
    case TN_I8:
      return Type::i8;
    case TN_U8:
      return Type::u8;
    case TN_BOOL:
      return Type::truth;
    default:
      throw declined(text("dtype {} is not computed in blocks", dtype));
  }
}

}  // namespace blocks
