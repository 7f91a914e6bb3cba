# Sourced by the scripts beside it: strict mode, the root of the tree, Meson from .venv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PWD/.venv/bin:$PATH

have() { command -v "$1" >/dev/null 2>&1; }

# configure DIR OPTION...: set up build/DIR once, later only set the options that differ.
configure() {
    local dir=build/$1
    shift
    # A build from before the tree was moved, or by a Python that is gone, cannot be used again.
    if [ -f "$dir/build.ninja" ] && meson configure "$dir" "$@" >/dev/null 2>&1; then
        return
    fi
    rm -rf "$dir"
    meson setup "$dir" "$@"
}

# install_product DIR PREFIX: build what users get, without the tests, and install it.
install_product() {
    ninja -C "build/$1" product
    meson install -C "build/$1" --no-rebuild --only-changed --strip --quiet
}
