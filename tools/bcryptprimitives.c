/* Wine 8 has no bcryptprimitives.dll, which Rust's standard library for Windows imports for random numbers. This has the
   one function of it that is used. Only for tests under Wine; it is never shipped. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length) {
    return SystemFunction036(buffer, (ULONG)length);
}
