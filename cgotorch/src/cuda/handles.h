// Just enough of the headers of cuSPARSE, cuBLAS and cuSOLVER to compile ProcessGroupNCCL.hpp, which names their handles and calls
// none of them: their own are in wheels of a gigabyte. They come behind all other folders, so where the real ones are, these are not
// read.
#pragma once
using cusparseHandle_t = struct cusparseContext *;
using cublasHandle_t = struct cublasContext *;
using cublasLtHandle_t = struct cublasLtContext *;
using cusolverDnHandle_t = struct cusolverDnContext *;
enum cusparseStatus_t { CUSPARSE_STATUS_SUCCESS };
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS };
enum cusolverStatus_t { CUSOLVER_STATUS_SUCCESS };
