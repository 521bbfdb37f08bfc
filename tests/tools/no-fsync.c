/* A library to be preloaded into a PostgreSQL of the tests: nothing is forced to the disk. A server
 * that is killed loses nothing by that, for what it wrote is with the kernel; only a loss of power
 * would show. (fsync = off would do it as well, but the programs warn of that.) */
#include <fcntl.h>
#include <unistd.h>

int fsync(int fd)
{
	(void)fd;
	return 0;
}

int fdatasync(int fd)
{
	(void)fd;
	return 0;
}

int sync_file_range(int fd, off64_t offset, off64_t length, unsigned flags)
{
	(void)fd;
	(void)offset;
	(void)length;
	(void)flags;
	return 0;
}
