#include "problem/validate.hpp"

#include <cmath>
#include <cstring>
#include <numeric>
#include <string_view>

#include "core/bounded.hpp"
#include "core/cpu_count.hpp"
#include "core/dtype.hpp"

namespace vfa {

namespace {

__extension__ typedef __int128 Int128; // products of two 64-bit values

constexpr vfa_status kInvalid = VFA_ERROR_INVALID_ARGUMENT;
constexpr uint32_t kMaxHeads = 65536, kMaxHeadDim = 256, kMaxWorkers = 4096;

template <class Enum> Status check_enum(const char *name, Enum value, int last) {
    if ((int)value >= 0 && (int)value <= last) return {};
    return fail(kInvalid, "%s is %d, but its values are 0 to %d", name, (int)value, last);
}

Status check_range(const char *name, uint32_t value, uint32_t low, uint32_t high) {
    if (value >= low && value <= high) return {};
    return fail(kInvalid, "%s is %u, but must be %u to %u", name, value, low, high);
}

Status check_at_least(const char *name, int64_t value, int64_t low) {
    if (value >= low) return {};
    return fail(kInvalid, "%s is %lld, but must be at least %lld", name, (long long)value,
                (long long)low);
}

// A tensor [tokens, heads, dim] with strides, as the messages name it.
struct Tensor {
    const char *name;
    Strides strides;
    int64_t heads, dim;
};

Tensor q_of(const Problem &p) { return {"q", p.q, p.heads_q, p.head_dim}; }
Tensor k_of(const Problem &p) { return {"k", p.k, p.heads_kv, p.head_dim}; }
Tensor v_of(const Problem &p) { return {"v", p.v, p.heads_kv, p.head_dim_v}; }
Tensor o_of(const Problem &p) { return {"o", p.o, p.heads_q, p.head_dim_v}; }
Tensor lse_of(const Problem &p) { return {"lse", p.lse, p.heads_q, 1}; }

// Elements from the first to the last of `tokens` tokens.
Int128 extent(const Tensor &t, int64_t tokens) {
    if (tokens == 0) return 0;
    return (Int128)(tokens - 1) * t.strides.token + (Int128)(t.heads - 1) * t.strides.head + t.dim;
}

// Elements that the heads of one token span.
Int128 token_span(const Tensor &t) { return (Int128)(t.heads - 1) * t.strides.head + t.dim; }

Status resolve_strides(const char *name, int64_t token, int64_t head, int64_t heads, int64_t dim,
                       Strides *strides) {
    // 2^56 elements are more than any address space holds; below it nothing here can overflow.
    constexpr int64_t kMaxStride = (int64_t)1 << 56;
    for (const auto &[which, value] : {std::pair{"token", token}, std::pair{"head", head}})
        if (value < 0 || value > kMaxStride)
            return fail(kInvalid, "%s_%s_stride is %lld, but must be 0 (packed) to 2^56", name,
                        which, (long long)value);
    strides->head = head ? head : dim;
    strides->token = token ? token : heads * strides->head;
    return {};
}

// No two rows of an output may share an element: one of the two strides must step over all that the
// other spans.
Status check_rows_apart(const Tensor &t, int64_t tokens) {
    const bool heads_apart = t.heads <= 1 || t.strides.head >= t.dim;
    const bool tokens_apart = tokens <= 1 || t.strides.token >= t.dim;
    const bool heads_inside = tokens <= 1 || t.strides.token >= token_span(t);
    const bool tokens_inside =
        t.heads <= 1 || t.strides.head >= (Int128)(tokens - 1) * t.strides.token + t.dim;
    if (heads_apart && tokens_apart && (heads_inside || tokens_inside)) return {};
    return fail(kInvalid,
                "%s_token_stride = %lld and %s_head_stride = %lld make rows of %s overlap "
                "(%lld tokens, %lld heads, %lld elements a row)",
                t.name, (long long)t.strides.token, t.name, (long long)t.strides.head, t.name,
                (long long)tokens, (long long)t.heads, (long long)t.dim);
}

Status check_cu_seqlens(const char *name, std::span<const int32_t> cu) {
    if (cu.empty()) return {};
    if (cu[0] != 0) return fail(kInvalid, "%s[0] = %d, but must be 0", name, cu[0]);
    for (size_t b = 1; b < cu.size(); b++)
        if (cu[b] < cu[b - 1])
            return fail(kInvalid, "%s[%zu] = %d is below %s[%zu] = %d", name, b, cu[b], name, b - 1,
                        cu[b - 1]);
    return {};
}

Status check_seqused(const char *name, std::span<const int32_t> used, const char *cu_name,
                     std::span<const int32_t> cu) {
    if (used.data() == nullptr) return {};
    const size_t num_seqs = cu.empty() ? 0 : cu.size() - 1;
    if (used.size() != num_seqs)
        return fail(kInvalid, "%s_len is %zu, but there are %zu sequences", name, used.size(),
                    num_seqs);
    for (size_t b = 0; b < num_seqs; b++)
        if (used[b] < 0 || used[b] > cu[b + 1] - cu[b])
            return fail(
                kInvalid, "%s[%zu] = %d, but must be 0 to %d (%s[%zu] = %d less %s[%zu] = %d)",
                name, b, used[b], cu[b + 1] - cu[b], cu_name, b + 1, cu[b + 1], cu_name, b, cu[b]);
    return {};
}

Status check_max_seqlen(const char *name, int32_t hint, std::span<const int32_t> cu,
                        std::span<const int32_t> used) {
    if (hint == 0) return {};
    for (size_t b = 0; b + 1 < cu.size(); b++) {
        const int32_t length = used.empty() ? cu[b + 1] - cu[b] : used[b];
        if (length > hint)
            return fail(kInvalid, "%s is %d, but sequence %zu has %d rows", name, hint, b, length);
    }
    return {};
}

Status check_per_head(const char *name, const float *values, size_t len, int32_t heads_q) {
    VFA_TRY(validate_pointer(name, values));
    if (len != (size_t)heads_q)
        return fail(kInvalid, "%s_len is %zu, but there are %d q heads", name, len, heads_q);
    return {};
}

// ------------------------------------------------------------------------------------- buffers

// A buffer of the caller with the tensor that the plan sees in it.
struct Buffer {
    Tensor tensor;
    const void *pointer;
    size_t len;
    int64_t tokens;
    size_t element_bytes;

    Int128 begin() const { return (Int128)(uintptr_t)pointer; }
    Int128 end() const { return begin() + extent(tensor, tokens) * (Int128)element_bytes; }
};

Status check_buffer(const Buffer &b) {
    char len_name[16] = "";
    std::strcat(std::strcpy(len_name, b.tensor.name), "_len");
    VFA_TRY(validate_array(b.tensor.name, b.pointer, b.len));
    if (b.len > (size_t)PTRDIFF_MAX / b.element_bytes)
        return fail(kInvalid, "%s is %zu, more elements than memory can hold", len_name, b.len);
    const Int128 needed = extent(b.tensor, b.tokens);
    if ((Int128)b.len >= needed) return {};
    if (needed > (Int128)INT64_MAX)
        return fail(kInvalid, "%s is %zu, but the plan's strides span more than 2^63 elements",
                    len_name, b.len);
    return fail(kInvalid,
                "%s is %zu, but the plan needs %lld (%lld tokens x %lld heads x %lld, strides %lld "
                "and %lld)",
                len_name, b.len, (long long)needed, (long long)b.tokens, (long long)b.tensor.heads,
                (long long)b.tensor.dim, (long long)b.tensor.strides.token,
                (long long)b.tensor.strides.head);
}

// Whether two spans that repeat every `step` bytes, the other one `shift` bytes later, never meet.
bool apart_in_step(Int128 step, Int128 span, Int128 other_span, Int128 shift) {
    if (step <= 0 || span > step || other_span > step) return false;
    const Int128 offset = (shift % step + step) % step;
    return offset >= span && offset + other_span <= step;
}

// Whether two buffers with intersecting address ranges still share no element. Recognised are parts of
// one buffer that take turns token by token ([tokens, 2, heads, dim], a fused projection), head by head
// ([heads, 2, tokens, dim]), or row by row ([tokens, heads, 2, dim]).
bool interleaved(const Buffer &a, const Buffer &b) {
    const auto bytes = [](const Buffer &buffer, Int128 elements) {
        return elements * (Int128)buffer.element_bytes;
    };
    const auto head_span = [](const Buffer &buffer) {
        return (Int128)(buffer.tokens - 1) * buffer.tensor.strides.token + buffer.tensor.dim;
    };
    const Int128 shift = b.begin() - a.begin();
    const Int128 token_step = bytes(a, a.tensor.strides.token);
    const Int128 head_step = bytes(a, a.tensor.strides.head);
    if (token_step != bytes(b, b.tensor.strides.token)) return false;
    if (apart_in_step(token_step, bytes(a, token_span(a.tensor)), bytes(b, token_span(b.tensor)),
                      shift))
        return true;
    if (head_step != bytes(b, b.tensor.strides.head)) return false;
    return apart_in_step(head_step, bytes(a, head_span(a)), bytes(b, head_span(b)), shift) ||
           apart_in_step(std::gcd((int64_t)token_step, (int64_t)head_step), bytes(a, a.tensor.dim),
                         bytes(b, b.tensor.dim), shift);
}

Status check_apart(const Buffer &output, const Buffer &other) {
    if (output.begin() >= other.end() || other.begin() >= output.end()) return {};
    if (interleaved(output, other)) return {};
    return fail(kInvalid, "%s and %s share memory: %s begins %lld bytes after %s",
                output.tensor.name, other.tensor.name, other.tensor.name,
                (long long)(other.begin() - output.begin()), output.tensor.name);
}

const char *forward_name(ForwardKind kind) {
    switch (kind) {
    case ForwardKind::half:
        return "vfa_forward_host";
    case ForwardKind::half_o_f32:
        return "vfa_forward_host_o_f32";
    case ForwardKind::f32:
        return "vfa_forward_host_f32";
    }
    return "";
}

} // namespace

Status validate_pointer(const char *name, const void *pointer) {
    return pointer ? Status{} : fail(kInvalid, "%s is NULL", name);
}

Status validate_array(const char *name, const void *pointer, size_t len) {
    if (pointer || len == 0) return {};
    return fail(kInvalid, "%s is NULL, but %s_len is %zu", name, name, len);
}

Status validate_context(const vfa_context_desc &desc, const vfa_hooks *hooks,
                        std::span<const char *const> isa_names, ContextOptions *options) {
    VFA_TRY(check_range("num_threads", desc.num_threads, 0, kMaxWorkers));
    VFA_TRY(check_enum("log_level", desc.log_level, VFA_LOG_INFO));
    VFA_TRY(check_at_least("device", desc.device, 0));

    ContextOptions result{};
    result.log_level = desc.log_level;
    result.device = desc.device;
    const uint32_t allowed = allowed_cpus();
    result.threads = desc.num_threads ? smaller(desc.num_threads, allowed) : allowed;

    result.isa_cap = (uint32_t)isa_names.size() - 1;
    if (desc.max_isa[0]) {
        const size_t length = strnlen(desc.max_isa, sizeof desc.max_isa);
        if (length == sizeof desc.max_isa)
            return fail(kInvalid, "max_isa has no terminating zero in its %zu bytes", length);
        uint32_t index = 0;
        while (index < isa_names.size() && std::strcmp(isa_names[index], desc.max_isa) != 0)
            index++;
        if (index == isa_names.size()) {
            char known[256] = "";
            for (const char *name : isa_names)
                if (std::strlen(known) + std::strlen(name) + 2 < sizeof known)
                    std::strcat(std::strcat(known, " "), name);
            return fail(kInvalid, "max_isa is \"%s\", but the instruction sets are:%s",
                        desc.max_isa, known);
        }
        result.isa_cap = index;
    }

    if (hooks) {
        if (!hooks->alloc != !hooks->free)
            return fail(kInvalid, "hooks.%s is NULL, but hooks.%s is not: give both or neither",
                        hooks->alloc ? "free" : "alloc", hooks->alloc ? "alloc" : "free");
        if (hooks->parallel)
            VFA_TRY(check_range("hooks.max_workers", hooks->max_workers, 1, kMaxWorkers));
        if (!hooks->parallel && hooks->max_workers)
            return fail(kInvalid, "hooks.max_workers is %u, but hooks.parallel is NULL",
                        hooks->max_workers);
        result.hooks = *hooks;
    }
    *options = result;
    return {};
}

Status validate_half(vfa_dtype dtype) {
    VFA_TRY(check_enum("dtype", dtype, VFA_DTYPE_F32));
    if (dtype != VFA_DTYPE_F32) return {};
    return fail(kInvalid, "dtype is VFA_DTYPE_F32: call vfa_varlen_forward_f32");
}

Status validate_query(vfa_backend backend, int32_t device) {
    VFA_TRY(check_enum("backend", backend, VFA_BACKEND_VARLEN));
    VFA_TRY(check_at_least("device", device, 0));
    const bool on_cpu = backend == VFA_BACKEND_MATH || backend == VFA_BACKEND_MEMORY_EFFICIENT ||
                        backend == VFA_BACKEND_CPU;
    if (on_cpu && device != 0)
        return fail(kInvalid, "device is %d, but backends on the CPU take 0 only", device);
    return {};
}

Status validate_index(const char *name, uint32_t index, uint32_t count) {
    if (index < count) return {};
    return fail(kInvalid, "%s is %u, but must be below %u", name, index, count);
}

Status validate_attn(const vfa_attn_desc &d, Problem *problem) {
    VFA_TRY(check_enum("backend", d.backend, VFA_BACKEND_VARLEN));
    VFA_TRY(check_enum("dtype", d.dtype, VFA_DTYPE_F32));
    VFA_TRY(check_range("o_f32", d.o_f32, 0, 1));
    VFA_TRY(check_range("heads_q", d.heads_q, 1, kMaxHeads));
    VFA_TRY(check_range("heads_kv", d.heads_kv, 1, kMaxHeads));
    if (d.heads_q % d.heads_kv != 0)
        return fail(kInvalid, "heads_q = %u is not a multiple of heads_kv = %u", d.heads_q,
                    d.heads_kv);
    VFA_TRY(check_range("head_dim", d.head_dim, 1, kMaxHeadDim));
    VFA_TRY(check_range("head_dim_v", d.head_dim_v, 0, kMaxHeadDim));
    VFA_TRY(check_enum("scale_mode", d.scale_mode, VFA_SCALE_GIVEN));
    if (!std::isfinite(d.scale))
        return fail(kInvalid, "scale is %g, but must be finite", (double)d.scale);
    if (d.scale_mode == VFA_SCALE_DEFAULT && d.scale != 0)
        return fail(kInvalid,
                    "scale is %g, but scale_mode is VFA_SCALE_DEFAULT: set VFA_SCALE_GIVEN",
                    (double)d.scale);
    if (!std::isfinite(d.softcap) || d.softcap < 0)
        return fail(kInvalid, "softcap is %g, but must be 0 (off) or positive and finite",
                    (double)d.softcap);
    VFA_TRY(check_enum("causal", d.causal, VFA_CAUSAL_BOTTOM_RIGHT));
    VFA_TRY(check_at_least("window_left", d.window_left, -1));
    VFA_TRY(check_at_least("window_right", d.window_right, -1));
    VFA_TRY(check_at_least("max_seqlen_q", d.max_seqlen_q, 0));
    VFA_TRY(check_at_least("max_seqlen_k", d.max_seqlen_k, 0));
    VFA_TRY(check_at_least("reserve_seqs", d.reserve_seqs, 0));
    if (d.reserve_seqs > INT32_MAX)
        return fail(kInvalid, "reserve_seqs is %lld, but must be below 2^31",
                    (long long)d.reserve_seqs);

    Problem p{};
    p.backend = d.backend;
    p.dtype = d.dtype;
    p.o_f32 = d.o_f32 || d.dtype == VFA_DTYPE_F32;
    p.heads_q = (int32_t)d.heads_q;
    p.heads_kv = (int32_t)d.heads_kv;
    p.group = p.heads_q / p.heads_kv;
    p.head_dim = (int32_t)d.head_dim;
    p.head_dim_v = d.head_dim_v ? (int32_t)d.head_dim_v : p.head_dim;
    p.scale =
        d.scale_mode == VFA_SCALE_GIVEN ? d.scale : (float)(1.0 / std::sqrt((double)p.head_dim));
    p.softcap = d.softcap;
    p.causal = d.causal;
    p.window_left = d.window_left;
    p.window_right = d.window_right;
    p.max_seqlen_q = d.max_seqlen_q;
    p.max_seqlen_k = d.max_seqlen_k;
    p.reserve_seqs = d.reserve_seqs;
    VFA_TRY(resolve_strides("q", d.q_token_stride, d.q_head_stride, p.heads_q, p.head_dim, &p.q));
    VFA_TRY(resolve_strides("k", d.k_token_stride, d.k_head_stride, p.heads_kv, p.head_dim, &p.k));
    VFA_TRY(
        resolve_strides("v", d.v_token_stride, d.v_head_stride, p.heads_kv, p.head_dim_v, &p.v));
    VFA_TRY(resolve_strides("o", d.o_token_stride, d.o_head_stride, p.heads_q, p.head_dim_v, &p.o));
    VFA_TRY(resolve_strides("lse", d.lse_token_stride, d.lse_head_stride, p.heads_q, 1, &p.lse));
    *problem = p;
    return {};
}

Status validate_lengths(const Problem &p, const LengthArrays &a) {
    VFA_TRY(validate_array("cu_seqlens_q", a.cu_seqlens_q.data(), a.cu_seqlens_q.size()));
    VFA_TRY(validate_array("cu_seqlens_k", a.cu_seqlens_k.data(), a.cu_seqlens_k.size()));
    VFA_TRY(validate_array("seqused_q", a.seqused_q.data(), a.seqused_q.size()));
    VFA_TRY(validate_array("seqused_k", a.seqused_k.data(), a.seqused_k.size()));
    if (a.cu_seqlens_q.size() != a.cu_seqlens_k.size())
        return fail(kInvalid,
                    "cu_seqlens_q_len is %zu, but cu_seqlens_k_len is %zu: both are num_seqs + 1",
                    a.cu_seqlens_q.size(), a.cu_seqlens_k.size());
    if (a.cu_seqlens_q.size() > (size_t)INT32_MAX)
        return fail(kInvalid, "cu_seqlens_q_len is %zu, but must be below 2^31",
                    a.cu_seqlens_q.size());
    VFA_TRY(check_cu_seqlens("cu_seqlens_q", a.cu_seqlens_q));
    VFA_TRY(check_cu_seqlens("cu_seqlens_k", a.cu_seqlens_k));
    VFA_TRY(check_seqused("seqused_q", a.seqused_q, "cu_seqlens_q", a.cu_seqlens_q));
    VFA_TRY(check_seqused("seqused_k", a.seqused_k, "cu_seqlens_k", a.cu_seqlens_k));
    VFA_TRY(check_max_seqlen("max_seqlen_q", p.max_seqlen_q, a.cu_seqlens_q, a.seqused_q));
    VFA_TRY(check_max_seqlen("max_seqlen_k", p.max_seqlen_k, a.cu_seqlens_k, a.seqused_k));
    const int64_t total_q = a.cu_seqlens_q.empty() ? 0 : a.cu_seqlens_q.back();
    VFA_TRY(check_rows_apart(o_of(p), total_q));
    return check_rows_apart(lse_of(p), total_q);
}

Status validate_alibi(const Problem &p, const float *slopes, size_t len) {
    VFA_TRY(check_per_head("slopes", slopes, len, p.heads_q));
    for (size_t h = 0; h < len; h++)
        if (!std::isfinite(slopes[h]))
            return fail(kInvalid, "slopes[%zu] = %g, but must be finite", h, (double)slopes[h]);
    return {};
}

Status validate_sinks(const Problem &p, const float *sinks, size_t len) {
    VFA_TRY(check_per_head("sinks", sinks, len, p.heads_q));
    for (size_t h = 0; h < len; h++)
        if (std::isnan(sinks[h]) || (std::isinf(sinks[h]) && sinks[h] > 0))
            return fail(kInvalid, "sinks[%zu] = %g, but must be finite or -infinity", h,
                        (double)sinks[h]);
    return {};
}

Status validate_tensors(const Problem &p, const Lengths &lengths, const HostTensors &t) {
    const ForwardKind kind = p.dtype == VFA_DTYPE_F32 ? ForwardKind::f32
                             : p.o_f32                ? ForwardKind::half_o_f32
                                                      : ForwardKind::half;
    if (t.kind != kind) {
        static constexpr const char *names[] = {"bf16", "f16", "f32"};
        return fail(kInvalid, "%s was called, but the plan has dtype %s and %s o: call %s",
                    forward_name(t.kind), names[p.dtype], p.o_f32 ? "f32" : names[p.dtype],
                    forward_name(kind));
    }
    const int64_t total_q = lengths.total_q(), total_k = lengths.total_k();
    const size_t bytes = dtype_bytes(p.dtype), o_bytes = p.o_f32 ? 4 : bytes;
    const Buffer q{q_of(p), t.q, t.q_len, total_q, bytes};
    const Buffer k{k_of(p), t.k, t.k_len, total_k, bytes};
    const Buffer v{v_of(p), t.v, t.v_len, total_k, bytes};
    const Buffer o{o_of(p), t.o, t.o_len, total_q, o_bytes};
    const Buffer lse{lse_of(p), t.lse, t.lse_len, t.lse ? total_q : 0, sizeof(float)};
    for (const Buffer *b : {&q, &k, &v, &o, &lse}) VFA_TRY(check_buffer(*b));
    for (const Buffer *input : {&q, &k, &v}) {
        VFA_TRY(check_apart(o, *input));
        VFA_TRY(check_apart(lse, *input));
    }
    return check_apart(o, lse);
}

} // namespace vfa
