/* Checks of one target. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf_forms.h"
#include "conf/conf_item.h"
#include "conf/conf_net.h"
#include "conf/conf_quoted.h"

/* --- names -------------------------------------------------------------------------------------
 */

static void check_names(struct conf_item *item, const struct conf_target *target)
{
	char key[64];
	conf_item_check_name(item, "name", target->name);
	for (size_t i = 0; i < target->alias.count; i++)
		conf_item_check_name(item, conf_path_item(key, "alias", i), target->alias.items[i]);
}

/* --- secrets and TLS ---------------------------------------------------------------------------
 */

static void check_file(const struct conf_item *item, const char *key, const char *path)
{
	if (*path && access(path, R_OK) != 0)
		ITEM_FAULT(item, key, "\"%s\" cannot be read: %s", path, strerror(errno));
}

static void check_tls(const struct conf_item *item, const struct conf_target *target, bool open)
{
	if (*target->key_file && !*target->cert_file)
		ITEM_FAULT(item, "key_file", "has no use without cert_file");
	if (!open)
		return;
	check_file(item, "ca_file", target->ca_file);
	check_file(item, "cert_file", target->cert_file);
	check_file(item, "key_file", target->key_file);
}

/* The configuration is shown to people, so what proves who we are does not stand in it. */
static void check_auth(const struct conf_item *item, const char *auth)
{
	struct err err;
	if (!conf_header_value_check(auth, &err))
		ITEM_FAULT(item, "auth", "%s", err.text);
	else if (*auth && !strstr(auth, "${"))
		ITEM_FAULT(item, "auth",
			   "must not hold the secret itself; write it into a file, name that in "
			   "secret_file, and write ${secret} in its place, as in "
			   "\"Bearer ${secret}\"");
}

/* --- the kinds of target -----------------------------------------------------------------------
 */

static void check_http(const struct conf_item *item, const struct conf_target *target)
{
	static const char why[] = "is for mail, a target whose url begins with smtp:// or smtps://";
	if (*target->from)
		ITEM_FAULT(item, "from", "%s", why);
	if (*target->to)
		ITEM_FAULT(item, "to", "%s", why);
	if (*target->subject)
		ITEM_FAULT(item, "subject", "%s", why);
}

/* One file is for one purpose, and here it is what signs. */
static void check_webhook(const struct conf_item *item, const struct conf_target *target)
{
	if (!*target->secret_file)
		ITEM_FAULT(item, "secret_file",
			   "is required: profile \"%s\" signs each request with the secret in it",
			   target->profile);
	if (*target->auth)
		ITEM_FAULT(item, "auth",
			   "would show the receiver the secret that signs; profile \"%s\" has no "
			   "use for it",
			   target->profile);
}

static void check_mail_text(const struct conf_item *item, const char *key, const char *text,
			    const char *example)
{
	struct err err;
	if (!*text)
		ITEM_FAULT(item, key, "is required for mail; write for example \"%s\"", example);
	else if (!conf_header_value_check(text, &err))
		ITEM_FAULT(item, key, "%s", err.text);
}

static void check_mail(const struct conf_item *item, const struct conf_target *target)
{
	static const char secret[] = ":${secret}";
	size_t length = strlen(target->auth);
	check_mail_text(item, "from", target->from, "Shop <orders@shop.example>");
	check_mail_text(item, "to", target->to, "${/email}");
	check_mail_text(item, "subject", target->subject, "Your order ${/order_id}");
	if (target->headers.count)
		ITEM_FAULT(item, "headers", "are for http and https, not for mail");
	if (length && (length < strlen(secret) + 1 ||
		       strcmp(target->auth + length - strlen(secret), secret) != 0))
		ITEM_FAULT(item, "auth",
			   "is for mail the user's name and the password, \"NAME:${secret}\"");
}

/* The scheme and the profile say the same. */
static void check_kind(const struct conf_item *item, const struct conf_target *target,
		       const struct conf_profile *profile)
{
	bool mail = conf_url_is_mail(target->url);
	if (mail && profile && profile->protocol != CONF_PROTOCOL_MAIL)
		ITEM_FAULT(item, "profile", "a mail server has the profile \"smtp\"");
	if (!mail && *target->url && profile && profile->protocol == CONF_PROTOCOL_MAIL)
		ITEM_FAULT(item, "profile",
			   "\"%s\" is for mail, a target whose url begins with smtp:// or smtps://",
			   profile->name);
	if (mail)
		check_mail(item, target);
	else if (*target->url)
		check_http(item, target);
	if (!mail && profile && profile->protocol == CONF_PROTOCOL_WEBHOOK)
		check_webhook(item, target);
}

/* --- all of it ---------------------------------------------------------------------------------
 */

static void check_profile_name(const struct conf_item *item, const char *name,
			       const struct conf_profile *profile)
{
	BUF_AUTO struct buf shown = { 0 };
	if (*name && !profile)
		ITEM_FAULT(item, "profile", "%s is neither a shipped profile nor one of profiles",
			   conf_quoted(&shown, name));
}

void conf_check_target(struct conf_item *item, const struct conf_target *target, bool open)
{
	const struct conf_profile *profile = conf_profile_find(item->conf, target->profile);
	struct err err;
	check_names(item, target);
	if (*target->url && !conf_url_check(target->url, &err))
		ITEM_FAULT(item, "url", "%s", err.text);
	check_profile_name(item, target->profile, profile);
	check_auth(item, target->auth);
	conf_item_check_headers(item, "headers", &target->headers, profile);
	check_kind(item, target, profile);
	if (target->timeout < target->connect_timeout)
		ITEM_FAULT(item, "timeout",
			   "is shorter than connect_timeout, which is a part of it");
	check_tls(item, target, open);
	if (*target->lookup && !conf_lookup_check(target->lookup, &err))
		ITEM_FAULT(item, "lookup", "%s", err.text);
	if (!conf_pointer_check(target->provider_id, &err))
		ITEM_FAULT(item, "provider_id", "%s", err.text);
}
