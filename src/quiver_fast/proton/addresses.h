/* How long a terminus' address is: a string may have NULs (AMQP 1.0 part 1.6.20), and the
 * engine's interface, which has strings of C, ends it at the first.
 */
#ifndef QUIVER_ADDRESSES_H
#define QUIVER_ADDRESSES_H

#include <proton/terminus.h>

#include <stddef.h>
#include <string.h>

#if QUIVER_ENGINE_BUNDLED
/* Return the bytes of an address, 0 where there is none. */
PN_EXTERN size_t pnx_terminus_address_size(pn_terminus_t *terminus);
#else
static inline size_t pnx_terminus_address_size(pn_terminus_t *terminus) {
  const char *address = pn_terminus_get_address(terminus);
  return address ? strlen(address) : 0;
}
#endif

#endif
