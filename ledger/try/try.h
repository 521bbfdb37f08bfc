/* --try: shows, for events in files, which effects they have and what would be sent; sends nothing,
 * and contacts no server. */
#ifndef LEDGER_TRY_H
#define LEDGER_TRY_H

#include "conf.h"
#include "main.h"
#include "try_event.h"

/* Prints what there is to say. "-" is standard input, which is read too when there is no file.
 * EXIT_OK: every event matched, and each of its effects could be rendered. EXIT_ERROR: not so, or a
 * file is no event. EXIT_CONFIG. */
enum exit_code try_files(const struct conf *conf, const struct try_form *form,
			 const char *const *files, size_t count);

#endif
