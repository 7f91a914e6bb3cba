// context.hpp - what all plans of a context share. Immutable after creation; every member is safe
// to use from any number of threads.
#pragma once
#include <cstdint>

#include "core/log.hpp"
#include "core/memory.hpp"
#include "core/parallel.hpp"
#include "core/workspace.hpp"

namespace vfa {

// A checked vfa_context_desc with its hooks.
struct ContextOptions {
    uint32_t threads; // wanted and allowed
    vfa_log_level log_level;
    int32_t device;
    uint32_t isa_cap; // an index into the list of instruction sets
    vfa_hooks hooks;
};

} // namespace vfa

struct vfa_context final : vfa::Counted {
    // Throws std::bad_alloc.
    static vfa::Ref<vfa_context> create(const vfa::ContextOptions &options);
    static void destroy(vfa_context *context) noexcept;

    const vfa::ContextOptions options;
    vfa::Log log;
    vfa::Memory memory;
    vfa::Parallel parallel;
    vfa::WorkspacePool workspaces;

private:
    explicit vfa_context(const vfa::ContextOptions &options) noexcept;
};
