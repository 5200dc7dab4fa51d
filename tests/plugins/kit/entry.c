/* Plugins whose entry, tables or file break a rule, for the tests of the conformance kit. Plain C,
 * since the C++ wrapper keeps these rules by itself. KIT_NAME: the plugin; KIT_<WHAT>: what it
 * does.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/plugin.h>
#include <unistd.h>

TN_MANIFEST(
    "manifest = 1\n"
    "[plugin]\n"
    "name = '" KIT_NAME
    "'\n"
    "version = '0.1.0'\n"
    "abi = '1.0'\n"
#ifdef KIT_UNKNOWN_KEY
    "colour = 'blue'\n"
#endif
    "[[backend]]\n"
    "name = '" KIT_NAME
    "'\n"
    "description = 'breaks one rule'\n"
    "tags = ['testing']\n"
    "stage = 'captured'\n"
    "devices = ['*']\n"
    "dynamic_shapes = true\n");

static const tn_host* host;

static tn_status* compile(void* self, const tn_compile_request* request, tn_artifact** out) {
  (void)self;
#ifndef KIT_IGNORES_FLAGS
  if (request->flags >> 32) return host->status_new(TN_UNIMPLEMENTED, "unknown flags", 13);
#endif
#ifdef KIT_LEAVES_RESULT
  static tn_artifact left = {NULL, NULL};
  *out = &left;
  return host->status_new(TN_DECLINED, "no", 2);
#endif
  return host->run->interpret(request->ctx, request->graph, out);
}

static const tn_backend backend = {.struct_size = sizeof backend,
#ifdef KIT_RESERVED
                                   ._r0 = 7,
#endif
                                   .name = TN_STR(KIT_NAME),
                                   .compile = compile};
static const tn_backend* const backends[] = {&backend};

static tn_status* shut_down(void) {
#ifdef KIT_SHUTDOWN_FAILS
  return host->status_new(TN_INTERNAL, "I stay", 6);
#else
  return NULL;
#endif
}

static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_major = TN_ABI_MAJOR,
                                 .abi_minor = TN_ABI_MINOR,
                                 .backends = backends,
                                 .n_backends = 1,
                                 .shutdown = shut_down};

#ifdef KIT_EXPORTS
TN_EXPORT int tenon_test_other_symbol = 3;
#endif

#ifdef KIT_STARTS_THREAD
static void* idle(void* unused) {
  for (;;) pause();
  return unused;
}
#endif

tn_status* tenon_plugin_entry_v1(const tn_host* given, const tn_plugin** out) {
  host = given;
#ifdef KIT_SLEEPS
  sleep(1000);
#endif
#ifdef KIT_CRASHES
  abort();
#endif
#ifdef KIT_FAILS
  return host->status_new(TN_UNAVAILABLE, "no licence", 10);
#endif
#ifdef KIT_FORKS
  fork(); /* and both go on */
#endif
#ifdef KIT_PRINTS
  puts("hello");
#endif
#ifdef KIT_STARTS_THREAD
  pthread_t thread;
  pthread_create(&thread, NULL, idle, NULL);
#endif
#ifdef KIT_READS_TOO_FAR
  /* Takes its own idea of the table for the host's. */
  static tn_svc_api copy;
  volatile size_t beyond = 128; /* unknown to the compiler, which would refuse */
  memcpy(&copy, host->svc, sizeof copy + beyond);
#endif
#ifdef KIT_WANTS_SAME_SIZE
  if (host->struct_size != sizeof(tn_host))
    return host->status_new(TN_FAILED_PRECONDITION, "another size", 12);
#endif
#ifdef KIT_CALLS_OPTIONAL
  if (host->svc->trace_on())
    host->svc->trace(TN_TRACE_INSTANT, backend.name, backend.name, backend.name);
#endif
  *out = &plugin;
  return NULL;
}
