/* Files of events, one after the other. */
#include "try.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rules/rules.h"
#include "try_show.h"

#define EVENT_MAX ((size_t)64 * 1024 * 1024)

static const char standard_input[] = "-";

static bool read_stream(FILE *stream, struct err *err, struct buf *out)
{
	char chunk[16 * 1024];
	size_t got;

	while ((got = fread(chunk, 1, sizeof(chunk), stream)) > 0) {
		if (out->length + got > EVENT_MAX)
			return err_set(err, "is larger than %zu bytes", EVENT_MAX);
		buf_add(out, chunk, got);
	}
	return !ferror(stream) || err_set(err, "%s", strerror(errno));
}

static bool read_file(const char *path, struct err *err, struct buf *out)
{
	FILE *stream;
	bool ok;

	if (!strcmp(path, standard_input))
		return read_stream(stdin, err, out);
	stream = fopen(path, "re");
	if (!stream)
		return err_set(err, "%s", strerror(errno));
	ok = read_stream(stream, err, out);
	(void)fclose(stream);
	return ok;
}

static bool try_file(struct rules *rules, const struct conf *conf, const struct try_form *form,
		     const char *path, struct err *err, bool *good_r)
{
	struct buf data BUF_AUTO = { 0 }, out BUF_AUTO = { 0 };
	struct try_event event;

	if (!read_file(path, err, &data) ||
	    !try_event_read(buf_text(&data), data.length, form, err, &event))
		return false;
	buf_addf(&out, "%s\n", path);
	*good_r = try_show(rules, conf, &event.source, usec_wall(), &out);
	(void)fwrite(out.data, 1, out.length, stdout);
	try_event_done(&event);
	return true;
}

static void say_unread(const char *path, const struct err *why)
{
	struct buf line BUF_AUTO = { 0 };

	try_put_text(&line, why->text, strlen(why->text));
	(void)fflush(stdout); /* in the order of the files */
	fprintf(stderr, "%s: %s\n", path, line.data);
}

static enum exit_code try_all(struct rules *rules, const struct conf *conf,
			      const struct try_form *form, const char *const *files, size_t count)
{
	enum exit_code code = EXIT_OK;
	struct err err;

	for (size_t i = 0; i < count; i++) {
		bool good = false;
		if (!try_file(rules, conf, form, files[i], &err, &good))
			say_unread(files[i], &err);
		if (!good)
			code = EXIT_ERROR;
	}
	return code;
}

enum exit_code try_files(const struct conf *conf, const struct try_form *form,
			 const char *const *files, size_t count)
{
	static const char *const only_input[] = { standard_input };
	struct buf faults BUF_AUTO = { 0 }, warnings BUF_AUTO = { 0 };
	struct rules *rules;
	enum exit_code code;

	if (!rules_new_redacted(conf, &faults, &warnings, &rules)) {
		fputs(buf_text(&faults), stderr);
		return EXIT_CONFIG;
	}
	fputs(buf_text(&warnings), stderr);
	code = count ? try_all(rules, conf, form, files, count)
		     : try_all(rules, conf, form, only_input, 1);
	rules_free(rules);
	return code;
}
