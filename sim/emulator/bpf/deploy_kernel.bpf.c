/* `deploy.bpf.c` for policies with `recovery = "kernel"`: losses and timeouts do to the window what Linux does. */
#define KERNEL_RECOVERY
#include "deploy.bpf.c"
