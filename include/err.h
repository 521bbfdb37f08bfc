/* An error as a sentence. A function that can fail returns bool and fills a struct err; its other
 * out-parameters come last and stay untouched on failure. The text names the step and, where there
 * is one, the remedy. */
#ifndef COUNTERFOIL_ERR_H
#define COUNTERFOIL_ERR_H

#include <stdbool.h>

struct err {
	char text[768];
};

/* Formats the text (cut at the struct's size) and returns false, so that a caller may write
 * `return err_set(err, "...")`. err may be NULL: the text is then dropped. */
bool err_set(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " before the text that is there already; returns false. */
bool err_prefix(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define MUST_USE __attribute__((warn_unused_result))

#endif
