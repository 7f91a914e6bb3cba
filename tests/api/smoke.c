/* Right use from plain C99: every object, every option that a program sets most, handles destroyed
 * in the wrong order. All queries are zero, so o is the mean of the visible values and lse the
 * logarithm of their number. */
#include <vfa/vfa.h>

#include "report.h"

#include <string.h>

enum { HEADS = 2, DIM = 3, ROWS = 5 };

static int near(float a, float b) { return a - b < 1e-5f && b - a < 1e-5f; }

int main(void) {
    const int32_t cu_seqlens[] = {0, 2, 2, ROWS}, one_sequence[] = {0, ROWS};
    const int32_t used[] = {2, 0, 1};
    const float sinks[HEADS] = {0.0f, 0.0f}, slopes[HEADS] = {0.0f, 0.0f};
    float q[ROWS * HEADS * DIM] = {0}, v[ROWS * HEADS * DIM], o[ROWS * HEADS * DIM];
    float lse[ROWS * HEADS];
    const size_t len = ROWS * HEADS * DIM;
    vfa_context *ctx = NULL;
    vfa_plan *plan = NULL;
    vfa_context_desc context_desc;
    vfa_attn_desc desc;
    vfa_context_info context_info;
    vfa_plan_info info;
    vfa_error error = {VFA_OK, ""};
    size_t i;

    for (i = 0; i < len; i++) v[i] = (float)(i / (HEADS * DIM)); /* the token's number */

    CHECK(vfa_version() == (VFA_VERSION_MAJOR << 16 | VFA_VERSION_MINOR << 8 | VFA_VERSION_PATCH));
    CHECK(strncmp(vfa_version_string(), "0.", 2) == 0);
    CHECK(strcmp(vfa_last_error(), "") == 0);

    CHECK(vfa_context_desc_init(&context_desc, sizeof context_desc) == VFA_OK);
    context_desc.num_threads = 1;
    CHECK(vfa_context_create(&context_desc, NULL, &ctx, &error) == VFA_OK);
    CHECK(vfa_context_info_init(&context_info, sizeof context_info) == VFA_OK);
    CHECK(vfa_context_get_info(ctx, &context_info) == VFA_OK);
    CHECK(context_info.num_threads == 1);

    CHECK(vfa_attn_desc_init(&desc, sizeof desc) == VFA_OK);
    desc.dtype = VFA_DTYPE_F32;
    desc.heads_q = HEADS;
    desc.heads_kv = HEADS;
    desc.head_dim = DIM;
    CHECK(vfa_plan_create(ctx, &desc, cu_seqlens, 4, cu_seqlens, 4, NULL, 0, NULL, 0, &plan,
                          &error) == VFA_OK);
    vfa_context_destroy(ctx); /* the plan goes on */

    CHECK(vfa_plan_info_init(&info, sizeof info) == VFA_OK);
    CHECK(vfa_plan_get_info(plan, &info) == VFA_OK);
    CHECK(info.num_seqs == 3 && info.total_q == ROWS && info.total_k == ROWS);
    CHECK(info.max_seqlen_q == 3 && info.max_seqlen_k == 3);
    CHECK(info.flops == (uint64_t)4 * HEADS * DIM * (2 * 2 + 3 * 3));

    CHECK(vfa_forward_host_f32(plan, q, len, q, len, v, len, o, len, lse, ROWS * HEADS, &error) ==
          VFA_OK);
    CHECK(near(o[0], 0.5f) && near(lse[0], 0.693147f));
    CHECK(near(o[len - 1], 3.0f) && near(lse[ROWS * HEADS - 1], 1.098612f));

    /* Without lse, and with rows that belong to no sequence: they are left alone. */
    memset(o, 0, sizeof o);
    o[len - 1] = 77.0f;
    CHECK(vfa_plan_update(plan, cu_seqlens, 4, cu_seqlens, 4, used, 3, used, 3, &error) == VFA_OK);
    CHECK(vfa_forward_host_f32(plan, q, len, q, len, v, len, o, len, NULL, 0, &error) == VFA_OK);
    CHECK(near(o[2 * HEADS * DIM], 2.0f));
    CHECK(o[len - 1] == 77.0f);
    vfa_plan_destroy(plan);

    /* A sink of 0 counts as one more key, without a value. The hints are exact. */
    CHECK(vfa_context_create(NULL, NULL, &ctx, NULL) == VFA_OK);
    desc.max_seqlen_q = desc.max_seqlen_k = ROWS;
    desc.scale_mode = VFA_SCALE_GIVEN;
    desc.scale = 0.0f;
    CHECK(vfa_plan_create(ctx, &desc, one_sequence, 2, one_sequence, 2, NULL, 0, NULL, 0, &plan,
                          NULL) == VFA_OK);
    CHECK(vfa_plan_set_sinks(plan, sinks, HEADS, NULL) == VFA_OK);
    CHECK(vfa_plan_set_alibi(plan, slopes, HEADS, NULL) == VFA_OK);
    CHECK(vfa_forward_host_f32(plan, q, len, v, len, v, len, o, len, lse, ROWS * HEADS, NULL) ==
          VFA_OK);
    CHECK(near(o[0], 10.0f / 6.0f) && near(lse[0], 1.791759f));
    vfa_plan_destroy(plan);

    /* No sequences at all. */
    CHECK(vfa_plan_create(ctx, &desc, NULL, 0, NULL, 0, NULL, 0, NULL, 0, &plan, NULL) == VFA_OK);
    CHECK(vfa_forward_host_f32(plan, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL) == VFA_OK);
    vfa_plan_destroy(plan);
    vfa_context_destroy(ctx);

    /* Without objects: TOP_LEFT, so the first row of each sequence sees itself alone. */
    CHECK(vfa_varlen_forward_f32(q, len, q, len, v, len, o, len, lse, ROWS * HEADS, cu_seqlens, 4,
                                 cu_seqlens, 4, HEADS, HEADS, DIM, 0, 0, 1.0f, VFA_CAUSAL_TOP_LEFT,
                                 &error) == VFA_OK);
    CHECK(near(o[2 * HEADS * DIM], 2.0f) && near(lse[2 * HEADS], 0.0f));
    CHECK(error.status == VFA_OK);
    return report_end();
}
