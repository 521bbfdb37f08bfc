/* Memory that never comes back NULL. */
#include "mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *mem_zero(size_t size)
{
	void *memory = calloc(1, size ? size : 1);
	if (!memory)
		abort();
	return memory;
}

void *mem_grow(void *old, size_t count, size_t item_size)
{
	if (item_size && count > SIZE_MAX / item_size)
		abort();
	size_t size = count * item_size;
	void *memory = realloc(old, size ? size : 1);
	if (!memory)
		abort();
	return memory;
}

char *mem_text(const char *text)
{
	return text ? mem_text_n(text, strlen(text)) : NULL;
}

char *mem_text_n(const void *data, size_t length)
{
	char *copy = mem_grow(NULL, length + 1, 1);
	if (length)
		memcpy(copy, data, length);
	copy[length] = '\0';
	return copy;
}
