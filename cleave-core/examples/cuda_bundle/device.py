"""The CUDA driver through ctypes: just what launching a bundle's kernels needs. No torch, so that a process starts in a moment."""
import ctypes, ctypes.util
import numpy as np

cuda = ctypes.CDLL("libcuda.so.1")
MAP_TYPES = {"f16": 6, "f32": 7, "bf16": 9}


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"{name}: {code} {(text.value or b'').decode()}")


class Device:
    def __init__(self):
        call("cuInit", 0)
        self.device, self.context = ctypes.c_int(), ctypes.c_void_p()
        call("cuDeviceGet", ctypes.byref(self.device), 0)
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        call("cuCtxSetCurrent", self.context)
        self.units = self.attribute(16)
        self.allocated = []

    def attribute(self, number):
        value = ctypes.c_int()
        call("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    def load(self, image):
        module = ctypes.c_void_p()
        call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(image))
        return module

    def function(self, module, symbol, shared):
        f = ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(f), module, symbol.encode())
        if shared > 48 << 10:
            call("cuFuncSetAttribute", f, 8, ctypes.c_int(shared))
        return f

    def allocate(self, n):
        p = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(max(n, 16)))
        self.allocated.append(p.value)
        return p.value

    def free(self):
        for p in self.allocated:
            call("cuMemFree_v2", ctypes.c_uint64(p))
        self.allocated = []

    def upload(self, to, data):
        data = np.ascontiguousarray(data)
        if data.nbytes:
            call("cuMemcpyHtoD_v2", ctypes.c_uint64(to), data.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(data.nbytes))

    def copy(self, to, source, n):
        call("cuMemcpyDtoD_v2", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(n))

    def download(self, source, n):
        data = np.empty(n, np.uint8)
        if n:
            call("cuMemcpyDtoH_v2", data.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(source), ctypes.c_size_t(n))
        return data

    def fill(self, to, byte, n):
        if n:
            call("cuMemsetD8Async", ctypes.c_uint64(to), ctypes.c_ubyte(byte), ctypes.c_size_t(n), None)

    def wait(self):
        call("cuCtxSynchronize")

    def event(self):
        e = ctypes.c_void_p()
        call("cuEventCreate", ctypes.byref(e), 0)
        return e

    def record(self, e):
        call("cuEventRecord", e, None)

    def milliseconds(self, a, b):
        t = ctypes.c_float()
        call("cuEventElapsedTime", ctypes.byref(t), a, b)
        return t.value


def aligned(n):
    raw = (ctypes.c_ubyte * (n + 64))()
    at = (ctypes.addressof(raw) + 63) & ~63
    return raw, at


def encode(to, address, m):
    """Writes a tensor map of 128 bytes at a host address."""
    dims = m["dims"]
    rank = len(dims)
    sizes = (ctypes.c_uint64 * rank)(*[d[0] for d in dims])
    strides = (ctypes.c_uint64 * max(rank - 1, 1))(*[d[1] for d in dims[1:]])
    boxes = (ctypes.c_uint32 * rank)(*[d[2] for d in dims])
    ones = (ctypes.c_uint32 * rank)(*[1] * rank)
    call("cuTensorMapEncodeTiled", ctypes.c_void_p(to), MAP_TYPES[m["dtype"]], ctypes.c_uint32(rank), ctypes.c_void_p(address + m["first"]), sizes, strides, boxes, ones, 0, 3, 3, 0)


class Launch:
    """A kernel with its argument: tensor maps, then words."""

    def __init__(self, device, module, l, addresses):
        self.function = device.function(module, l["symbol"], l["shared"])
        maps = l.get("maps", [])
        n = 128 * len(maps) + 8 * max(len(l["words"]), 1)
        n = (n + 63) // 64 * 64 if maps else n
        self.raw, at = aligned(n)
        for i, m in enumerate(maps):
            encode(at + 128 * i, addresses[m["buffer"]], m)
        words = (ctypes.c_uint64 * max(len(l["words"]), 1)).from_address(at + 128 * len(maps))
        for i, w in enumerate(l["words"]):
            words[i] = addresses[w[1]] if w[0] == "a" else w[1]
        self.parameters = (ctypes.c_void_p * 1)(at)
        self.blocks = min(l["blocks"], device.units) if l.get("persistent") else l["blocks"]
        self.threads, self.shared = l["threads"], l["shared"]

    def __call__(self):
        if self.blocks:
            call("cuLaunchKernel", self.function, self.blocks, 1, 1, self.threads, 1, 1, self.shared, None, self.parameters, None)
