/* What an action is about. */
#include "data/subject.h"

#include <stdlib.h>

#include "mem.h"

void subject_copy(const struct subject *from, struct subject *subject_r)
{
	*subject_r = (struct subject){ .id = from->id,
				       .epoch = from->epoch,
				       .state = mem_text(from->state),
				       .key = mem_text(from->key),
				       .target = mem_text(from->target) };
}

/* A copy owns what it only reads. */
static void free_text(const char *text)
{
	union {
		const char *in;
		char *out;
	} same = { .in = text };
	free(same.out);
}

void subject_done(struct subject *subject)
{
	free_text(subject->state);
	free_text(subject->key);
	free_text(subject->target);
	*subject = (struct subject){ 0 };
}
