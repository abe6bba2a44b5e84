/* ISA-L's interface as Pantile's stand-in implements it, for programs that are built without
 * libisal-dev. Checksums and compression are declared by that package's headers. */
#ifndef PANTILE_ISAL_H
#define PANTILE_ISAL_H

#define ISAL_MAJOR_VERSION 2
#define ISAL_MINOR_VERSION 32
#define ISAL_PATCH_VERSION 1
#define ISAL_MAKE_VERSION(maj, min, patch) ((maj) * 0x10000 + (min) * 0x100 + (patch))
#define ISAL_VERSION ISAL_MAKE_VERSION(ISAL_MAJOR_VERSION, ISAL_MINOR_VERSION, ISAL_PATCH_VERSION)

#include <isa-l/erasure_code.h>
#include <isa-l/gf_vect_mul.h>
#include <isa-l/isal_api.h>
#include <isa-l/raid.h>

#endif
