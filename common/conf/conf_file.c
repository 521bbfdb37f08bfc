/* Whole files, with a cap; and secrets, which are the first line of theirs. */
#include "conf/conf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf.h"
#include "mem.h"

#define SECRET_MAX ((size_t)64 * 1024)

static bool refuse(struct err *err, int error)
{
	if (error == EACCES || error == EPERM)
		return err_set(err,
			       "permission denied: the user who runs this program must be able "
			       "to read it");
	if (error == EISDIR)
		return err_set(err, "is a directory, not a file");
	return err_set(err, "%s", strerror(error));
}

static bool read_all(int fd, size_t max, struct err *err, struct buf *out)
{
	char chunk[16 * 1024];
	size_t total = 0;
	for (;;) {
		ssize_t got = read(fd, chunk, sizeof(chunk));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return refuse(err, errno);
		if (got == 0)
			return true;
		total += (size_t)got;
		if (total > max)
			return err_set(err, "is larger than %zu bytes", max);
		buf_add(out, chunk, (size_t)got);
	}
}

bool conf_file_read(const char *path, size_t max, struct err *err, struct buf *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return refuse(err, errno);
	bool ok = read_all(fd, max, err, out);
	close(fd);
	return ok;
}

bool conf_read_secret(const char *path, struct err *err, char **secret_r)
{
	BUF_AUTO struct buf text = { 0 };
	if (!conf_file_read(path, SECRET_MAX, err, &text))
		return err_prefix(err, "%s", path);
	size_t length = strcspn(buf_text(&text), "\r\n");
	if (length == 0)
		return err_set(err, "%s: the first line is empty; it must be the secret", path);
	if (length < text.length && text.data[length] == '\0')
		return err_set(err, "%s: the secret holds a NUL", path);
	*secret_r = mem_text_n(text.data, length);
	return true;
}
