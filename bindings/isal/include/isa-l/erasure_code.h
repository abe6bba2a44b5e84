/* Tables, sums of products, updates.
 *
 * The declarations of ISA-L's interface that Pantile's stand-in for it implements; what each does is
 * on the page docs/isal.md. */
#ifndef PANTILE_ISAL_ERASURE_CODE_H
#define PANTILE_ISAL_ERASURE_CODE_H

#include "gf_vect_mul.h"

#ifdef __cplusplus
extern "C" {
#endif

unsigned char gf_mul(unsigned char a, unsigned char b);
unsigned char gf_inv(unsigned char a);
void gf_gen_rs_matrix(unsigned char *a, int m, int k);
void gf_gen_cauchy1_matrix(unsigned char *a, int m, int k);
int gf_invert_matrix(unsigned char *in, unsigned char *out, const int n);

void ec_init_tables(int k, int rows, unsigned char *a, unsigned char *gftbls);
void ec_init_tables_base(int k, int rows, unsigned char *a, unsigned char *gftbls);
void ec_encode_data(int len, int k, int rows, unsigned char *gftbls, unsigned char **data,
    unsigned char **coding);
void ec_encode_data_base(int len, int k, int rows, unsigned char *gftbls, unsigned char **data,
    unsigned char **coding);
void ec_encode_data_sse(int len, int k, int rows, unsigned char *gftbls, unsigned char **data,
    unsigned char **coding);
void ec_encode_data_avx(int len, int k, int rows, unsigned char *gftbls, unsigned char **data,
    unsigned char **coding);
void ec_encode_data_avx2(int len, int k, int rows, unsigned char *gftbls, unsigned char **data,
    unsigned char **coding);
void ec_encode_data_update(int len, int k, int rows, int vec_i, unsigned char *gftbls,
    unsigned char *data, unsigned char **coding);
void ec_encode_data_update_base(int len, int k, int rows, int vec_i, unsigned char *gftbls,
    unsigned char *data, unsigned char **coding);
void ec_encode_data_update_sse(int len, int k, int rows, int vec_i, unsigned char *gftbls,
    unsigned char *data, unsigned char **coding);
void ec_encode_data_update_avx(int len, int k, int rows, int vec_i, unsigned char *gftbls,
    unsigned char *data, unsigned char **coding);
void ec_encode_data_update_avx2(int len, int k, int rows, int vec_i, unsigned char *gftbls,
    unsigned char *data, unsigned char **coding);

void gf_vect_dot_prod(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char *dest);
void gf_vect_dot_prod_base(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char *dest);
void gf_vect_dot_prod_sse(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char *dest);
void gf_vect_dot_prod_avx(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char *dest);
void gf_vect_dot_prod_avx2(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char *dest);
void gf_2vect_dot_prod_sse(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);
void gf_2vect_dot_prod_avx(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);
void gf_2vect_dot_prod_avx2(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);
void gf_3vect_dot_prod_sse(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);
void gf_3vect_dot_prod_avx(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);
void gf_3vect_dot_prod_avx2(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);
void gf_4vect_dot_prod_sse(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);
void gf_4vect_dot_prod_avx(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);
void gf_4vect_dot_prod_avx2(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);
void gf_5vect_dot_prod_sse(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);
void gf_5vect_dot_prod_avx(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);
void gf_5vect_dot_prod_avx2(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);
void gf_6vect_dot_prod_sse(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);
void gf_6vect_dot_prod_avx(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);
void gf_6vect_dot_prod_avx2(int len, int vlen, unsigned char *gftbls, unsigned char **src,
    unsigned char **dest);

void gf_vect_mad(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char *dest);
void gf_vect_mad_base(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char *dest);
void gf_vect_mad_sse(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char *dest);
void gf_vect_mad_avx(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char *dest);
void gf_vect_mad_avx2(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char *dest);
void gf_2vect_mad_sse(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);
void gf_2vect_mad_avx(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);
void gf_2vect_mad_avx2(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);
void gf_3vect_mad_sse(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);
void gf_3vect_mad_avx(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);
void gf_3vect_mad_avx2(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);
void gf_4vect_mad_sse(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);
void gf_4vect_mad_avx(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);
void gf_4vect_mad_avx2(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);
void gf_5vect_mad_sse(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);
void gf_5vect_mad_avx(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);
void gf_5vect_mad_avx2(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);
void gf_6vect_mad_sse(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);
void gf_6vect_mad_avx(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);
void gf_6vect_mad_avx2(int len, int vec, int vec_i, unsigned char *gftbls, unsigned char *src,
    unsigned char **dest);

#ifdef __cplusplus
}
#endif

#endif
