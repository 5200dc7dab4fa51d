/* A request in words: every fact that the host tells of a graph, its options and its services. */
#ifndef WHOLE_ABI_DESCRIBE_H
#define WHOLE_ABI_DESCRIBE_H

#include <tenon/custom_ops.h>
#include <tenon/plugin.h>

enum { max_exprs = 64 };
extern const tn_host* host;

/* `text`: made by malloc, for the caller to free, also on failure. */
tn_status* describe_request(const tn_compile_request* request, char** text);

#endif
