/* A scratch directory with configuration files in it; the tests run inside. */
#ifndef TESTS_CONF_FIXTURE_H
#define TESTS_CONF_FIXTURE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char fixture_root[4096]; /* where the tests were started */
static char fixture_scratch[] = "/tmp/counterfoil-test-XXXXXX";

static int fixture_enter(void **state)
{
	(void)state;
	return getcwd(fixture_root, sizeof(fixture_root)) && mkdtemp(fixture_scratch) &&
			       chdir(fixture_scratch) == 0
		       ? 0
		       : -1;
}

static int fixture_leave(void **state)
{
	(void)state;
	DIR *directory = opendir(".");
	if (!directory)
		return -1;
	for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
		if (entry->d_name[0] != '.')
			(void)remove(entry->d_name);
	closedir(directory);
	if (chdir(fixture_root) != 0)
		return -1;
	return rmdir(fixture_scratch);
}

static void fixture_write_n(const char *name, const void *data, size_t length)
{
	FILE *file = fopen(name, "w");
	if (!file)
		fail_msg("%s cannot be written", name);
	assert_int_equal(fwrite(data, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

static void fixture_write(const char *name, const char *text)
{
	fixture_write_n(name, text, strlen(text));
}

#endif
