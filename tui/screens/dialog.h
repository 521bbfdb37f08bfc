/* A dialog that gives one order, of whatever kind:
 *
 *   CHOOSING --Enter on the button--> BEGINNING -> JUDGING -> COMMITTING --done--> closed
 *                                         \___________\___________\--> CHOOSING again, and why
 *
 * It starts on Cancel. What was typed before it opened is dropped, and while an order is under way
 * keys are ignored. An answer that is lost leaves the same operation to be asked for again: it is
 * never carried out twice. */
#ifndef COUNTERFOIL_DIALOG_H
#define COUNTERFOIL_DIALOG_H

#include "screens/screen.h"
#include "terminal/text_input.h"

struct dialog;

/* What differs between the kinds. Each statement is the order's, a dry run or not. */
struct dialog_kind {
	const char *(*title)(const struct dialog *dialog);
	const char *(*button)(const struct dialog *dialog);
	const char *(*sql)(const struct dialog *dialog);
	void (*params)(const struct dialog *dialog, const char *reason, bool dry_run,
		       struct pg_params *params);
	/* Says what the database said, by dialog_say(). False: it would not do it. */
	bool (*verdict)(struct dialog *dialog, const PGresult *answer);
	void (*ask_more)(struct dialog *dialog); /* what else is worth a warning; NULL: nothing */
	void (*draw_subject)(const struct dialog *dialog, const struct canvas *canvas,
			     const struct area *area);  /* two lines */
	void (*tell_done)(const struct dialog *dialog); /* in the console's own line */
	void (*free)(struct dialog *dialog);
};

enum dialog_phase {
	PHASE_CHOOSING,   /* the person decides */
	PHASE_BEGINNING,  /* BEGIN was sent */
	PHASE_JUDGING,    /* the order was sent, in the transaction */
	PHASE_COMMITTING, /* COMMIT was sent */
};

/* In the order of Tab: four keys for a replay, x r Tab Enter. */
enum dialog_focus { FOCUS_CANCEL, FOCUS_GO, FOCUS_REASON, FOCUS_FIELD, FOCUS_COUNT };

/* One more thing to be typed, beside the reason. */
struct dialog_field {
	const char *name;  /* at most 7 characters; NULL: there is none */
	const char *hint;  /* while it is empty */
	const char *typed; /* what has to stand in it, so that nobody does it by habit; NULL:
			      anything */
	struct text_input text;
};

/* The beginning of every dialog's struct. */
struct dialog {
	struct screen screen;
	const struct dialog_kind *kind;
	enum dialog_phase phase;
	enum dialog_focus focus;
	struct text_input reason;
	struct dialog_field field;
	bool needs_reason;
	bool refused; /* the database has said that it would not */
	bool failed;  /* `words` say why it was not done */
	char words[512];
	char warning[240];
};

/* From mem_zero(). */
void dialog_init(struct dialog *dialog, const struct dialog_kind *kind);
/* As a sentence. */
void dialog_say(struct dialog *dialog, const char *words);

#endif
