/* The version of the interface.
 *
 * The declarations of ISA-L's interface that Pantile's stand-in for it implements; what each does is
 * on the page docs/isal.md. */
#ifndef PANTILE_ISAL_API_H
#define PANTILE_ISAL_API_H

#ifdef __cplusplus
extern "C" {
#endif

const char *isal_get_version_str(void);
unsigned isal_get_version(void);

#ifdef __cplusplus
}
#endif

#endif
