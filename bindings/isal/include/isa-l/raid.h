/* RAID-5 and RAID-6 parity.
 *
 * The declarations of ISA-L's interface that Pantile's stand-in for it implements; what each does is
 * on the page docs/isal.md. */
#ifndef PANTILE_ISAL_RAID_H
#define PANTILE_ISAL_RAID_H

#ifdef __cplusplus
extern "C" {
#endif

int xor_gen(int vects, int len, void **array);
int xor_gen_base(int vects, int len, void **array);
int xor_gen_sse(int vects, int len, void **array);
int xor_gen_avx(int vects, int len, void **array);
int pq_gen(int vects, int len, void **array);
int pq_gen_avx2(int vects, int len, void **array);
int pq_gen_sse(int vects, int len, void **array);
int pq_gen_avx(int vects, int len, void **array);
int pq_gen_base(int vects, int len, void **array);
int xor_check(int vects, int len, void **array);
int xor_check_base(int vects, int len, void **array);
int xor_check_sse(int vects, int len, void **array);
int pq_check(int vects, int len, void **array);
int pq_check_sse(int vects, int len, void **array);
int pq_check_base(int vects, int len, void **array);

#ifdef __cplusplus
}
#endif

#endif
