/* The inside of a compiled template, for the compiler and the renderer. */
#ifndef LEDGER_TEMPLATE_PART_H
#define LEDGER_TEMPLATE_PART_H

#include "template.h"

struct template_part {
	enum template_source source;
	char *text;     /* a literal, or a header's name */
	size_t length;  /* of a literal */
	char *place;    /* "${/a}" as it was written; NULL for a literal */
	char *fallback; /* NULL: none */
	bool quoted;    /* stands inside a JSON string of the template */
	size_t first;   /* its pointers in the template's list */
	size_t count;
};

struct template_pointer {
	char *text;
	size_t index;
};

struct template_code {
	enum template_context context;
	struct template_part *parts;
	size_t part_count;
	struct template_pointer *pointers;
	size_t pointer_count;
};

#endif
