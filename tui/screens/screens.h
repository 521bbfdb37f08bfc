/* The screens there are. Each is the console's once it is pushed. */
#ifndef COUNTERFOIL_SCREENS_H
#define COUNTERFOIL_SCREENS_H

#include "data/dead_row.h"
#include "data/lists.h"
#include "data/order.h"
#include "data/subject.h"
#include "screens/screen.h"

struct screen *screen_overview_new(void);
/* error: only keys of this error class; NULL: all. */
struct screen *screen_keys_new(enum list list, const char *error);
struct screen *screen_key_new(int64_t id);
struct screen *screen_found_new(const char *text);
struct screen *screen_relay_new(void);
struct screen *screen_dead_new(const struct dead_row *row);
struct screen *screen_help_new(void);
/* Overlays. */
struct screen *screen_prompt_new(void);
struct screen *screen_actions_new(const struct subject *subject);
struct screen *screen_order_new(const struct subject *subject, enum order_kind kind);
struct screen *screen_dead_actions_new(const struct dead_row *row);
struct screen *screen_settle_new(const struct dead_row *row, bool discard);

#endif
