/* A driver without a device: what Cleave calls of libcuda and libnvrtc, with "device memory" on the heap and kernels that do nothing. It keeps a line for every call that has an
 * effect, which tests read, counts all calls, and refuses in a capture what a real driver refuses. Handles are small numbers, so that lines are the same in every run. */
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef uint64_t Address;
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, UNSUPPORTED = 900, INVALIDATED = 901, IMPLICIT = 906 };

#define STREAMS 256
#define EVENTS 65536
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *lines;
static size_t used, room;
static int logging; /* from the first time that it is asked for its lines */
static unsigned long calls;
static unsigned words_shown;
static __thread void *current;

struct Graph {
    char *lines;
    size_t used, room;
};
static struct {
    int exists, capturing, broken;
    struct Graph *graph;
} streams[STREAMS];
static int stream_count = 1, event_count = 1, module_count = 1;
static int event_stream[EVENTS];

static void put(char **text, size_t *used, size_t *room, const char *line) {
    size_t n = strlen(line);
    if (*used + n + 2 > *room) {
        *room = 2 * (*used + n + 2);
        *text = realloc(*text, *room);
    }
    memcpy(*text + *used, line, n);
    *used += n;
    (*text)[(*used)++] = '\n';
    (*text)[*used] = 0;
}

/* A line of the log; of a stream that captures, of its graph. */
static void line(intptr_t stream, const char *format, ...) {
    if (!logging && !streams[stream].capturing)
        return;
    static __thread char text[1 << 16];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&lock);
    struct Graph *g = streams[stream].graph;
    if (streams[stream].capturing)
        put(&g->lines, &g->used, &g->room, text);
    else
        put(&lines, &used, &room, text);
    pthread_mutex_unlock(&lock);
}

#define CALL(name, ...) Result name(__VA_ARGS__)
#define COUNT __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED)
static int any_captures(void) {
    for (int s = 1; s < stream_count; s++)
        if (streams[s].capturing)
            return 1;
    return 0;
}
/* What may not be done in a capture spoils it. */
static Result refuse(intptr_t stream) {
    streams[stream].broken = 1;
    return UNSUPPORTED;
}

/* ---- for tests ---- */
const char *fake_take(void) {
    static char *taken;
    pthread_mutex_lock(&lock);
    free(taken);
    taken = lines ? lines : calloc(1, 1);
    lines = NULL;
    used = room = 0;
    logging = 1;
    pthread_mutex_unlock(&lock);
    return taken;
}
unsigned long fake_calls(void) { return __atomic_exchange_n(&calls, 0, __ATOMIC_RELAXED); }
/* How many words of a kernel's argument are shown: a driver cannot know how many there are. */
void fake_words(unsigned n) { words_shown = n; }

/* ---- device and context ---- */
CALL(cuInit, unsigned flags) { return COUNT, (void)flags, OK; }
CALL(cuDriverGetVersion, int *v) { return COUNT, *v = 13000, OK; }
CALL(cuDeviceGetCount, int *n) { return COUNT, *n = 1, OK; }
CALL(cuDeviceGet, int *d, int ordinal) { return COUNT, *d = ordinal, ordinal ? 101 : OK; }
CALL(cuDeviceGetName, char *name, int n, int d) { return COUNT, (void)d, snprintf(name, n, "a driver without a device"), OK; }
CALL(cuDeviceTotalMem_v2, size_t *n, int d) { return COUNT, (void)d, *n = (size_t)1 << 34, OK; }
CALL(cuDeviceGetAttribute, int *v, int attribute, int d) {
    COUNT, (void)d;
    switch (attribute) {
    case 13: *v = 1980000; break; /* clock */
    case 16: *v = 132; break; /* multiprocessors */
    case 36: *v = 3201000; break; /* memory clock */
    case 37: *v = 6144; break; /* width of the memory bus */
    case 38: *v = 50 << 20; break; /* second cache */
    case 75: *v = 9; break; /* compute capability */
    case 76: *v = 0; break;
    case 97: *v = 227 << 10; break; /* shared memory of a block */
    case 115: *v = 1; break; /* memory pools */
    default: *v = 0;
    }
    return OK;
}
CALL(cuDevicePrimaryCtxRetain, void **c, int d) { return COUNT, (void)d, *c = (void *)1, OK; }
CALL(cuDevicePrimaryCtxRelease_v2, int d) { return COUNT, (void)d, OK; }
CALL(cuCtxGetCurrent, void **c) { return COUNT, *c = current, OK; }
CALL(cuCtxSetCurrent, void *c) { return COUNT, current = c, OK; }
CALL(cuCtxSynchronize, void) { return COUNT, any_captures() ? UNSUPPORTED : OK; }

/* ---- streams and events ---- */
CALL(cuStreamCreate, void **s, unsigned flags) {
    COUNT, (void)flags;
    intptr_t id = __atomic_fetch_add(&stream_count, 1, __ATOMIC_RELAXED);
    if (id >= STREAMS)
        return OUT_OF_MEMORY;
    streams[id].exists = 1;
    return *s = (void *)id, OK;
}
CALL(cuStreamDestroy_v2, void *s) { return COUNT, streams[(intptr_t)s].exists = 0, OK; }
CALL(cuStreamSynchronize, void *s) { return COUNT, streams[(intptr_t)s].capturing ? refuse((intptr_t)s) : OK; }
CALL(cuStreamIsCapturing, void *s, int *status) {
    COUNT;
    return *status = streams[(intptr_t)s].broken ? 2 : streams[(intptr_t)s].capturing, OK;
}
CALL(cuEventCreate, void **e, unsigned flags) {
    COUNT, (void)flags;
    return *e = (void *)(intptr_t)(__atomic_fetch_add(&event_count, 1, __ATOMIC_RELAXED) % EVENTS), OK;
}
CALL(cuEventDestroy_v2, void *e) { return COUNT, (void)e, OK; }
CALL(cuEventRecord, void *e, void *s) { return COUNT, event_stream[(intptr_t)e] = (intptr_t)s, OK; }
CALL(cuEventSynchronize, void *e) { return COUNT, (void)e, OK; }
CALL(cuEventQuery, void *e) { return COUNT, (void)e, OK; }
CALL(cuEventElapsedTime, float *ms, void *a, void *b) { return COUNT, (void)a, (void)b, *ms = 0.01f, OK; }
CALL(cuEventElapsedTime_v2, float *ms, void *a, void *b) { return COUNT, (void)a, (void)b, *ms = 0.01f, OK; }
CALL(cuStreamWaitEvent, void *s, void *e, unsigned flags) {
    COUNT, (void)flags;
    int other = event_stream[(intptr_t)e];
    if (other != (int)(intptr_t)s)
        line((intptr_t)s, "stream %d waits for stream %d", (int)(intptr_t)s, other);
    return OK;
}

/* ---- memory ---- */
static Result give(Address *a, size_t n, intptr_t stream) {
    if (n > (size_t)1 << 36)
        return OUT_OF_MEMORY;
    void *p = aligned_alloc(256, (n + 255) / 256 * 256 + 256);
    *a = (Address)p;
    line(stream, "allocate %zu", n);
    return p ? OK : OUT_OF_MEMORY;
}
CALL(cuMemAllocAsync, Address *a, size_t n, void *s) { return COUNT, streams[(intptr_t)s].capturing ? refuse((intptr_t)s) : give(a, n, (intptr_t)s); }
CALL(cuMemAlloc_v2, Address *a, size_t n) { return COUNT, any_captures() ? UNSUPPORTED : give(a, n, 0); }
CALL(cuMemFreeAsync, Address a, void *s) { return COUNT, line((intptr_t)s, "free on stream %d", (int)(intptr_t)s), free((void *)a), OK; }
CALL(cuMemFree_v2, Address a) { return COUNT, free((void *)a), OK; }
CALL(cuMemcpyHtoDAsync_v2, Address a, const void *p, size_t n, void *s) {
    return COUNT, line((intptr_t)s, "copy %zu to the device on stream %d", n, (int)(intptr_t)s), memcpy((void *)a, p, n), OK;
}
CALL(cuMemcpyDtoHAsync_v2, void *p, Address a, size_t n, void *s) {
    return COUNT, line((intptr_t)s, "copy %zu to the host on stream %d", n, (int)(intptr_t)s), memcpy(p, (void *)a, n), OK;
}
CALL(cuMemsetD8Async, Address a, unsigned char value, size_t n, void *s) {
    return COUNT, line((intptr_t)s, "fill %zu on stream %d", n, (int)(intptr_t)s), memset((void *)a, value, n), OK;
}

/* ---- modules and launches ---- */
CALL(cuModuleLoadData, void **m, const void *image) { return COUNT, (void)image, *m = (void *)(intptr_t)module_count++, line(0, "load a module"), OK; }
CALL(cuModuleUnload, void *m) { return COUNT, (void)m, OK; }
CALL(cuModuleGetFunction, void **f, void *m, const char *name) { return COUNT, (void)m, *f = strdup(name), OK; }
CALL(cuFuncSetAttribute, void *f, int attribute, int value) { return COUNT, (void)f, (void)attribute, (void)value, OK; }
CALL(cuLaunchKernel, void *f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared, void *s, void **parameters, void **extra) {
    COUNT, (void)extra;
    if (y != 1 || z != 1 || ty != 1 || tz != 1 || x == 0)
        return INVALID_VALUE;
    if (!logging && !streams[(intptr_t)s].capturing)
        return OK;
    char text[1 << 14];
    int n = snprintf(text, sizeof text, "launch %s on stream %d: %u blocks of %u, %u shared", (char *)f, (int)(intptr_t)s, x, tx, shared);
    const uint64_t *words = parameters[0];
    for (unsigned i = 0; i < words_shown && n < (int)sizeof text - 32; i++)
        n += snprintf(text + n, sizeof text - n, "%s%llx", i ? " " : ": ", (unsigned long long)words[i]);
    return line((intptr_t)s, "%s", text), OK;
}
CALL(cuTensorMapEncodeTiled, void *map, int type, unsigned rank, void *address, const uint64_t *sizes, const uint64_t *strides, const unsigned *box, const unsigned *element,
     int interleave, int swizzle, int promotion, int fill) {
    COUNT, (void)type, (void)element, (void)interleave, (void)swizzle, (void)promotion, (void)fill, (void)box;
    if (rank < 1 || rank > 5 || (uintptr_t)address % 16 || sizes[0] == 0)
        return INVALID_VALUE;
    for (unsigned d = 0; d + 1 < rank; d++)
        if (strides[d] % 16)
            return INVALID_VALUE;
    memset(map, 0, 128);
    memcpy(map, &address, 8);
    return line(0, "encode a map of %u dimensions", rank), OK;
}

/* ---- graphs ---- */
CALL(cuStreamBeginCapture_v2, void *s, int mode) {
    COUNT, (void)mode;
    intptr_t id = (intptr_t)s;
    if (id == 0)
        return UNSUPPORTED;
    if (streams[id].capturing)
        return INVALID_VALUE;
    streams[id].graph = calloc(1, sizeof(struct Graph));
    return streams[id].capturing = 1, streams[id].broken = 0, OK;
}
CALL(cuStreamEndCapture, void *s, void **graph) {
    COUNT;
    intptr_t id = (intptr_t)s;
    int broken = streams[id].broken;
    *graph = broken ? NULL : streams[id].graph;
    streams[id].capturing = streams[id].broken = 0;
    return broken ? INVALIDATED : OK;
}
CALL(cuGraphInstantiateWithFlags, void **executable, void *graph, unsigned long long flags) { return COUNT, (void)flags, *executable = graph, OK; }
CALL(cuGraphUpload, void *executable, void *s) { return COUNT, (void)executable, (void)s, OK; }
CALL(cuGraphLaunch, void *executable, void *s) {
    struct Graph *g = executable;
    COUNT;
    return line((intptr_t)s, "replay on stream %d:\n%s", (int)(intptr_t)s, g->lines ? g->lines : ""), OK;
}
CALL(cuGraphExecDestroy, void *executable) { return COUNT, (void)executable, OK; }
CALL(cuGraphDestroy, void *graph) { return COUNT, free(graph), OK; }
CALL(cuGetErrorString, int error, const char **text) { return COUNT, (void)error, *text = "an error of the driver without a device", OK; }
CALL(cuGetErrorName, int error, const char **text) { return COUNT, (void)error, *text = "FAKE", OK; }

/* ---- NVRTC: the source is its own "PTX", of a version that no other compiler has ---- */
CALL(nvrtcVersion, int *major, int *minor) { return *major = 0, *minor = 1, OK; }
CALL(nvrtcCreateProgram, void **p, const char *source, const char *name, int headers, const char *const *h, const char *const *n) {
    return (void)name, (void)headers, (void)h, (void)n, *p = strdup(source), OK;
}
CALL(nvrtcCompileProgram, void *p, int count, const char *const *options) { return (void)p, (void)count, (void)options, OK; }
CALL(nvrtcGetPTXSize, void *p, size_t *n) { return *n = strlen(p) + 1, OK; }
CALL(nvrtcGetPTX, void *p, char *text) { return strcpy(text, p), OK; }
CALL(nvrtcGetProgramLogSize, void *p, size_t *n) { return (void)p, *n = 1, OK; }
CALL(nvrtcGetProgramLog, void *p, char *text) { return (void)p, *text = 0, OK; }
CALL(nvrtcDestroyProgram, void **p) { return free(*p), OK; }
