/* Sizes and offsets that programs have compiled in. Until the SONAME changes these lines are only
 * added to: a struct grows at its end, and its SIZE then changes with a new AT line.
 * tests/api/structs.cpp holds the sizes of older versions. */
#include <vfa/vfa.h>

#define SIZE(type, size) _Static_assert(sizeof(type) == (size), "size of " #type)
#define AT(type, field, offset)                                                                    \
    _Static_assert(offsetof(type, field) == (offset), "offset of " #type "." #field)
#define VALUE(name, value) _Static_assert((name) == (value), "value of " #name)
#define SIGNED(type) _Static_assert((type)-1 < 0, #type " is signed")

/* Binding generators and C++ callers count on signed 32-bit enums. */
SIZE(vfa_status, 4);
SIGNED(vfa_status);
SIZE(vfa_backend, 4);
SIGNED(vfa_backend);
SIZE(vfa_dtype, 4);
SIGNED(vfa_dtype);
SIZE(vfa_causal, 4);
SIGNED(vfa_causal);
SIZE(vfa_scale_mode, 4);
SIGNED(vfa_scale_mode);
SIZE(vfa_log_level, 4);
SIGNED(vfa_log_level);

/* Values are never renumbered: programs and bindings have compiled them in. */
VALUE(VFA_OK, 0);
VALUE(VFA_ERROR_INVALID_ARGUMENT, -1);
VALUE(VFA_ERROR_INVALID_STATE, -2);
VALUE(VFA_ERROR_UNSUPPORTED, -3);
VALUE(VFA_ERROR_BACKEND_UNAVAILABLE, -4);
VALUE(VFA_ERROR_OUT_OF_MEMORY, -5);
VALUE(VFA_ERROR_DEVICE, -6);
VALUE(VFA_ERROR_INTERNAL, -7);
VALUE(VFA_BACKEND_AUTO, 0);
VALUE(VFA_BACKEND_FLASH_ATTENTION, 1);
VALUE(VFA_BACKEND_FLASH_ATTENTION_V3, 2);
VALUE(VFA_BACKEND_MATH, 3);
VALUE(VFA_BACKEND_MEMORY_EFFICIENT, 4);
VALUE(VFA_BACKEND_CUDNN, 5);
VALUE(VFA_BACKEND_METAL, 6);
VALUE(VFA_BACKEND_CPU, 7);
VALUE(VFA_BACKEND_VARLEN, 8);
VALUE(VFA_DTYPE_BF16, 0);
VALUE(VFA_DTYPE_F16, 1);
VALUE(VFA_DTYPE_F32, 2);
VALUE(VFA_CAUSAL_NONE, 0);
VALUE(VFA_CAUSAL_TOP_LEFT, 1);
VALUE(VFA_CAUSAL_BOTTOM_RIGHT, 2);
VALUE(VFA_SCALE_DEFAULT, 0);
VALUE(VFA_SCALE_GIVEN, 1);
VALUE(VFA_LOG_NONE, 0);
VALUE(VFA_LOG_ERROR, 1);
VALUE(VFA_LOG_WARN, 2);
VALUE(VFA_LOG_INFO, 3);

SIZE(vfa_error, 512);
AT(vfa_error, status, 0);
AT(vfa_error, message, 4);

SIZE(vfa_backend_info, 384);
AT(vfa_backend_info, struct_size, 0);
AT(vfa_backend_info, available, 4);
AT(vfa_backend_info, resolved, 8);
AT(vfa_backend_info, device_count, 12);
AT(vfa_backend_info, compute_capability, 16);
AT(vfa_backend_info, threads, 20);
AT(vfa_backend_info, memory_bytes, 24);
AT(vfa_backend_info, device, 32);
AT(vfa_backend_info, isa, 96);
AT(vfa_backend_info, reason, 128);

SIZE(vfa_isa_info, 132);
AT(vfa_isa_info, struct_size, 0);
AT(vfa_isa_info, available, 4);
AT(vfa_isa_info, name, 8);
AT(vfa_isa_info, reason, 40);

#if UINTPTR_MAX > 0xffffffffu /* pointers inside */
SIZE(vfa_hooks, 48);
AT(vfa_hooks, struct_size, 0);
AT(vfa_hooks, max_workers, 4);
AT(vfa_hooks, user, 8);
AT(vfa_hooks, alloc, 16);
AT(vfa_hooks, free, 24);
AT(vfa_hooks, parallel, 32);
AT(vfa_hooks, log, 40);
#endif

SIZE(vfa_context_desc, 48);
AT(vfa_context_desc, struct_size, 0);
AT(vfa_context_desc, num_threads, 4);
AT(vfa_context_desc, log_level, 8);
AT(vfa_context_desc, device, 12);
AT(vfa_context_desc, max_isa, 16);

SIZE(vfa_context_info, 44);
AT(vfa_context_info, struct_size, 0);
AT(vfa_context_info, num_threads, 4);
AT(vfa_context_info, device, 8);
AT(vfa_context_info, isa, 12);

SIZE(vfa_attn_desc, 152);
AT(vfa_attn_desc, struct_size, 0);
AT(vfa_attn_desc, backend, 4);
AT(vfa_attn_desc, dtype, 8);
AT(vfa_attn_desc, o_f32, 12);
AT(vfa_attn_desc, heads_q, 16);
AT(vfa_attn_desc, heads_kv, 20);
AT(vfa_attn_desc, head_dim, 24);
AT(vfa_attn_desc, head_dim_v, 28);
AT(vfa_attn_desc, scale_mode, 32);
AT(vfa_attn_desc, scale, 36);
AT(vfa_attn_desc, softcap, 40);
AT(vfa_attn_desc, causal, 44);
AT(vfa_attn_desc, window_left, 48);
AT(vfa_attn_desc, window_right, 52);
AT(vfa_attn_desc, max_seqlen_q, 56);
AT(vfa_attn_desc, max_seqlen_k, 60);
AT(vfa_attn_desc, q_token_stride, 64);
AT(vfa_attn_desc, q_head_stride, 72);
AT(vfa_attn_desc, k_token_stride, 80);
AT(vfa_attn_desc, k_head_stride, 88);
AT(vfa_attn_desc, v_token_stride, 96);
AT(vfa_attn_desc, v_head_stride, 104);
AT(vfa_attn_desc, o_token_stride, 112);
AT(vfa_attn_desc, o_head_stride, 120);
AT(vfa_attn_desc, lse_token_stride, 128);
AT(vfa_attn_desc, lse_head_stride, 136);
AT(vfa_attn_desc, reserve_seqs, 144);

SIZE(vfa_plan_info, 136);
AT(vfa_plan_info, struct_size, 0);
AT(vfa_plan_info, backend, 4);
AT(vfa_plan_info, num_seqs, 8);
AT(vfa_plan_info, total_q, 16);
AT(vfa_plan_info, total_k, 24);
AT(vfa_plan_info, max_seqlen_q, 32);
AT(vfa_plan_info, max_seqlen_k, 40);
AT(vfa_plan_info, num_work_units, 48);
AT(vfa_plan_info, workspace_bytes, 56);
AT(vfa_plan_info, flops, 64);
AT(vfa_plan_info, kernel, 72);

int main(void) { return 0; } /* it compiled: all is well */
