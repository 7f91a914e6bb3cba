// validate.hpp - every check of what a caller gives, in one place. Each failure has a status and a
// sentence with the argument, the index and the values. Nothing here writes to the caller's memory.
#pragma once
#include <cstddef>

#include "core/context.hpp"
#include "core/status.hpp"
#include "problem/problem.hpp"

namespace vfa {

// isa_names: the instruction sets that max_isa may name. hooks may be null.
Status validate_context(const vfa_context_desc &desc, const vfa_hooks *hooks,
                        std::span<const char *const> isa_names, ContextOptions *options);

// The dtype of 16-bit tensors in a call without a description.
Status validate_half(vfa_dtype dtype);

// Which backend and device are asked about.
Status validate_query(vfa_backend backend, int32_t device);

// An index into a list of count things.
Status validate_index(const char *name, uint32_t index, uint32_t count);

Status validate_attn(const vfa_attn_desc &desc, Problem *problem);

Status validate_lengths(const Problem &problem, const LengthArrays &arrays);

// One float for each q head: ALiBi slopes, sinks.
Status validate_alibi(const Problem &problem, const float *slopes, size_t len);
Status validate_sinks(const Problem &problem, const float *sinks, size_t len);

// What a forward function was given. The names of the C API's types are erased, so its kind is
// told.
enum class ForwardKind { half, half_o_f32, f32 };
struct HostTensors {
    ForwardKind kind;
    const void *q;
    size_t q_len;
    const void *k;
    size_t k_len;
    const void *v;
    size_t v_len;
    void *o;
    size_t o_len;
    float *lse;
    size_t lse_len;
};
Status validate_tensors(const Problem &problem, const Lengths &lengths, const HostTensors &tensors);

// A pointer to an array with its length: null only with 0.
Status validate_array(const char *name, const void *pointer, size_t len);

// An argument that must not be null.
Status validate_pointer(const char *name, const void *pointer);

} // namespace vfa
