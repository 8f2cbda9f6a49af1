// MKL's question whether this CPU is Intel's, answered with yes: libcgotorch_mkl-<ABI>.so, a library of its own.
//
// MKL takes its best kernels on Intel's CPUs only: an AMD multiplies float32 matrices at half of its speed. So it takes the branch that
// MKL_CBWR names: on others its vector functions round as they like (of 20,000 roots on an AMD Zen 4 3,938 wrongly, with this answer none).
// libtorch exports the function, and what is loaded globally before libtorch is found first.
int mkl_serv_intel_cpu_true(void) { return 1; }
