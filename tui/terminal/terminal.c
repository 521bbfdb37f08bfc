/* The terminal by ncurses: newterm() and not initscr(), which ends the process by itself. */
#include "terminal/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

#include "mem.h"

#include <term.h>

#define PASTE_ON    "\033[?2004h"
#define PASTE_OFF   "\033[?2004l"
#define PASTE_BEGIN "\033[200~"
#define PASTE_END   "\033[201~"

enum { KEY_PASTE_BEGIN = KEY_MAX + 1, KEY_PASTE_END };

static const int crash_signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
enum { CRASH_SIGNALS = sizeof(crash_signals) / sizeof(crash_signals[0]) };

struct terminal {
	SCREEN *screen;
	bool pasting;
	int aside; /* what is written to stderr meanwhile; -1: stderr is no terminal */
	int stderr_fd;
};

/* What the handler of a crash may use: it cannot be handed anything. */
static struct {
	struct termios modes;
	char leave[256];
	size_t length;
	int aside;
	int stderr_fd;
} rescue;

/* --- stderr --- */

/* Async-signal-safe. */
static void copy_aside(int aside, int to)
{
	char bytes[4096];
	ssize_t length;
	if (aside < 0 || lseek(aside, 0, SEEK_SET) < 0)
		return;
	while ((length = read(aside, bytes, sizeof(bytes))) > 0)
		if (write(to, bytes, (size_t)length) < 0)
			return;
}

/* What libraries and the log say would be drawn over the screen. */
static void put_stderr_aside(struct terminal *terminal)
{
	terminal->aside =
		isatty(STDERR_FILENO) ? memfd_create("counterfoil-stderr", MFD_CLOEXEC) : -1;
	if (terminal->aside < 0)
		return;
	terminal->stderr_fd = dup(STDERR_FILENO);
	if (terminal->stderr_fd < 0 || dup2(terminal->aside, STDERR_FILENO) < 0)
		abort();
}

static void put_stderr_back(struct terminal *terminal)
{
	if (terminal->aside < 0)
		return;
	fflush(stderr);
	dup2(terminal->stderr_fd, STDERR_FILENO);
	copy_aside(terminal->aside, STDERR_FILENO);
	close(terminal->aside);
	close(terminal->stderr_fd);
}

/* --- a crash --- */

static void on_crash(int number)
{
	ssize_t written = write(STDOUT_FILENO, rescue.leave, rescue.length);
	(void)written;
	tcsetattr(STDIN_FILENO, TCSANOW, &rescue.modes);
	if (rescue.aside >= 0)
		copy_aside(rescue.aside, rescue.stderr_fd);
	raise(number); /* the handler was for once */
}

static void rescue_add(const char *text)
{
	size_t length = text ? strlen(text) : 0;
	/* a text with padding would need tputs() */
	if (!length || strstr(text, "$<") || rescue.length + length > sizeof(rescue.leave))
		return;
	memcpy(rescue.leave + rescue.length, text, length);
	rescue.length += length;
}

static const char *capability(const char *name)
{
	char copy[16];
	(void)snprintf(copy, sizeof(copy), "%s", name);
	const char *text = tigetstr(copy);
	return text == (const char *)-1 ? NULL : text;
}

static void prepare_rescue(const struct terminal *terminal)
{
	const struct sigaction crash = { .sa_handler = on_crash,
					 .sa_flags = (int)(SA_RESETHAND | SA_NODEFER) };
	rescue.length = 0;
	rescue.aside = terminal->aside;
	rescue.stderr_fd = terminal->stderr_fd;
	rescue_add(PASTE_OFF);
	rescue_add(capability("sgr0"));
	rescue_add(capability("rmkx"));
	rescue_add(capability("rmcup"));
	rescue_add(capability("cnorm"));
	rescue_add("\r\n");
	for (size_t i = 0; i < CRASH_SIGNALS; i++)
		sigaction(crash_signals[i], &crash, NULL);
}

static void forget_rescue(void)
{
	for (size_t i = 0; i < CRASH_SIGNALS; i++)
		(void)signal(crash_signals[i], SIG_DFL);
}

/* --- taking it --- */

bool terminal_check(struct err *err)
{
	int state = 0;
	const char *term = getenv("TERM");
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return err_set(err, "the console needs a terminal on its input and output; for "
				    "scripts there is `counterfoil list`");
	if (!term || !*term)
		return err_set(err, "TERM is not set: set it to the kind of your terminal, "
				    "TERM=xterm-256color perhaps");
	if (setupterm(NULL, STDOUT_FILENO, &state) != OK)
		return err_set(err,
			       "this machine does not know the terminal TERM=\"%.60s\": try "
			       "TERM=xterm-256color, or install ncurses-term",
			       term);
	bool places = capability("cup") != NULL;
	del_curterm(cur_term);
	return places || err_set(err,
				 "the terminal TERM=\"%.60s\" cannot place its cursor; without a "
				 "screen there is `counterfoil list`",
				 term);
}

static void set_modes(void)
{
	char begin[] = PASTE_BEGIN, end[] = PASTE_END;
	cbreak();
	noecho();
	nonl();
	intrflush(stdscr, FALSE);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	curs_set(0);
	define_key(begin, KEY_PASTE_BEGIN);
	define_key(end, KEY_PASTE_END);
}

static void say(const char *sequence)
{
	fflush(stdout);
	if (write(STDOUT_FILENO, sequence, strlen(sequence)) < 0)
		return; /* the end of the terminal is noticed by reading */
}

bool terminal_open(usec_t escape_delay, struct err *err, struct terminal **terminal_r)
{
	if (tcgetattr(STDIN_FILENO, &rescue.modes) != 0)
		return err_set(err, "the terminal's modes cannot be read: %s", strerror(errno));
	use_env(FALSE); /* LINES and COLUMNS would freeze the size */
	if (!getenv("ESCDELAY"))
		set_escdelay((int)(escape_delay / USEC_MS));
	SCREEN *screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return err_set(err, "the terminal cannot be opened");
	struct terminal *terminal = mem_zero(sizeof(*terminal));
	terminal->screen = screen;
	put_stderr_aside(terminal);
	prepare_rescue(terminal);
	set_modes();
	say(PASTE_ON);
	terminal_resize();
	*terminal_r = terminal;
	return true;
}

void terminal_close(struct terminal *terminal)
{
	if (!terminal)
		return;
	say(PASTE_OFF);
	endwin();
	delscreen(terminal->screen);
	forget_rescue();
	put_stderr_back(terminal);
	free(terminal);
}

void terminal_suspend(void)
{
	const struct sigaction stop = { .sa_handler = SIG_DFL };
	struct sigaction ours;
	say(PASTE_OFF);
	endwin();
	/* not SIGSTOP: where no shell could wake us, this one is not heard */
	sigaction(SIGTSTP, &stop, &ours);
	raise(SIGTSTP);
	/* here again after SIGCONT */
	sigaction(SIGTSTP, &ours, NULL);
	refresh();
	say(PASTE_ON);
	terminal_resize();
	terminal_redraw();
}

/* --- using it --- */

void terminal_resize(void)
{
	struct winsize size;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
		resizeterm(size.ws_row, size.ws_col);
}

void terminal_redraw(void)
{
	clearok(curscr, TRUE);
}

/* Readable, and nothing to read. */
static bool is_gone(void)
{
	struct pollfd state = { .fd = STDIN_FILENO, .events = POLLIN };
	int waiting = 0;
	if (poll(&state, 1, 0) <= 0)
		return false;
	if (state.revents & (POLLHUP | POLLERR | POLLNVAL))
		return true;
	return ioctl(STDIN_FILENO, FIONREAD, &waiting) != 0 || waiting == 0;
}

enum terminal_input terminal_read(struct terminal *terminal, struct key *key_r)
{
	wint_t code = 0;
	int kind;
	while ((kind = get_wch(&code)) != ERR) {
		if (kind == KEY_CODE_YES && code == KEY_RESIZE)
			continue;
		if (kind == KEY_CODE_YES && (code == KEY_PASTE_BEGIN || code == KEY_PASTE_END)) {
			terminal->pasting = code == KEY_PASTE_BEGIN;
			continue;
		}
		*key_r = (struct key){ .special = kind == KEY_CODE_YES,
				       .pasted = terminal->pasting,
				       .code = code };
		return INPUT_KEY;
	}
	return is_gone() ? INPUT_END : INPUT_NONE;
}
