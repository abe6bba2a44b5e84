/* Products of a buffer.
 *
 * The declarations of ISA-L's interface that Pantile's stand-in for it implements; what each does is
 * on the page docs/isal.md. */
#ifndef PANTILE_ISAL_GF_VECT_MUL_H
#define PANTILE_ISAL_GF_VECT_MUL_H

#ifdef __cplusplus
extern "C" {
#endif

void gf_vect_mul_init(unsigned char c, unsigned char *gftbl);
void gf_vect_mul_init_base(unsigned char c, unsigned char *gftbl);
int gf_vect_mul(int len, unsigned char *gftbl, void *src, void *dest);
int gf_vect_mul_sse(int len, unsigned char *gftbl, void *src, void *dest);
int gf_vect_mul_avx(int len, unsigned char *gftbl, void *src, void *dest);
int gf_vect_mul_base(int len, unsigned char *gftbl, unsigned char *src, unsigned char *dest);

#ifdef __cplusplus
}
#endif

#endif
