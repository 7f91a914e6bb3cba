#include "core/context.hpp"

vfa_context::vfa_context(const vfa::ContextOptions &o) noexcept
    : options(o), log(o.hooks, o.log_level), memory(o.hooks), parallel(o.threads, o.hooks),
      workspaces(memory) {}

vfa::Ref<vfa_context> vfa_context::create(const vfa::ContextOptions &options) {
    vfa::Memory memory(options.hooks);
    void *block = memory.allocate(sizeof(vfa_context), alignof(vfa_context));
    return vfa::Ref<vfa_context>::adopt(new (block) vfa_context(options));
}

void vfa_context::destroy(vfa_context *context) noexcept {
    vfa::Memory memory(context->options.hooks);
    context->~vfa_context();
    memory.deallocate(context, sizeof(vfa_context), alignof(vfa_context));
}
