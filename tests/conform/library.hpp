// library.hpp - problems through the C API: backends, buffers in all layouts, results.
#pragma once
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <vfa/vfa.h>

#include "case.hpp"

namespace conform {

// A failed call, with its sentence.
struct Failure : std::runtime_error {
    Failure(vfa_status s, const std::string &sentence) : std::runtime_error(sentence), status(s) {}
    vfa_status status;
};

struct Destroy {
    void operator()(vfa_context *ctx) const { vfa_context_destroy(ctx); }
    void operator()(vfa_plan *plan) const { vfa_plan_destroy(plan); }
};
using Context = std::unique_ptr<vfa_context, Destroy>;
using Plan = std::unique_ptr<vfa_plan, Destroy>;

// A way to compute: a backend, for CPU with one of its instruction sets.
struct Engine {
    vfa_backend backend;
    std::string isa;             // "" where there is no choice
    std::string options() const; // "--backend Cpu --isa avx2"
};
// Those usable here, and the others with the reason.
std::vector<Engine> engines();
struct Unusable {
    std::string name, reason;
};
std::vector<Unusable> unusable_engines();

// num_threads 0: the default.
Context make_context(const Engine &engine, uint32_t num_threads = 0,
                     const vfa_hooks *hooks = nullptr);
// One for each engine, shared.
vfa_context *context_of(const Engine &engine);

struct Result {
    std::vector<float> o, lse; // without gaps, as in Problem; lse empty if not wanted
    std::string damage;        // "" or what was written that should not have been
    std::string kernel;        // of the plan

    bool same_bits(const Result &other) const;
};

// One problem in memory, in a layout: everything that is no element of a sequence is NaN in q, k, v and
// a pattern in o and lse.
class Call {
public:
    Call(const Problem &problem, const Layout &layout);

    vfa_attn_desc desc(vfa_backend backend) const;
    Plan make_plan(vfa_context *ctx, vfa_backend backend) const; // with slopes and sinks
    void update(vfa_plan *plan) const;
    void forward(const vfa_plan *plan);
    void varlen_forward(); // only for what vfa_varlen_forward can do, packed
    Result result() const;

private:
    struct Tensor {
        std::shared_ptr<std::vector<std::byte>> memory; // q, k and v share it if fused
        int64_t first, token, head, dim;                // elements
        int64_t len;                                    // as the call is told
        size_t bytes;                                   // of an element
        std::byte *at(int64_t element) const;
        template <class T> T *data() const;
    };
    Tensor make_tensor(int64_t rows, int64_t heads, int64_t dim, size_t bytes) const;
    void make_fused(int64_t rows);
    // Calls visit(index in the dense array, element of the tensor) for each row of each sequence.
    template <class Visit>
    void for_rows(const Tensor &t, const std::vector<int32_t> &cu,
                  const std::vector<int32_t> &lengths, int64_t heads, Visit visit) const;
    void put(const Tensor &t, const std::vector<int32_t> &cu, const std::vector<int32_t> &lengths,
             int64_t heads, const std::vector<float> &values);

    const Problem &problem_;
    Layout layout_;
    std::vector<int32_t> cu_q_, cu_k_;
    Tensor q_, k_, v_, o_, lse_;
    std::vector<std::byte> q_before_, k_before_, v_before_; // copies, to see that nothing changed
    std::string kernel_;
};

// All of it. Throws Failure.
Result run(const Engine &engine, const Problem &problem, const Layout &layout,
           vfa_context *ctx = nullptr);
inline Result run(const Engine &engine, const Problem &problem) {
    return run(engine, problem, problem.layout);
}

} // namespace conform
