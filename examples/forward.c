/*
 * Attention over a batch of three sequences of different lengths, packed end to end in bf16.
 *
 *     cc forward.c $(pkg-config --cflags --libs vfa) && ./a.out
 *
 * All queries are zero, so each query row weighs the keys that it sees equally: o is the mean of
 * their values and lse the logarithm of their number. The program checks that.
 */
#include <vfa/vfa.h>

#include <stdio.h>
#include <string.h>

enum { SEQS = 3, TOTAL = 7, HEADS = 2, DIM = 4 };

static uint16_t bf16_from_float(float x) { /* exact for the small integers used here */
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static float bf16_to_float(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

int main(void) {
    const float ln[] = {0.0f, 0.0f, 0.693147f, 1.098612f, 1.386294f}; /* ln[n]: logarithm of n */
    const int32_t cu_seqlens[SEQS + 1] = {0, 4, 5, TOTAL};            /* lengths 4, 1 and 2 */
    uint16_t q[TOTAL * HEADS * DIM] = {0}, k[TOTAL * HEADS * DIM], v[TOTAL * HEADS * DIM];
    uint16_t o[TOTAL * HEADS * DIM];
    float lse[TOTAL * HEADS];
    vfa_context *ctx = NULL;
    vfa_plan *plan = NULL;
    vfa_attn_desc desc;
    int ok, wrong = 0, b, i, row;

    for (i = 0; i < TOTAL * HEADS * DIM; i++) {
        k[i] = bf16_from_float(1.0f);
        v[i] = bf16_from_float((float)(8 * (i / (HEADS * DIM)))); /* token t: 8 t */
    }

    /* One head_dim, as many kv heads as q heads, each token sees itself and those before it. */
    vfa_attn_desc_init(&desc, sizeof desc);
    desc.heads_q = desc.heads_kv = HEADS;
    desc.head_dim = DIM;
    desc.causal = VFA_CAUSAL_TOP_LEFT;

    ok = vfa_context_create(NULL, NULL, &ctx, NULL) == VFA_OK &&
         vfa_plan_create(ctx, &desc, cu_seqlens, SEQS + 1, cu_seqlens, SEQS + 1, NULL, 0, NULL, 0,
                         &plan, NULL) == VFA_OK &&
         vfa_forward_host(plan, q, TOTAL * HEADS * DIM, k, TOTAL * HEADS * DIM, v,
                          TOTAL * HEADS * DIM, o, TOTAL * HEADS * DIM, lse, TOTAL * HEADS,
                          NULL) == VFA_OK;
    if (!ok) printf("failed: %s\n", vfa_last_error());

    for (b = 0; ok && b < SEQS; b++) {
        for (row = cu_seqlens[b]; row < cu_seqlens[b + 1]; row++) {
            const int seen = row - cu_seqlens[b] + 1;
            const float mean = 4.0f * (float)(cu_seqlens[b] + row); /* of 8 t over those seen */
            const float got = bf16_to_float(o[row * HEADS * DIM]), row_lse = lse[row * HEADS];
            const float off = row_lse - ln[seen];
            printf("sequence %d, token %d: o = %g (mean %g), lse = %f (ln %d = %f)\n", b,
                   row - cu_seqlens[b], got, mean, row_lse, seen, ln[seen]);
            wrong += !(got == mean && off < 1e-5f && off > -1e-5f);
        }
    }

    vfa_plan_destroy(plan);
    vfa_context_destroy(ctx);
    return !ok || wrong;
}
