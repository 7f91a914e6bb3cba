/*
 * vfa.h - variable-length flash attention: the whole public API, plain C99.
 *
 *   o[i] = sum_j softmax_j(scale * <q[i], k[j]>) * v[j]        for each head
 *
 * exactly, over sequences of different lengths packed end to end, in bf16, f16 or f32,
 * with the log-sum-exp of each row. Nothing is padded.
 *
 *   vfa_context_create      once: threads, instruction set, hooks
 *   vfa_plan_create         once per batch shape: description + cu_seqlens, checked and scheduled
 *   vfa_forward_host        as often as wanted, from any thread
 *
 * CONVENTIONS, true for every function unless its comment says otherwise
 *
 *  Units     Lengths, offsets and strides count elements, never bytes, unless the name ends in
 *            _bytes. Sequence lengths and positions count tokens.
 *  Shapes    Row-major, the last dimension contiguous.
 *              q    [total_q, heads_q,  head_dim]      k  [total_k, heads_kv, head_dim]
 *              o    [total_q, heads_q,  head_dim_v]    v  [total_k, heads_kv, head_dim_v]
 *              lse  [total_q, heads_q]
 *            Sequence b owns rows cu_seqlens[b] .. cu_seqlens[b+1]-1. cu_seqlens has
 *            num_seqs + 1 values, starts at 0 and never falls.
 *  bf16,f16  Passed as uint16_t bits. float -> bf16/f16 rounds to nearest even; NaN stays NaN.
 *  lse       float32, natural logarithm, after scale, softcap, ALiBi and sink.
 *  Empty     A query row that sees no key: o = 0, lse = -infinity. With a sink z: o = 0, lse = z.
 *            Rows whose visible logits are all -infinity count as rows that see no key.
 *  Bits      The bits of a sequence's o and lse depend on that sequence, the options, the backend
 *            and its kernel (vfa_plan_info.kernel) alone: not on its neighbours, their order,
 *            the batch, hints, threads or alignment.
 *  Range     Logits, sums and accumulators are float. Results are as in exact arithmetic where
 *            |scale * log2(e)| * |q|, each logit and each sum over keys of |weight * v| stay below
 *            2^127. VDPBF16PS ("avx512bf16") takes subnormal bf16 inputs as 0. MATH is double.
 *  Errors    Functions that can fail return vfa_status. All checks come before any work, so on
 *            INVALID_*, UNSUPPORTED, BACKEND_UNAVAILABLE and OUT_OF_MEMORY every output and object
 *            is as it was. A sentence says which argument, which index and which values: from
 *            vfa_last_error() on the calling thread, and in the vfa_error given to the call
 *            (for callers who look at it on another thread). No call aborts, prints or throws.
 *  Ownership What vfa_*_create gave is the caller's until vfa_*_destroy (NULL is allowed). All else
 *            is borrowed for the call. Objects hold what they need of each other: a context may be
 *            destroyed before its plans, in any order, as garbage collectors do.
 *  Threads   A context and a plan may be used by any number of threads at once. The exceptions say
 *            so: vfa_plan_set_* and vfa_plan_update change a plan. After fork, a child may go on
 *            with what it inherited if no call of vfa was running; it computes on one thread.
 *  Structs   Fill with the matching vfa_*_init(&x, sizeof x), then set what differs. Fields are
 *            only ever appended: a library reads what the caller's size covers, takes the default
 *            for the rest, and refuses non-zero bytes beyond what it knows.
 *  Enums     Signed 32-bit on every C ABI through a negative sentinel that is never passed. Values
 *            are never renumbered. An unknown value is an error, not undefined behaviour.
 */
#ifndef VFA_VFA_H
#define VFA_VFA_H

#include <stddef.h>
#include <stdint.h>

/* The build reads these three lines; they are the only place where a version is set. */
#define VFA_VERSION_MAJOR 0
#define VFA_VERSION_MINOR 1
#define VFA_VERSION_PATCH 0

/* A binding generator that cannot read attributes (SWIG) defines VFA_API as empty. */
#ifndef VFA_API
#if defined(_WIN32) && defined(VFA_BUILDING)
#define VFA_API __declspec(dllexport)
#elif defined(_WIN32) && !defined(VFA_STATIC)
#define VFA_API __declspec(dllimport)
#elif defined(__GNUC__)
#define VFA_API __attribute__((visibility("default")))
#else
#define VFA_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------- enums -- */

typedef enum vfa_status {
    VFA_OK = 0,
    VFA_ERROR_INVALID_ARGUMENT = -1,    /* the call can never succeed as made */
    VFA_ERROR_INVALID_STATE = -2,       /* right call, wrong moment */
    VFA_ERROR_UNSUPPORTED = -3,         /* a valid request that this backend does not serve */
    VFA_ERROR_BACKEND_UNAVAILABLE = -4, /* the backend cannot be used here: see its reason */
    VFA_ERROR_OUT_OF_MEMORY = -5,
    VFA_ERROR_DEVICE = -6,   /* the GPU driver reported an error */
    VFA_ERROR_INTERNAL = -7, /* a bug in vfa */
    VFA_STATUS_FORCE_INT32 = -0x7fffffff - 1
} vfa_status;

/* Where attention is computed. The same semantics on every one of them. */
typedef enum vfa_backend {
    VFA_BACKEND_AUTO = 0,               /* the best one here that serves the description */
    VFA_BACKEND_FLASH_ATTENTION = 1,    /* CUDA, sm_80 and newer */
    VFA_BACKEND_FLASH_ATTENTION_V3 = 2, /* CUDA, Hopper: wgmma and TMA */
    VFA_BACKEND_MATH = 3,               /* the definition, in double precision: slow, obvious */
    VFA_BACKEND_MEMORY_EFFICIENT = 4,   /* online softmax in portable C++, O(head_dim) per row */
    VFA_BACKEND_CUDNN = 5,
    VFA_BACKEND_METAL = 6,
    VFA_BACKEND_CPU = 7,    /* tiled SIMD kernels, chosen for this CPU */
    VFA_BACKEND_VARLEN = 8, /* the best packed path at hand: CUDA if usable, else CPU */
    VFA_BACKEND_FORCE_INT32 = -0x7fffffff - 1
} vfa_backend;

typedef enum vfa_dtype {
    VFA_DTYPE_BF16 = 0,
    VFA_DTYPE_F16 = 1,
    VFA_DTYPE_F32 = 2,
    VFA_DTYPE_FORCE_INT32 = -0x7fffffff - 1
} vfa_dtype;

/* Which keys a query sees. The two causal rules agree only where len_q == len_k, so there is no
 * plain "causal". i and j are positions in their sequence. */
typedef enum vfa_causal {
    VFA_CAUSAL_NONE = 0,
    VFA_CAUSAL_TOP_LEFT = 1,     /* j <= i */
    VFA_CAUSAL_BOTTOM_RIGHT = 2, /* j <= i + len_k - len_q, as FlashAttention since 2.1 */
    VFA_CAUSAL_FORCE_INT32 = -0x7fffffff - 1
} vfa_causal;

typedef enum vfa_scale_mode {
    VFA_SCALE_DEFAULT = 0, /* 1 / sqrt(head_dim); the field scale must be 0 */
    VFA_SCALE_GIVEN = 1,   /* the field scale, as it is: 0 and negative values are legal */
    VFA_SCALE_FORCE_INT32 = -0x7fffffff - 1
} vfa_scale_mode;

typedef enum vfa_log_level {
    VFA_LOG_NONE = 0,
    VFA_LOG_ERROR = 1, /* the sentence of each failed call */
    VFA_LOG_WARN = 2,  /* it works, but not as asked: fewer threads than wanted */
    VFA_LOG_INFO = 3,  /* what was chosen: threads, instruction set, backend */
    VFA_LOG_FORCE_INT32 = -0x7fffffff - 1
} vfa_log_level;

typedef struct vfa_context vfa_context; /* threads, memory, instruction set */
typedef struct vfa_plan vfa_plan;       /* a checked attention problem and its schedule */

/* What went wrong in one call. Give its address to a call that takes a vfa_error; it is written
 * only if that call fails. NULL where it is not wanted. Its layout is final. */
typedef struct vfa_error {
    vfa_status status;
    char message[508]; /* one English sentence, UTF-8, always terminated */
} vfa_error;

/* ----------------------------------------------------------------------- version and errors -- */

/* Version of the loaded library: MAJOR << 16 | MINOR << 8 | PATCH. */
VFA_API uint32_t vfa_version(void);
/* The same as text, with build details: "0.1.0 (g++ 12.2, x86_64)". Static. */
VFA_API const char *vfa_version_string(void);
/* "VFA_ERROR_UNSUPPORTED" and the like; "unknown status" for other values. Static. */
VFA_API const char *vfa_status_name(vfa_status status);
/* The sentence of the last call that failed on this thread, "" if none did. Never NULL. Valid
 * until the next failing call on this thread. */
VFA_API const char *vfa_last_error(void);

/* --------------------------------------------------------------------------------- backends -- */

/* Display name: "Auto", "FlashAttention", "FlashAttentionV3", "Math", "MemoryEfficient", "CuDNN",
 * "Metal", "Cpu", "VarLen". NULL for other values. Static. */
VFA_API const char *vfa_backend_name(vfa_backend backend);
/* The way back. Letter case does not matter, nor do '_' and '-': "flash_attention_v3" is found. */
VFA_API vfa_status vfa_backend_from_name(const char *name, vfa_backend *backend_out);

typedef struct vfa_backend_info {
    uint32_t struct_size;
    int32_t available;          /* 1: plans can be made; 0: see reason */
    vfa_backend resolved;       /* AUTO and VARLEN: the backend they stand for here */
    int32_t device_count;       /* GPU backends; else 0 */
    int32_t compute_capability; /* CUDA: 10 * major + minor; else 0 */
    uint32_t threads;           /* CPU backends: threads that a default context uses */
    uint64_t memory_bytes;      /* device memory; 0 on the CPU */
    char device[64];            /* processor or GPU, by its own name */
    char isa[32];               /* kernels in use: "avx2", "math" */
    char reason[256];           /* why it is not available; "" if it is */
} vfa_backend_info;

VFA_API vfa_status vfa_backend_info_init(vfa_backend_info *info, size_t size);
/* Is the backend usable here? VFA_OK also where it is not: then available is 0 and reason is a
 * sentence. Creates nothing. device is the GPU's index; CPU backends take 0 only. */
VFA_API vfa_status vfa_backend_query(vfa_backend backend, int32_t device, vfa_backend_info *info);

typedef struct vfa_isa_info {
    uint32_t struct_size;
    int32_t available; /* 1: this processor can run it */
    char name[32];     /* as vfa_context_desc.max_isa takes it */
    char reason[92];   /* which feature is missing; "" if available */
} vfa_isa_info;

VFA_API vfa_status vfa_isa_info_init(vfa_isa_info *info, size_t size);
/* The instruction sets that VFA_BACKEND_CPU has kernels for, worst first. */
VFA_API uint32_t vfa_isa_count(void);
VFA_API vfa_status vfa_isa_query(uint32_t index, vfa_isa_info *info);

/* ---------------------------------------------------------------------------------- context -- */

/* Optional hooks; each is used only if its function is not NULL. They must not call vfa, throw or
 * jump out, and find the default floating-point environment. The struct is copied; user must stay
 * valid as long as the context and its plans. */
typedef struct vfa_hooks {
    uint32_t struct_size;
    uint32_t max_workers; /* see parallel; 1..4096 with it, 0 without */
    void *user;           /* given back as it is */
    /* Memory: both or neither. alignment is a power of two up to 4096. alloc returns NULL on
     * failure; free gets the size that was asked for. Called from any thread. */
    void *(*alloc)(void *user, size_t size_bytes, size_t alignment);
    void (*free)(void *user, void *ptr, size_t size_bytes);
    /* Threads: call fn(job, i, worker) once for each i in [0, count), on any threads, in any order,
     * and return when all have returned. worker is in [0, max_workers), and no two calls that run
     * at the same time for one job may have the same. With it vfa starts no thread of its own. */
    void (*parallel)(void *user, uint32_t count, void (*fn)(void *job, uint32_t i, uint32_t worker),
                     void *job);
    /* Log: one line of UTF-8 without newline, valid during the call. From any thread, never from
     * two at once for one context. */
    void (*log)(void *user, vfa_log_level level, const char *message);
} vfa_hooks;

VFA_API vfa_status vfa_hooks_init(vfa_hooks *hooks, size_t size);

typedef struct vfa_context_desc {
    uint32_t struct_size;
    uint32_t num_threads;    /* for host calls; 0 = all that affinity and cgroup quota allow. Never
                                more than those allow; fewer when threads cannot be started. */
    vfa_log_level log_level; /* what is sent to hooks.log */
    int32_t device;          /* index of the GPU for GPU backends */
    char max_isa[32];        /* "" = the best of this CPU; a vfa_isa_info name caps it, for tests */
} vfa_context_desc;

VFA_API vfa_status vfa_context_desc_init(vfa_context_desc *desc, size_t size);
/* desc NULL: all defaults. hooks may be NULL. On failure *ctx_out is NULL. */
VFA_API vfa_status vfa_context_create(const vfa_context_desc *desc, const vfa_hooks *hooks,
                                      vfa_context **ctx_out, vfa_error *error);
/* The caller's handle ends here; plans made from it go on working. */
VFA_API void vfa_context_destroy(vfa_context *ctx);

typedef struct vfa_context_info {
    uint32_t struct_size;
    uint32_t num_threads; /* that one host call uses at most, its caller included */
    int32_t device;
    char isa[32]; /* of VFA_BACKEND_CPU in this context */
} vfa_context_info;

VFA_API vfa_status vfa_context_info_init(vfa_context_info *info, size_t size);
VFA_API vfa_status vfa_context_get_info(const vfa_context *ctx, vfa_context_info *info);

/* ------------------------------------------------------------------------------- attention -- */

/* What to compute for each sequence. For query row i (of len_q) and key j (of len_k):
 *   s = scale * <q_i, k_j>
 *   softcap c > 0: s = c * tanh(s / c);   ALiBi slope m: s -= m * |i + len_k - len_q - j|
 *   visible: causal as above, and p - window_left <= j <= p + window_right around the diagonal
 *   p = i (TOP_LEFT) or i + len_k - len_q (otherwise)
 *   o_i = sum_j exp(s_j - lse_i) v_j;  lse_i = ln(sum_j exp(s_j) + exp(sink))
 * Online softmax: Milakov and Gimelshein 2018 (arXiv:1805.02867); tiling: Dao et al. 2022
 * (arXiv:2205.14135); ALiBi: Press et al. 2021 (arXiv:2108.12409). */
typedef struct vfa_attn_desc {
    uint32_t struct_size;
    vfa_backend
        backend;     /* a name never gives another backend; AUTO and VARLEN: see vfa_plan_info */
    vfa_dtype dtype; /* of q, k, v */
    uint32_t o_f32;  /* 0: o as q; 1: o is float also for bf16/f16 (vfa_forward_host_o_f32) */
    uint32_t
        heads_q; /* 1..65536, a multiple of heads_kv; kv head = q head / (heads_q / heads_kv) */
    uint32_t heads_kv;
    uint32_t head_dim;         /* 1..256 */
    uint32_t head_dim_v;       /* 1..256; 0 = head_dim */
    vfa_scale_mode scale_mode; /* default: 1 / sqrt(head_dim) */
    float scale;               /* with VFA_SCALE_GIVEN: finite */
    float softcap;             /* 0 = off; else finite and positive */
    vfa_causal causal;
    int32_t window_left;  /* keys seen before the diagonal; -1 = all (set by init), 0 = none */
    int32_t window_right; /* keys seen after it; -1 = all (set by init), 0 = none */
    int32_t
        max_seqlen_q; /* hints: 0 = none. They never change a result; one that is too small is */
    int32_t max_seqlen_k; /* an error. */
    /* Element strides between tokens and between heads; 0 = packed (head: the head's dim; token:
     * heads times the head stride). Never negative. A fused [total, 3, heads, head_dim] projection
     * is read in place with token stride 3 * heads * head_dim; lse as [heads_q, total_q] has the
     * strides 1 and total_q. */
    int64_t q_token_stride, q_head_stride;
    int64_t k_token_stride, k_head_stride;
    int64_t v_token_stride, v_head_stride;
    int64_t o_token_stride, o_head_stride;     /* no two rows of o or of lse may share an element */
    int64_t lse_token_stride, lse_head_stride; /* packed: heads_q and 1 */
    /* Sequences that vfa_plan_update has room for without allocating; 0: as many as at creation. */
    int64_t reserve_seqs;
} vfa_attn_desc;

VFA_API vfa_status vfa_attn_desc_init(vfa_attn_desc *desc, size_t size);
/* Does desc->backend serve this description in ctx? VFA_OK; INVALID_ARGUMENT where desc is wrong;
 * UNSUPPORTED or BACKEND_UNAVAILABLE with the reason. resolved_out (may be NULL) gets the backend
 * that AUTO and VARLEN take. */
VFA_API vfa_status vfa_attn_supported(vfa_context *ctx, const vfa_attn_desc *desc,
                                      vfa_backend *resolved_out, vfa_error *error);

/* ------------------------------------------------------------------------------------- plan -- */

/* Checks the problem, copies the lengths, schedules the work and reserves scratch memory, so that
 * vfa_forward_* allocates nothing. (Calls at the same time on one context need a block of scratch
 * memory each; a block that is missing is allocated once, and kept for later calls.)
 *   cu_seqlens_q, cu_seqlens_k  num_seqs + 1 values each; both NULL, 0: no sequences
 *   seqused_q, seqused_k        num_seqs values, or NULL, 0: only the first seqused rows of each
 *                               segment are the sequence's; the rest is never read or written */
VFA_API vfa_status vfa_plan_create(vfa_context *ctx, const vfa_attn_desc *desc,
                                   const int32_t *cu_seqlens_q, size_t cu_seqlens_q_len,
                                   const int32_t *cu_seqlens_k, size_t cu_seqlens_k_len,
                                   const int32_t *seqused_q, size_t seqused_q_len,
                                   const int32_t *seqused_k, size_t seqused_k_len,
                                   vfa_plan **plan_out, vfa_error *error);
/* New lengths for the same description. Allocates only for more sequences than reserve_seqs and
 * than the plan ever had (MATH also for longer ones: it materialises a row of scores). On failure
 * the plan keeps its old lengths. INVALID_STATE while another call uses the plan: it does not wait
 * for its turn, so stop the forward calls first. */
VFA_API vfa_status vfa_plan_update(vfa_plan *plan, const int32_t *cu_seqlens_q,
                                   size_t cu_seqlens_q_len, const int32_t *cu_seqlens_k,
                                   size_t cu_seqlens_k_len, const int32_t *seqused_q,
                                   size_t seqused_q_len, const int32_t *seqused_k,
                                   size_t seqused_k_len, vfa_error *error);
/* ALiBi slopes, one for each q head, finite. Before the first forward, else INVALID_STATE. */
VFA_API vfa_status vfa_plan_set_alibi(vfa_plan *plan, const float *slopes, size_t slopes_len,
                                      vfa_error *error);
/* Sink logits, one for each q head: one more term exp(sink) in the softmax's denominator. -infinity
 * = none; NaN and +infinity are errors. Before the plan's first forward, else INVALID_STATE. */
VFA_API vfa_status vfa_plan_set_sinks(vfa_plan *plan, const float *sinks, size_t sinks_len,
                                      vfa_error *error);
/* Not while a call on this plan runs. */
VFA_API void vfa_plan_destroy(vfa_plan *plan);

typedef struct vfa_plan_info {
    uint32_t struct_size;
    vfa_backend backend; /* the one that computes; never AUTO or VARLEN */
    uint64_t num_seqs;
    uint64_t total_q, total_k; /* rows that the buffers must have: the last cu_seqlens */
    uint64_t max_seqlen_q, max_seqlen_k;
    uint64_t num_work_units;  /* pieces of work for the threads */
    uint64_t workspace_bytes; /* scratch memory that one forward call uses */
    uint64_t flops;           /* of both products over visible pairs; at most 2^63 */
    char kernel[64];          /* "cpu/avx2", "math" */
} vfa_plan_info;

VFA_API vfa_status vfa_plan_info_init(vfa_plan_info *info, size_t size);
VFA_API vfa_status vfa_plan_get_info(const vfa_plan *plan, vfa_plan_info *info);

/* ---------------------------------------------------------------------------------- forward --
 * Host memory; returns when o and lse are written. Each _len is the number of elements at the
 * pointer, checked against the plan. lse NULL, 0: not wanted. o and lse must not share an element
 * with each other or with q, k, v; parts of one buffer may take turns by tokens, heads or rows.
 * Rows outside the sequences are neither read nor written.
 * Unaligned pointers are fine as far as C allows them. */

/* bf16 and f16. */
VFA_API vfa_status vfa_forward_host(const vfa_plan *plan, const uint16_t *q, size_t q_len,
                                    const uint16_t *k, size_t k_len, const uint16_t *v,
                                    size_t v_len, uint16_t *o, size_t o_len, float *lse,
                                    size_t lse_len, vfa_error *error);
/* bf16 and f16 in, float out: a plan with o_f32 = 1. */
VFA_API vfa_status vfa_forward_host_o_f32(const vfa_plan *plan, const uint16_t *q, size_t q_len,
                                          const uint16_t *k, size_t k_len, const uint16_t *v,
                                          size_t v_len, float *o, size_t o_len, float *lse,
                                          size_t lse_len, vfa_error *error);
/* f32. */
VFA_API vfa_status vfa_forward_host_f32(const vfa_plan *plan, const float *q, size_t q_len,
                                        const float *k, size_t k_len, const float *v, size_t v_len,
                                        float *o, size_t o_len, float *lse, size_t lse_len,
                                        vfa_error *error);

/* One call for those who want no objects: packed q, k, v, o, lse, AUTO backend, a context that the
 * process shares. max_seqlen_* as the hints above. The scale is always the one given. dtype is BF16
 * or F16; the _f32 twin has none. */
VFA_API vfa_status vfa_varlen_forward(vfa_dtype dtype, const uint16_t *q, size_t q_len,
                                      const uint16_t *k, size_t k_len, const uint16_t *v,
                                      size_t v_len, uint16_t *o, size_t o_len, float *lse,
                                      size_t lse_len, const int32_t *cu_seqlens_q,
                                      size_t cu_seqlens_q_len, const int32_t *cu_seqlens_k,
                                      size_t cu_seqlens_k_len, uint32_t heads_q, uint32_t heads_kv,
                                      uint32_t head_dim, int32_t max_seqlen_q, int32_t max_seqlen_k,
                                      float scale, vfa_causal causal, vfa_error *error);
VFA_API vfa_status vfa_varlen_forward_f32(const float *q, size_t q_len, const float *k,
                                          size_t k_len, const float *v, size_t v_len, float *o,
                                          size_t o_len, float *lse, size_t lse_len,
                                          const int32_t *cu_seqlens_q, size_t cu_seqlens_q_len,
                                          const int32_t *cu_seqlens_k, size_t cu_seqlens_k_len,
                                          uint32_t heads_q, uint32_t heads_kv, uint32_t head_dim,
                                          int32_t max_seqlen_q, int32_t max_seqlen_k, float scale,
                                          vfa_causal causal, vfa_error *error);

#ifdef __cplusplus
}
#endif

#endif /* VFA_VFA_H */
