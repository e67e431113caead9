/* The whole address of a terminus: see addresses.h. */

#include "addresses.h"

#include "core/engine-internal.h"
#include "core/object_private.h"

size_t pnx_terminus_address_size(pn_terminus_t *terminus) {
  return pn_string_get(terminus->address) ? pn_string_size(terminus->address) : 0;
}
