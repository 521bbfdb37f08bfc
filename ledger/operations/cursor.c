/* The numbers of an order's cursor, as text. */
#include "cursor.h"

#include <errno.h>
#include <stdlib.h>

bool cursor_number(const char **text, int64_t *number_r)
{
	char *end;

	errno = 0;
	long long number = strtoll(*text, &end, 10);
	if (errno != 0 || end == *text)
		return false;
	*number_r = number;
	*text = end + (*end != '\0');
	return true;
}
