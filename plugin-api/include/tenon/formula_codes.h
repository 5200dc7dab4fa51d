/* SPDX-License-Identifier: Apache-2.0 */
/* tenon/formula_codes.h - part of <tenon/plugin.h>: the primitives of scalar formulas. */
#ifndef TENON_FORMULA_CODES_H
#define TENON_FORMULA_CODES_H
/* clang-format off */
/* The scalar primitives that formulas are made of; the numbers are frozen, new ones are appended.
 * Integers wrap and never trap; floats are IEEE, not contracted to fma. */
enum {
  TN_F_CONST,                          /* a TN_I64 or TN_F64 (dtype), low half in a, high half in b;
                                          then converted to the compute type */
  TN_F_CAST,                           /* a -> dtype; float to int truncates, NaN is the minimum */
  TN_F_NEG, TN_F_ABS, TN_F_SIGN,
  TN_F_ADD, TN_F_SUB, TN_F_MUL,        /* bool: or, xor, and */
  TN_F_DIV,                            /* floats only */
  TN_F_TRUNCDIV, TN_F_FLOORDIV, TN_F_FMOD, TN_F_MOD,  /* integers: 0 where b is 0 */
  TN_F_MIN, TN_F_MAX,                  /* NaN in either operand gives NaN; equal ones a */
  TN_F_POW, TN_F_COPYSIGN, TN_F_ATAN2,
  TN_F_BAND, TN_F_BOR, TN_F_BXOR, TN_F_BNOT,  /* bool: logical */
  TN_F_SHL, TN_F_SHR,                  /* counts outside 0..bits-1: 0, and the sign fill */
  TN_F_EQ, TN_F_NE, TN_F_LT, TN_F_LE, TN_F_GT, TN_F_GE,  /* compute type -> bool */
  TN_F_SELECT,                         /* a ? b : c */
  TN_F_SQRT, TN_F_RSQRT, TN_F_EXP, TN_F_EXP2, TN_F_EXPM1, TN_F_LOG, TN_F_LOG2, TN_F_LOG10,
  TN_F_LOG1P, TN_F_SIN, TN_F_COS, TN_F_TAN, TN_F_ASIN, TN_F_ACOS, TN_F_ATAN, TN_F_SINH, TN_F_COSH,
  TN_F_TANH, TN_F_ASINH, TN_F_ACOSH, TN_F_ATANH,
  TN_F_SIGMOID,                        /* without overflow: through exp(-abs(a)) */
  TN_F_ERF, TN_F_ERFC, TN_F_ERFINV, TN_F_LGAMMA, TN_F_DIGAMMA,
  TN_F_FLOOR, TN_F_CEIL, TN_F_TRUNC,
  TN_F_ROUND                           /* half to even */
};
#define TN_F_COUNT (TN_F_ROUND + 1)    /* codes that this header knows */
#define TN_F_COMPUTE_TYPE 0xFFFFu      /* dtype of an instruction: the op's compute type */
/* clang-format on */
#endif
