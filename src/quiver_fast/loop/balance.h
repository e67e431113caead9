/* Counts of made and freed objects. Only builds with -DQUIVER_FAST_BALANCE, such as that of
   `make sanitize`, count. */
#ifndef QUIVER_BALANCE_H
#define QUIVER_BALANCE_H

#ifdef QUIVER_FAST_BALANCE
#define quiver_count(counts, kind, by) ((counts)[kind] += (by))
#else
#define quiver_count(counts, kind, by) ((void) 0)
#endif

#endif
