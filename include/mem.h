/* Memory that never comes back NULL. Running out of memory aborts the process: every structure here
 * has a cap, so it is a fault of the machine, and dying is a case that the state machines survive.
 */
#ifndef COUNTERFOIL_MEM_H
#define COUNTERFOIL_MEM_H

#include <stddef.h>

void *mem_zero(size_t size); /* size bytes, zeroed; free() */
void *mem_grow(void *old, size_t count,
	       size_t item_size);                  /* realloc of count items; overflow aborts */
char *mem_text(const char *text);                  /* a copy; NULL gives NULL */
char *mem_text_n(const void *data, size_t length); /* a copy with a NUL behind it */

#endif
