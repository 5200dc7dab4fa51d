/* SPDX-License-Identifier: Apache-2.0 */
/* tenon/counters.h - counting what happens: extension "tenon.counters", version 1. Valid C11 and
 * C++17; the rules of tenon/plugin.h hold.
 *
 *   const tn_counters_api* counters = host->extension(TN_COUNTERS_ID, TN_COUNTERS_VERSION);
 *   counters->count(TN_STR("mine.refused"), TN_STR("too_large"));   mine.refused[too_large]
 *
 * The counts stand among those of tenon::counters() and in reports.
 */
#ifndef TENON_COUNTERS_H
#define TENON_COUNTERS_H
#include <tenon/plugin.h>
/* clang-format off */
#ifdef __cplusplus
extern "C" {
#endif

#define TN_COUNTERS_ID "tenon.counters"
#define TN_COUNTERS_VERSION 1u

typedef struct tn_counters_api {
  uint32_t struct_size, _r0;
  /* Adds one to `family[which]`, or to `family` where `which` is empty. Of each family the first
   * 1024 have a count of their own, the others share family[other]. Any thread; some 100 ns. */
  void (*count)(tn_str family, tn_str which);
} tn_counters_api;

#ifdef __cplusplus
}
#endif
#endif
