"""The part of vfa.h that the example uses, through ctypes: structs and prototypes as in the header,
then Context and Plan, which raise VfaError with the library's own sentence."""

import ctypes
import os
from ctypes import POINTER, byref, c_char, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64
from pathlib import Path

import numpy as np

SONAME = "libvfa.so.0.1"
TREE = Path(__file__).resolve().parents[2]

BF16, F32 = 0, 2  # vfa_dtype
UNSUPPORTED = -3  # vfa_status


class VfaError(RuntimeError):
    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status


# -------------------------------------------------------------------------- structs of vfa.h --


class BackendInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("available", c_int32),
        ("resolved", c_int32),
        ("device_count", c_int32),
        ("compute_capability", c_int32),
        ("threads", c_uint32),
        ("memory_bytes", c_uint64),
        ("device", c_char * 64),
        ("isa", c_char * 32),
        ("reason", c_char * 256),
    ]


class ContextDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("num_threads", c_uint32),
        ("log_level", c_int32),
        ("device", c_int32),
        ("max_isa", c_char * 32),
    ]


class ContextInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("num_threads", c_uint32),
        ("device", c_int32),
        ("isa", c_char * 32),
    ]


class AttnDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("backend", c_int32),
        ("dtype", c_int32),
        ("o_f32", c_uint32),
        ("heads_q", c_uint32),
        ("heads_kv", c_uint32),
        ("head_dim", c_uint32),
        ("head_dim_v", c_uint32),
        ("scale_mode", c_int32),
        ("scale", c_float),
        ("softcap", c_float),
        ("causal", c_int32),
        ("window_left", c_int32),
        ("window_right", c_int32),
        ("max_seqlen_q", c_int32),
        ("max_seqlen_k", c_int32),
        ("q_token_stride", c_int64),
        ("q_head_stride", c_int64),
        ("k_token_stride", c_int64),
        ("k_head_stride", c_int64),
        ("v_token_stride", c_int64),
        ("v_head_stride", c_int64),
        ("o_token_stride", c_int64),
        ("o_head_stride", c_int64),
        ("lse_token_stride", c_int64),
        ("lse_head_stride", c_int64),
        ("reserve_seqs", c_int64),
    ]


class PlanInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("backend", c_int32),
        ("num_seqs", c_uint64),
        ("total_q", c_uint64),
        ("total_k", c_uint64),
        ("max_seqlen_q", c_uint64),
        ("max_seqlen_k", c_uint64),
        ("num_work_units", c_uint64),
        ("workspace_bytes", c_uint64),
        ("flops", c_uint64),
        ("kernel", c_char * 64),
    ]


# ------------------------------------------------------------------------- loading and calls --


def find_library():
    """VFA_LIBRARY, else the tree's own build, else wherever the loader finds the SONAME."""
    if os.environ.get("VFA_LIBRARY"):
        return os.environ["VFA_LIBRARY"]
    prefix = TREE / "build" / "prefix"
    for path in [prefix / "lib" / SONAME, *prefix.glob(f"lib/*/{SONAME}")]:
        if path.exists():
            return str(path)
    return SONAME


def load():
    path = find_library()
    try:
        lib = ctypes.CDLL(path)
    except OSError as error:
        raise VfaError(0, f"{error}: run tools/build, or set VFA_LIBRARY to the library's path.") from None

    handle = ctypes.c_void_p  # vfa_context *, vfa_plan *
    error_out = ctypes.c_void_p  # vfa_error *: always None here, vfa_last_error has the sentence

    def array(element):
        return [POINTER(element), c_size_t]

    def declare(name, *argtypes, returns=c_int32):
        function = getattr(lib, name, None)
        if function is None:
            raise VfaError(0, f"{path} is not vfa {SONAME.partition('.so.')[2]}: it has no {name}.")
        function.argtypes, function.restype = argtypes, returns

    declare("vfa_version_string", returns=c_char_p)
    declare("vfa_last_error", returns=c_char_p)
    declare("vfa_backend_from_name", c_char_p, POINTER(c_int32))
    declare("vfa_backend_query", c_int32, c_int32, POINTER(BackendInfo))
    declare("vfa_backend_info_init", POINTER(BackendInfo), c_size_t)
    declare("vfa_context_desc_init", POINTER(ContextDesc), c_size_t)
    declare("vfa_context_info_init", POINTER(ContextInfo), c_size_t)
    declare("vfa_attn_desc_init", POINTER(AttnDesc), c_size_t)
    declare("vfa_plan_info_init", POINTER(PlanInfo), c_size_t)
    declare("vfa_context_create", POINTER(ContextDesc), ctypes.c_void_p, POINTER(handle), error_out)
    declare("vfa_context_get_info", handle, POINTER(ContextInfo))
    declare("vfa_context_destroy", handle, returns=None)
    lengths = array(c_int32) * 4  # cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k
    declare("vfa_plan_create", handle, POINTER(AttnDesc), *lengths, POINTER(handle), error_out)
    declare("vfa_plan_get_info", handle, POINTER(PlanInfo))
    declare("vfa_plan_destroy", handle, returns=None)
    bits = ctypes.c_uint16
    declare("vfa_forward_host", handle, *array(bits) * 4, *array(c_float), error_out)
    declare("vfa_forward_host_f32", handle, *array(c_float) * 4, *array(c_float), error_out)
    return lib


def check(lib, status):
    if status != 0:
        raise VfaError(status, lib.vfa_last_error().decode())


def initialised(lib, struct, init):
    """A new struct, filled by its vfa_*_init."""
    value = struct()
    check(lib, init(byref(value), ctypes.sizeof(value)))
    return value


def elements(view):
    """A numpy view as the pair (pointer, number of elements from its first to its last)."""
    span = 1 + sum((n - 1) * stride // view.itemsize for n, stride in zip(view.shape, view.strides))
    return view.ctypes.data_as(POINTER(np.ctypeslib.as_ctypes_type(view.dtype))), span


# ---------------------------------------------------------------------------- what is used --


def backend_from_name(lib, name):
    backend = c_int32()
    check(lib, lib.vfa_backend_from_name(name.encode(), byref(backend)))
    return backend.value


def backend_query(lib, backend):
    info = initialised(lib, BackendInfo, lib.vfa_backend_info_init)
    check(lib, lib.vfa_backend_query(backend, 0, byref(info)))
    return info


class Context:
    def __init__(self, lib, num_threads=0):
        self.lib, self.handle = lib, ctypes.c_void_p()
        desc = initialised(lib, ContextDesc, lib.vfa_context_desc_init)
        desc.num_threads = num_threads
        check(lib, lib.vfa_context_create(byref(desc), None, byref(self.handle), None))

    def info(self):
        info = initialised(self.lib, ContextInfo, self.lib.vfa_context_info_init)
        check(self.lib, self.lib.vfa_context_get_info(self.handle, byref(info)))
        return info

    def __del__(self):
        self.lib.vfa_context_destroy(self.handle)


class Plan:
    """Self-attention over one ragged batch, q, k and v read in place from a fused projection
    [total, 3, heads, head_dim]."""

    def __init__(self, context, backend, dtype, heads, head_dim, cu_seqlens):
        self.lib, self.handle, self.dtype = context.lib, ctypes.c_void_p(), dtype
        desc = initialised(self.lib, AttnDesc, self.lib.vfa_attn_desc_init)
        desc.backend, desc.dtype = backend, dtype
        desc.heads_q = desc.heads_kv = heads
        desc.head_dim = head_dim
        # From one token's q (k, v) to the next lie that token's q, k and v. Heads are packed.
        desc.q_token_stride = desc.k_token_stride = desc.v_token_stride = 3 * heads * head_dim
        cu = elements(np.ascontiguousarray(cu_seqlens, dtype=np.int32))
        unused = (None, 0)
        created = self.lib.vfa_plan_create(
            context.handle, byref(desc), *cu, *cu, *unused, *unused, byref(self.handle), None
        )
        check(self.lib, created)

    def info(self):
        info = initialised(self.lib, PlanInfo, self.lib.vfa_plan_info_init)
        check(self.lib, self.lib.vfa_plan_get_info(self.handle, byref(info)))
        return info

    def forward(self, qkv, o):
        """qkv [total, 3, heads, head_dim] -> o [total, heads, head_dim]: both uint16 bits of bf16, or
        both float32, as the plan's dtype says."""
        assert qkv.dtype == o.dtype == (np.float32 if self.dtype == F32 else np.uint16)
        forward = self.lib.vfa_forward_host_f32 if self.dtype == F32 else self.lib.vfa_forward_host
        q, k, v = (elements(qkv[:, i]) for i in range(3))
        no_lse = (None, 0)
        check(self.lib, forward(self.handle, *q, *k, *v, *elements(o), *no_lse, None))

    def __del__(self):
        self.lib.vfa_plan_destroy(self.handle)
