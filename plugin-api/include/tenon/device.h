/* SPDX-License-Identifier: Apache-2.0 */
/* tenon/device.h - what a plugin with the role [[device]] gives. Valid C11 and C++17; the rules of
 * tenon/plugin.h hold.
 *
 * Memory is in the order of the stream that it was asked for on: it may be used by work that comes
 * later on that stream, and goes back behind what was on it before. Copies and fills are enqueued;
 * a copy from or to host memory that is not of host_alloc has done with that memory when it
 * returns. Not frozen: one plugin of this project offers a device so far.
 */
#ifndef TENON_DEVICE_H
#define TENON_DEVICE_H
#include <tenon/plugin.h>
/* clang-format off */
#ifdef __cplusplus
extern "C" {
#endif

/* A flag of tn_compile_request beside TN_RQ_...: f32 operands of matrix products may be rounded to
 * tf32. */
enum { TN_RQ_ALLOWS_TF32 = 128 };

enum { TN_COPY_H2D, TN_COPY_D2H, TN_COPY_D2D, TN_COPY_H2H };
typedef struct tn_device_props {
  uint32_t struct_size, compute_units; uint64_t total_bytes, free_bytes;
  int32_t capability_major, capability_minor; tn_str name, arch;
} tn_device_props;
typedef struct tn_device_memory {
  uint32_t struct_size, _r0;
  uint64_t allocated_bytes, reserved_bytes, peak_bytes; /* in use; taken from the driver; highest */
  uint64_t allocations;                                 /* since the start */
} tn_device_memory;
struct tn_device_provider {            /* any threads; one stream by one thread at a time */
  uint32_t struct_size, _r0;
  tn_str type_name; void* self;        /* "cuda" */
  tn_status* (*count)(void* self, int32_t* out);                       /* 0 without a driver */
  tn_status* (*props)(void* self, int32_t dev, tn_device_props* inout);
  tn_status* (*alloc)(void* self, int32_t dev, size_t bytes, tn_stream*, void** out);
  void (*free)(void* self, int32_t dev, void*, size_t bytes, tn_stream*);
  tn_status* (*host_alloc)(void* self, size_t bytes, void** out); /* pinned */
  void (*host_free)(void* self, void*, size_t bytes);
  tn_status* (*copy)(void* self, int32_t dev, void* dst, const void* src, size_t bytes, int32_t dir,
                     tn_stream*);                                      /* TN_COPY_... */
  tn_status* (*fill)(void* self, int32_t dev, void* dst, uint8_t byte, size_t bytes, tn_stream*);
  tn_status* (*stream_new)(void* self, int32_t dev, int32_t priority, tn_stream** out);
  void (*stream_free)(void* self, tn_stream*); tn_status* (*stream_sync)(void* self, tn_stream*);
  void* (*stream_native)(void* self, tn_stream*);                      /* such as a CUstream */
  tn_status* (*device_sync)(void* self, int32_t dev);
  tn_status* (*event_new)(void* self, int32_t dev, int32_t timing, tn_event** out);
  void (*event_free)(void* self, tn_event*);
  tn_status* (*event_record)(void* self, tn_event*, tn_stream*);
  tn_status* (*event_wait)(void* self, tn_event*, tn_stream*);
  int32_t (*event_done)(void* self, tn_event*);
  tn_status* (*event_elapsed_ms)(void* self, tn_event* a, tn_event* b, double* out);
  int32_t (*has_kernel)(void* self, uint32_t op, int32_t dtype);
  tn_status* (*run_op)(void* self, uint32_t op, const tn_arg* args, uint32_t n_args,
                       tn_tensor* const* values, tn_stream*, tn_tensor** out, uint32_t n_out);
  tn_status* (*capture_begin)(void* self, tn_stream*, uint64_t pool);   /* optional */
  tn_status* (*capture_end)(void* self, tn_stream*, void** executable); /* optional */
  /* Optional, as are the two behind it: a stream for a handle of the program's own, which must
   * outlive it; stream_free leaves the handle alone. */
  tn_status* (*stream_wrap)(void* self, int32_t dev, void* native, tn_stream** out);
  tn_status* (*trim)(void* self, int32_t dev);    /* what no tensor holds goes back to the driver */
  tn_status* (*memory_stats)(void* self, int32_t dev, tn_device_memory* inout);
  /* Optional: what stands behind the devices, as a JSON object for people who look for a fault:
   * "driver", its version; "libraries", a list of {"name", "version", "path"} or {"name",
   * "why_not"}. Fails as `count` does. */
  tn_status* (*describe)(void* self, const tn_sink*);
};

/* clang-format on */
#ifdef __cplusplus
}
#endif
#endif
