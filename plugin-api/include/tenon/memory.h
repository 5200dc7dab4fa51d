/* SPDX-License-Identifier: Apache-2.0 */
/* tenon/memory.h - what may be kept of a tensor's content, and who keeps a tensor that was lent:
 * extension "tenon.memory", version 1. Valid C11 and C++17; the rules of tenon/plugin.h hold.
 *
 *   const tn_memory_api* memory = host->extension(TN_MEMORY_ID, TN_MEMORY_VERSION);
 *   if (memory->is_private(weights)) ... keep what was packed of it until TN_VERSION(weights) moves
 *
 * Eager kernels may keep a packed copy of private memory only: TN_VERSION counts what ops write,
 * but a program that was given the address writes without being counted.
 */
#ifndef TENON_MEMORY_H
#define TENON_MEMORY_H
#include <tenon/plugin.h>
/* clang-format off */
#ifdef __cplusplus
extern "C" {
#endif

#define TN_MEMORY_ID "tenon.memory"
#define TN_MEMORY_VERSION 1u

typedef struct tn_memory_api {
  uint32_t struct_size, _r0;
  /* 1 while nobody outside of ops can write to the memory: it is the host's, and no address of it
   * was given out. May become 0 at any time, never 1 again. Any thread. */
  int32_t (*is_private)(const tn_tensor*);
  /* For who lends memory for a call by tensor->from_memory without a deleter, and holds one handle.
   * 1 where others hold the tensor or a view of its memory; they may let go at any time. */
  int32_t (*is_kept)(const tn_tensor*);
  /* Leaves such memory to them: deleter(deleter_arg) runs once, on any thread, after the last use,
   * also when this call fails. It throws nothing. The plugin stays loaded until then. */
  tn_status* (*leave)(tn_tensor*, void (*deleter)(void*), void* deleter_arg);
  /* Calls ended(storage_id) when the memory of the tensor is gone: what was kept of it can go, too. On
   * any thread, until the plugin is shut down; it is told of memory for which others asked as well,
   * calls nothing of the host and throws nothing. One function for each plugin. 0 where it will not be
   * called. */
  int32_t (*tell_end)(const tn_tensor*, void (*ended)(uint64_t storage_id));
} tn_memory_api;

#ifdef __cplusplus
}
#endif
#endif
