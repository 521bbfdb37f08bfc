/* What needs a person. */
#include "words/attention.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "words/format.h"

#define OUTBOX_LATE USEC_MIN

static void add(struct attention *attention, enum style style, enum list list, const char *format,
		...) __attribute__((format(printf, 4, 5)));

static void add(struct attention *attention, enum style style, enum list list, const char *format,
		...)
{
	if (attention->count == ATTENTION_MAX)
		return;
	struct attention_item *item = &attention->items[attention->count++];
	va_list args;
	item->glyph = style == STYLE_BAD ? "!!" : style == STYLE_WARN ? "!" : "-";
	item->style = style;
	item->list = list;
	item->relay = false;
	va_start(args, format);
	(void)vsnprintf(item->text, sizeof(item->text), format, args);
	va_end(args);
}

/* "1 key", "1,284 keys", "100,000 keys or more" */
static const char *keys(const struct attention_facts *facts, int64_t count, const char *kind,
			char *buffer, size_t size)
{
	char number[FORMAT_SIZE];
	bool open = count > facts->cap;
	(void)snprintf(buffer, size, "%s%s %skey%s",
		       format_count(open ? facts->cap : count, number), open ? " or more" : "",
		       kind, count == 1 ? "" : "s");
	return buffer;
}

static void judge_uncertain(const struct attention_facts *facts, struct attention *attention)
{
	char count[64], age[FORMAT_SIZE];
	if (!facts->uncertain)
		return;
	keys(facts, facts->uncertain, "uncertain ", count, sizeof(count));
	if (facts->next_window == USEC_NEVER)
		add(attention, STYLE_BAD, LIST_UNCERTAIN, "%s: may have happened, a person decides",
		    count);
	else
		add(attention, STYLE_BAD, LIST_UNCERTAIN,
		    "%s: may have happened; the first window closes in %s", count,
		    format_age(facts->next_window, age));
}

static void judge_ledgers(const struct attention_facts *facts, struct attention *attention)
{
	char count[64];
	int64_t work = facts->pending + facts->retrying + facts->in_flight;
	if (!facts->ledgers && work)
		add(attention, STYLE_BAD, LIST_PENDING,
		    "no ledger is running, and %s: nothing is sent",
		    work == 1 ? "a key waits" : "keys wait");
	else if (!facts->ledgers)
		add(attention, STYLE_WARN, LIST_COUNT, "no ledger is running");
	if (facts->stale)
		add(attention, STYLE_WARN, LIST_STALE, "%s: %s",
		    keys(facts, facts->stale, "stale ", count, sizeof(count)),
		    facts->ledgers ? "the ledger that had them is gone or late"
				   : "no ledger is there to take them over");
}

static void judge_outbox(const struct attention_facts *facts, struct attention *attention)
{
	char count[FORMAT_SIZE], age[FORMAT_SIZE];
	bool open = facts->outbox > facts->cap;
	if (!facts->outbox)
		return;
	format_count(open ? facts->cap : facts->outbox, count);
	if (!facts->relay)
		add(attention, STYLE_BAD, LIST_COUNT,
		    "no relay publishes, and %s%s outbox row%s wait%s, the oldest for %s", count,
		    open ? " or more" : "", facts->outbox == 1 ? "" : "s",
		    facts->outbox == 1 ? "s" : "", format_age(facts->outbox_oldest, age));
	else if (facts->outbox_oldest != USEC_NEVER && facts->outbox_oldest > OUTBOX_LATE)
		add(attention, STYLE_WARN, LIST_COUNT,
		    "the oldest of %s%s outbox rows waits for %s", count, open ? " or more" : "",
		    format_age(facts->outbox_oldest, age));
}

static void judge_topics(const struct attention_facts *facts, struct attention *attention)
{
	char age[FORMAT_SIZE];
	for (size_t i = 0; i < facts->blocked_count; i++) {
		const struct attention_topic *topic = &facts->blocked[i];
		add(attention, STYLE_WARN, LIST_COUNT, "topic %.60s is blocked for %s: %s",
		    topic->topic, format_age(topic->since, age),
		    *topic->reason ? topic->reason : "its rows wait");
	}
}

/* "1 outbox row", "1,284 outbox rows", "100,000 outbox rows or more" */
static const char *rows(const struct attention_facts *facts, int64_t count, char *buffer,
			size_t size)
{
	char number[FORMAT_SIZE];
	bool open = count > facts->cap;
	(void)snprintf(buffer, size, "%s outbox row%s%s",
		       format_count(open ? facts->cap : count, number), count == 1 ? "" : "s",
		       open ? " or more" : "");
	return buffer;
}

static void judge_dead_rows(const struct attention_facts *facts, struct attention *attention)
{
	char count[64];
	if (facts->dead_rows)
		add(attention, STYLE_WARN, LIST_COUNT,
		    "%s %s dead: a person puts %s back or discards %s",
		    rows(facts, facts->dead_rows, count, sizeof(count)),
		    facts->dead_rows == 1 ? "is" : "are", facts->dead_rows == 1 ? "it" : "them",
		    facts->dead_rows == 1 ? "it" : "them");
	if (facts->parked_rows)
		add(attention, STYLE_PLAIN, LIST_COUNT,
		    "%s %s parked behind %s of the same ordering key",
		    rows(facts, facts->parked_rows, count, sizeof(count)),
		    facts->parked_rows == 1 ? "is" : "are",
		    facts->dead_rows == 1 ? "the dead one" : "dead ones");
}

static void judge_relay(const struct attention_facts *facts, struct attention *attention)
{
	size_t before = attention->count;
	judge_outbox(facts, attention);
	judge_topics(facts, attention);
	judge_dead_rows(facts, attention);
	for (size_t i = before; i < attention->count; i++)
		attention->items[i].relay = true;
}

static void judge_pause(const struct attention_facts *facts, const struct attention_pause *pause,
			struct attention *attention)
{
	char age[FORMAT_SIZE], count[64];
	bool all = strcmp(pause->scope, "everything") == 0;
	const char *name = *pause->name || all ? pause->name : "''";
	add(attention, STYLE_WARN, LIST_COUNT, "%s%s%s is paused for %s, by %s%s%s%s%s",
	    pause->scope, all ? "" : " ", name, format_age(pause->since, age), pause->who,
	    *pause->reason ? ": " : "", pause->reason, pause->aside ? "; put aside: " : "",
	    pause->aside ? keys(facts, pause->aside, "", count, sizeof(count)) : "");
}

static void judge_pauses(const struct attention_facts *facts, struct attention *attention)
{
	for (size_t i = 0; i < facts->pause_count && i < ATTENTION_PAUSES; i++)
		judge_pause(facts, &facts->pauses[i], attention);
	if (facts->pause_count > ATTENTION_PAUSES)
		add(attention, STYLE_WARN, LIST_COUNT,
		    "%zu more paused: `counterfoil pause` lists all",
		    facts->pause_count - ATTENTION_PAUSES);
}

static void judge_targets(const struct attention_facts *facts, struct attention *attention)
{
	char age[FORMAT_SIZE];
	for (size_t i = 0; i < facts->target_count; i++) {
		const struct attention_target *target = &facts->targets[i];
		if (target->held)
			add(attention, STYLE_WARN, LIST_COUNT, "target %s is held for %s: %s%s",
			    target->name, format_age(target->since, age),
			    *target->reason ? target->reason : "by hand",
			    target->probed ? "; opens by itself when a key succeeds" : "");
		else if (target->failing)
			add(attention, STYLE_WARN, LIST_COUNT,
			    "target %s fails and is left alone; tried again in %s", target->name,
			    format_age(target->for_more, age));
		else
			add(attention, STYLE_PLAIN, LIST_COUNT,
			    "target %s asked for a pause, another %s", target->name,
			    format_age(target->for_more, age));
	}
}

static void judge_records(const struct attention_facts *facts, struct attention *attention)
{
	char count[64];
	if (facts->dead)
		add(attention, STYLE_WARN, LIST_DEAD, "%s: certainly not applied, and given up",
		    keys(facts, facts->dead, "dead ", count, sizeof(count)));
	if (facts->poison)
		add(attention, STYLE_WARN, LIST_COUNT,
		    "%s message%s could not be turned into effects",
		    format_count(facts->poison, count), facts->poison == 1 ? "" : "s");
	if (facts->conflicts)
		add(attention, STYLE_PLAIN, LIST_COUNT,
		    "%s event%s asked for a key that stands for something else",
		    format_count(facts->conflicts, count), facts->conflicts == 1 ? "" : "s");
	for (size_t i = 0; i < facts->unmatched_count; i++)
		add(attention, STYLE_PLAIN, LIST_COUNT,
		    "%s event%s of %s in %s matched nothing in the last hour",
		    format_count(facts->unmatched[i].count, count),
		    facts->unmatched[i].count == 1 ? "" : "s",
		    *facts->unmatched[i].type ? facts->unmatched[i].type : "no type",
		    facts->unmatched[i].topic);
}

void attention_judge(const struct attention_facts *facts, struct attention *attention_r)
{
	attention_r->count = 0;
	judge_uncertain(facts, attention_r);
	judge_ledgers(facts, attention_r);
	judge_relay(facts, attention_r);
	judge_pauses(facts, attention_r);
	judge_targets(facts, attention_r);
	judge_records(facts, attention_r);
}
