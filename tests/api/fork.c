/* A child process after fork, when the parent's threads have run: it computes, and it ends. */
#define _POSIX_C_SOURCE 200809L
#include <vfa/vfa.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"

enum { TOKENS = 4096, DIM = 16 };

static float q[TOKENS * DIM], o[TOKENS * DIM];

/* Enough work that threads take part. */
static vfa_status compute(void) {
    const int32_t cu_seqlens[] = {0, TOKENS};
    return vfa_varlen_forward_f32(q, TOKENS * DIM, q, TOKENS * DIM, q, TOKENS * DIM, o,
                                  TOKENS * DIM, NULL, 0, cu_seqlens, 2, cu_seqlens, 2, 1, 1, DIM, 0,
                                  0, 1.0f, VFA_CAUSAL_NONE, NULL);
}

/* The status of a child that calls action and then exit, or -1 if it hangs. */
static int child(int (*action)(void)) {
    int status = -1;
    pid_t pid;
    fflush(stdout); /* or the child would print it again */
    pid = fork();
    if (pid == 0) {
        alarm(20); /* a child that hangs dies of it */
        exit(action());
    }
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
}

static int do_nothing(void) { return 0; }

static int compute_the_same(void) {
    static float before[TOKENS * DIM];
    memcpy(before, o, sizeof o);
    memset(o, 0, sizeof o);
    return compute() != VFA_OK || memcmp(before, o, sizeof o) != 0;
}

static vfa_context *context;

static int destroy_context(void) {
    vfa_context_destroy(context);
    return 0;
}

int main(void) {
    int i;
    for (i = 0; i < TOKENS * DIM; i++) q[i] = (float)(i % 7) / 8;
    CHECK(compute() == VFA_OK);
    CHECK(child(do_nothing) == 0);
    CHECK(child(compute_the_same) == 0);
    CHECK(vfa_context_create(NULL, NULL, &context, NULL) == VFA_OK);
    CHECK(child(destroy_context) == 0);
    vfa_context_destroy(context);
    CHECK(compute() == VFA_OK);
    return report_end();
}
