/* A program that uses ONNX Runtime's C API and knows nothing of ortscope: loads it by itself, or is linked to it. The
   places of functions in the table come from the test. Prints the sum of all answers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct { const void **(*get_api)(uint32_t); const char *(*version)(void); } Base;
typedef void *Status;

static const void **api;
#define CALL(place, type, ...) ((type)api[place])(__VA_ARGS__)
static void check(Status status, const char *what) {
    if (status) {
        fprintf(stderr, "%s: %s\n", what, CALL(GET_ERROR_MESSAGE, const char *(*)(Status), status));
        exit(1);
    }
}

#ifdef LINKED
extern const Base *OrtGetApiBase(void);
#endif

static volatile int finished;
static void when_done(void *data, void **outputs, size_t count, Status status) {
    check(status, "asynchronous run");
    *(void **)data = outputs[0];
    __sync_synchronize();
    finished = (int)count;
}

int main(int argc, char **argv) {
    const char *model = argv[1];
    int runs = atoi(argv[2]), version = atoi(argv[3]);
    const Base *base;
#ifdef LINKED
    base = OrtGetApiBase();
#else
    void *library = dlopen(argv[4], RTLD_NOW | RTLD_LOCAL);
    if (!library) { fprintf(stderr, "%s\n", dlerror()); return 1; }
    base = ((const Base *(*)(void))dlsym(library, "OrtGetApiBase"))();
    /* Other questions get the system's own answers. */
    if (dlsym(library, "no such function") || !dlerror()) return 3;
    if (dlsym(RTLD_NEXT, "strlen") == NULL || dlsym(RTLD_DEFAULT, "main_of_nobody")) return 3;
#endif
    api = base->get_api(version);
    if (!api || base->get_api(10000)) return 4;
    void *env, *options, *session, *memory, *value;
    check(CALL(CREATE_ENV, Status (*)(int, const char *, void **), 3, "test", &env), "CreateEnv");
    check(CALL(CREATE_SESSION_OPTIONS, Status (*)(void **), &options), "CreateSessionOptions");
    check(CALL(CREATE_SESSION, Status (*)(void *, const char *, void *, void **), env, model, options, &session), "CreateSession");
    check(CALL(CREATE_CPU_MEMORY_INFO, Status (*)(int, int, void **), 0, 0, &memory), "CreateCpuMemoryInfo");
    float x[3] = {1, 2, 3}, *y, sum = 0;
    int64_t shape[2] = {1, 3};
    check(CALL(CREATE_TENSOR, Status (*)(void *, void *, size_t, const int64_t *, size_t, int, void **), memory, x, sizeof x, shape, 2, 1, &value), "CreateTensor");
    const char *in[] = {"x"}, *out[] = {"y"};
    typedef Status (*Run)(void *, void *, const char **, void **, size_t, const char **, size_t, void **);
    int child = argc > 5 && !strcmp(argv[5], "fork") ? fork() : -1;
    for (int run = 0; run < runs; run++) {
        void *answer = NULL;
        x[0] = (float)run;
        check(CALL(RUN, Run, session, NULL, in, &value, 1, out, 1, &answer), "Run");
        check(CALL(GET_TENSOR_DATA, Status (*)(void *, void **), answer, (void **)&y), "GetTensorMutableData");
        sum += y[0] + y[1];
        CALL(RELEASE_VALUE, void (*)(void *), answer);
    }
    /* One that fails: there is no such output. */
    const char *wrong[] = {"z"};
    void *none = NULL;
    Status status = CALL(RUN, Run, session, NULL, in, &value, 1, wrong, 1, &none);
    if (!status) return 5;
    CALL(RELEASE_STATUS, void (*)(Status), status);
    if (version >= 16) {
        void *answer = NULL, *given = NULL;
        check(CALL(RUN_ASYNC, Status (*)(void *, void *, const char **, void **, size_t, const char **, size_t, void **, void *, void *),
                   session, NULL, in, &value, 1, out, 1, &given, (void *)when_done, &answer), "RunAsync");
        while (!finished) usleep(1000);
        check(CALL(GET_TENSOR_DATA, Status (*)(void *, void **), answer, (void **)&y), "GetTensorMutableData");
        sum += y[0] + y[1];
        CALL(RELEASE_VALUE, void (*)(void *), answer);
    }
    if (child == 0) _exit(0);
    if (child > 0) {
        int how;
        waitpid(child, &how, 0);
        if (how) return 6;
    }
    CALL(RELEASE_SESSION, void (*)(void *), session);
    printf("%g %s\n", sum, base->version());
    return 0;
}
