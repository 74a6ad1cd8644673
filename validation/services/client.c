// SPDX-License-Identifier: GPL-2.0-only
//
// A client for the bench of services: one thread, epoll, many connections, and a log of requests on
// CLOCK_MONOTONIC, which is the clock of `schedcast record`.
//
//     client KEY=VALUE...
//
//     proto=http|redis|memcached|postgres|mysql    host=127.0.0.1   port=N   user=NAME   database=NAME
//     mode=open      requests are due by a Poisson process of `rate` a second, whatever the service does. A request that
//                    finds every connection full waits here and keeps its due time.
//     mode=closed    every connection sends its next request an exponential time of mean `think_ms` after the last reply.
//     connections=N  depth=N (requests under way on one connection: pipelining)   seconds=S   seed=N   out=FILE
//     drain=S        how long replies are awaited after the last request (0.5)
//     request=WEIGHT:TEXT    one kind of request; may be repeated. In TEXT, {n} is a log-normal number of median `n` and
//                            sigma `sigma`, {k} a key number below `keys`, {NxPREFIX} N keys PREFIX0 ... in one go.
//                            TEXT is a path (http), words (redis), a line (memcached; `set` gets its bytes) or SQL.
//
// Columns of the log: client,scheduled_us,sent_us,replied_us,kind. What had no reply when the
// client ended stands in FILE.unfinished with the same columns and replied_us 0. The first line on
// standard output is the begin of the load in ns.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum proto { HTTP, REDIS, MEMCACHED, POSTGRES, MYSQL, PROTOS };
static const char *const proto_names[PROTOS] = { "http", "redis", "memcached", "postgres", "mysql" };

struct request { int64_t due, sent, replied; uint64_t draws; int conn, kind; };
struct conn {
	int fd, first, under_way;	// requests under way are a ring of numbers in `ring`
	int *ring;
	char *in, *out;
	size_t in_len, in_cap, out_len, out_at, out_cap;
	int64_t next_due;		// closed loop
	uint64_t draws;
};
static struct { double weight; const char *text; } kinds[16];
static int nr_kinds, nr_conns = 16, depth = 1, closed, port;
static const char *host = "127.0.0.1", *user = "bench", *database = "bench", *out_file;
static enum proto proto = PROTOS;
static double rate = 100, seconds = 10, think_ms = 10, median_n = 100, sigma = 0.5, keys = 1000, drain = 0.5;
static uint64_t seed = 1;
static struct request *requests;
static int nr_requests, cap_requests, epoll_fd;
static struct conn *conns;

static void die(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	fputs("client: ", stderr);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	exit(1);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// SplitMix64.
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9E3779B97F4A7C15ULL;
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ULL;
	z = (z ^ z >> 27) * 0x94D049BB133111EBULL;
	return z ^ z >> 31;
}
static double uniform(uint64_t *state) { return ((draw(state) >> 11) + 0.5) / 9007199254740992.0; }
static double exponential(uint64_t *state, double mean) { return -log(uniform(state)) * mean; }

static void put(struct conn *c, const void *data, size_t size)
{
	if (c->out_len + size > c->out_cap) {
		c->out_cap = 2 * (c->out_len + size);
		c->out = realloc(c->out, c->out_cap);
	}
	memcpy(c->out + c->out_len, data, size);
	c->out_len += size;
}
static void put_text(struct conn *c, const char *text) { put(c, text, strlen(text)); }

// The text of a request with its draws filled in.
static const char *fill(struct request *r)
{
	static char text[1 << 16];
	uint64_t draws = r->draws;
	double pick = uniform(&draws), all = 0;
	for (int i = 0; i < nr_kinds; i++)
		all += kinds[i].weight;
	for (r->kind = 0; r->kind < nr_kinds - 1 && pick * all >= kinds[r->kind].weight; r->kind++)
		pick -= kinds[r->kind].weight / all;
	char *to = text;
	for (const char *from = kinds[r->kind].text; *from;) {
		char *end, prefix[32];
		int many;
		if (!strncmp(from, "{n}", 3)) {
			double normal = sqrt(-2 * log(uniform(&draws))) * cos(6.283185307179586 * uniform(&draws));
			to += sprintf(to, "%d", (int)(median_n * exp(sigma * normal)) + 1);
		} else if (!strncmp(from, "{k}", 3)) {
			to += sprintf(to, "%d", (int)(uniform(&draws) * keys));
		} else if (sscanf(from, "{%dx%31[^}]}", &many, prefix) == 2) {
			for (int i = 0; i < many; i++)
				to += sprintf(to, "%s%s%d", i ? " " : "", prefix, (int)(uniform(&draws) * keys));
		} else {
			*to++ = *from++;
			continue;
		}
		end = strchr(from, '}');
		from = end + 1;
	}
	*to = 0;
	return text;
}

static void send_request(struct conn *c, struct request *r)
{
	const char *text = fill(r);
	uint32_t size = strlen(text);
	char head[64];
	switch (proto) {
	case HTTP:
		put_text(c, "GET ");
		put_text(c, text);
		put_text(c, " HTTP/1.1\r\nHost: bench\r\nAccept-Encoding: gzip\r\nConnection: keep-alive\r\n\r\n");
		break;
	case REDIS: {
		int words = 1;
		for (const char *p = text; *p; p++)
			words += *p == ' ';
		sprintf(head, "*%d\r\n", words);
		put_text(c, head);
		while (words--) {
			size_t word = strcspn(text, " ");
			sprintf(head, "$%zu\r\n", word);
			put_text(c, head);
			put(c, text, word);
			put_text(c, "\r\n");
			text += word + 1;
		}
		break;
	}
	case MEMCACHED: {
		int bytes;
		put_text(c, text);
		put_text(c, "\r\n");
		if (sscanf(text, "set %*s %*d %*d %d", &bytes) == 1) {
			while (bytes-- > 0)
				put(c, "x", 1);
			put_text(c, "\r\n");
		}
		break;
	}
	case POSTGRES: {
		uint32_t length = htonl(size + 5);
		put(c, "Q", 1);
		put(c, &length, 4);
		put(c, text, size + 1);
		break;
	}
	default:
		head[0] = size + 1, head[1] = (size + 1) >> 8, head[2] = (size + 1) >> 16, head[3] = 0, head[4] = 3;
		put(c, head, 5);
		put(c, text, size);
	}
}

// How many bytes the first whole reply has; 0 if it is not all there.
static size_t http_reply(const char *b, size_t n)
{
	char *end = memmem(b, n, "\r\n\r\n", 4), *field;
	if (!end)
		return 0;
	size_t head = end - b + 4;
	if (n < 12 || b[9] != '2')
		die("the server answered %.*s", 40, b);
	*end = 0;		// so that strcasestr stops there
	field = strcasestr(b, "\r\ncontent-length:");
	int chunked = strcasestr(b, "\r\ntransfer-encoding: chunked") != NULL;
	*end = '\r';
	if (field)
		return n >= head + atol(field + 17) ? head + atol(field + 17) : 0;
	if (!chunked)
		die("a reply without Content-Length: %.*s", (int)head, b);
	for (size_t at = head; at < n;) {
		char *line = memmem(b + at, n - at, "\r\n", 2);
		if (!line)
			return 0;
		size_t chunk = strtoul(b + at, NULL, 16);
		at = line - b + 2 + chunk + 2;
		if (!chunk)
			return at <= n ? at : 0;
	}
	return 0;
}
static size_t redis_reply(const char *b, size_t n)
{
	char *end = memmem(b, n, "\r\n", 2);
	if (!end)
		return 0;
	size_t at = end - b + 2;
	long value = atol(b + 1);
	if (b[0] == '-')
		die("the server answered %.*s", (int)at, b);
	if (b[0] == '$' && value >= 0)
		at += value + 2;
	for (long i = 0; b[0] == '*' && i < value; i++) {
		size_t part = at < n ? redis_reply(b + at, n - at) : 0;
		if (!part)
			return 0;
		at += part;
	}
	return at <= n ? at : 0;
}
static size_t memcached_reply(const char *b, size_t n)
{
	for (size_t at = 0; at < n;) {
		char *end = memmem(b + at, n - at, "\r\n", 2);
		if (!end)
			return 0;
		size_t next = end - b + 2, bytes;
		if (sscanf(b + at, "VALUE %*s %*d %zu", &bytes) == 1)
			at = next + bytes + 2;
		else
			return next;
	}
	return 0;
}
static size_t postgres_reply(const char *b, size_t n)
{
	for (size_t at = 0; at + 5 <= n;) {
		uint32_t length;
		memcpy(&length, b + at + 1, 4);
		if (b[at] == 'E')
			die("the server answered with the error %s", memchr(b + at, 'M', n - at) ?: "");
		char type = b[at];
		at += 1 + ntohl(length);
		if (type == 'Z')
			return at <= n ? at : 0;
	}
	return 0;
}
static size_t mysql_reply(const char *b, size_t n)
{
	const unsigned char *p = (const unsigned char *)b;
	int ends = 0;
	for (size_t at = 0, packet = 0; at + 4 < n; packet++) {
		size_t length = p[at] | p[at + 1] << 8 | p[at + 2] << 16;
		if (at + 4 + length > n)
			return 0;
		if (p[at + 4] == 0xff)
			die("the server answered %.*s", (int)length - 3, b + at + 7);
		ends += p[at + 4] == 0xfe && length < 9;
		int ok = packet == 0 && p[at + 4] == 0;
		at += 4 + length;
		if (ok || ends == 2)
			return at;
	}
	return 0;
}
static size_t (*const replies[PROTOS])(const char *, size_t) = {
	http_reply, redis_reply, memcached_reply, postgres_reply, mysql_reply,
};

static void write_all(int fd, const void *data, size_t size)
{
	if (write(fd, data, size) != (ssize_t)size)
		die("greeting the server: %s", strerror(errno));
}

static void greet(int fd)
{
	unsigned char b[65536], packet[512];
	size_t n = 0;
	if (proto == POSTGRES) {
		size_t size = 8;
		const char *const words[] = { "user", user, "database", database };
		for (int i = 0; i < 4; i++)
			size += sprintf((char *)packet + size, "%s", words[i]) + 1;
		packet[size++] = 0;
		uint32_t head[2] = { htonl(size), htonl(196608) };
		memcpy(packet, head, 8);
		write_all(fd, packet, size);
		while (!postgres_reply((char *)b, n)) {
			ssize_t got = read(fd, b + n, sizeof b - n);
			if (got <= 0)
				die("the server closed the connection at its beginning");
			n += got;
		}
	} else if (proto == MYSQL) {
		if (read(fd, b, sizeof b) <= 0)
			die("the server closed the connection at its beginning");
		// PROTOCOL_41, SECURE_CONNECTION, CONNECT_WITH_DB, PLUGIN_AUTH; an empty password.
		const uint32_t flags = 0x200 | 0x8000 | 0x8 | 0x80000;
		size_t size = 4 + 4 + 4 + 1 + 23;
		memset(packet, 0, sizeof packet);
		memcpy(packet + 4, &flags, 4);
		packet[11] = 1, packet[12] = 45;
		size += sprintf((char *)packet + size, "%s", user) + 1;
		packet[size++] = 0;
		size += sprintf((char *)packet + size, "%s", database) + 1;
		size += sprintf((char *)packet + size, "mysql_native_password") + 1;
		packet[0] = size - 4, packet[3] = 1;
		write_all(fd, packet, size);
		ssize_t got = read(fd, b, sizeof b);
		if (got < 5 || b[4] != 0)
			die("the server refused the login: %.*s", got > 7 ? (int)got - 7 : 0, b + 7);
	}
}

static void dial(struct conn *c)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	int one = 1;
	inet_pton(AF_INET, host, &a.sin_addr);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(c->fd, (struct sockaddr *)&a, sizeof a))
		die("connecting to %s:%d: %s", host, port, strerror(errno));
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	greet(c->fd);
	fcntl(c->fd, F_SETFL, O_NONBLOCK);
	c->ring = calloc(depth, sizeof *c->ring);
	c->in = malloc(c->in_cap = 1 << 16);
}

static void flush(struct conn *c)
{
	while (c->out_at < c->out_len) {
		ssize_t done = write(c->fd, c->out + c->out_at, c->out_len - c->out_at);
		if (done < 0 && errno == EAGAIN)
			break;
		if (done < 0)
			die("sending: %s", strerror(errno));
		c->out_at += done;
	}
	if (c->out_at == c->out_len)
		c->out_at = c->out_len = 0;
	struct epoll_event event = { .events = EPOLLIN | (c->out_len ? EPOLLOUT : 0), .data.u32 = c - conns };
	static char *wants_out;
	if (!wants_out)
		wants_out = calloc(nr_conns, 1);
	if (wants_out[c - conns] != (c->out_len != 0)) {
		wants_out[c - conns] = c->out_len != 0;
		epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
	}
}

static int new_request(int64_t due, uint64_t draws)
{
	if (nr_requests == cap_requests)
		requests = realloc(requests, (cap_requests = 2 * cap_requests + 1024) * sizeof *requests);
	requests[nr_requests] = (struct request){ .due = due, .draws = draws, .conn = -1 };
	return nr_requests++;
}

static void begin_request(struct conn *c, int number)
{
	struct request *r = &requests[number];
	c->ring[(c->first + c->under_way++) % depth] = number;
	r->conn = c - conns;
	r->sent = now();
	send_request(c, r);
	flush(c);
}

// Takes what came on a connection; returns how many requests it finished.
static int receive(struct conn *c)
{
	int finished = 0;
	for (;;) {
		if (c->in_len == c->in_cap)
			c->in = realloc(c->in, c->in_cap *= 2);
		ssize_t got = read(c->fd, c->in + c->in_len, c->in_cap - c->in_len);
		if (got < 0 && errno == EAGAIN)
			break;
		if (got <= 0)
			die("the server closed a connection");
		c->in_len += got;
		if (c->in_len < c->in_cap)
			break;
	}
	size_t at = 0, size;
	int64_t at_time = now();
	while (at < c->in_len && (size = replies[proto](c->in + at, c->in_len - at))) {
		if (!c->under_way)
			die("a reply that nothing was sent for");
		requests[c->ring[c->first]].replied = at_time;
		c->first = (c->first + 1) % depth;
		c->under_way--;
		finished++;
		at += size;
	}
	memmove(c->in, c->in + at, c->in_len -= at);
	return finished;
}

static void option(const char *text)
{
	const char *value = strchr(text, '=');
	if (!value++)
		die("expected KEY=VALUE, found `%s`", text);
	size_t size = value - text - 1;
#define IS(name) (size == strlen(name) && !strncmp(text, name, size))
	if (IS("proto")) {
		for (proto = 0; proto < PROTOS && strcmp(value, proto_names[proto]); proto++)
			;
		if (proto == PROTOS)
			die("expected http, redis, memcached, postgres or mysql, found `%s`", value);
	} else if (IS("mode")) {
		closed = !strcmp(value, "closed");
		if (!closed && strcmp(value, "open"))
			die("expected open or closed, found `%s`", value);
	} else if (IS("request")) {
		const char *colon = strchr(value, ':');
		if (!colon || nr_kinds == 16 || atof(value) <= 0)
			die("expected request=WEIGHT:TEXT, at most 16 times, found `%s`", text);
		kinds[nr_kinds].weight = atof(value);
		kinds[nr_kinds++].text = colon + 1;
	} else if (IS("host")) host = value;
	else if (IS("user")) user = value;
	else if (IS("database")) database = value;
	else if (IS("out")) out_file = value;
	else if (IS("port")) port = atoi(value);
	else if (IS("connections")) nr_conns = atoi(value);
	else if (IS("depth")) depth = atoi(value);
	else if (IS("seed")) seed = atoll(value);
	else if (IS("rate")) rate = atof(value);
	else if (IS("seconds")) seconds = atof(value);
	else if (IS("think_ms")) think_ms = atof(value);
	else if (IS("n")) median_n = atof(value);
	else if (IS("sigma")) sigma = atof(value);
	else if (IS("keys")) keys = atof(value);
	else if (IS("drain")) drain = atof(value);
	else die("unknown key in `%s`", text);
}

static void write_log(void)
{
	char name[4096];
	snprintf(name, sizeof name, "%s.unfinished", out_file);
	FILE *log = fopen(out_file, "w"), *unfinished = fopen(name, "w");
	if (!log || !unfinished)
		die("%s: %s", out_file, strerror(errno));
	for (int i = 0; i < 2; i++)
		fprintf(i ? log : unfinished, "client,scheduled_us,sent_us,replied_us,kind\n");
	for (int i = 0; i < nr_requests; i++) {
		const struct request *r = &requests[i];
		fprintf(r->replied ? log : unfinished, "%d,%lld,%lld,%lld,%d\n", r->conn, (long long)r->due / 1000,
			(long long)r->sent / 1000, (long long)r->replied / 1000, r->kind);
	}
	if (fclose(log) || fclose(unfinished))
		die("%s: %s", out_file, strerror(errno));
}

int main(int count, char **words)
{
	for (int i = 1; i < count; i++)
		option(words[i]);
	if (proto == PROTOS || !port || !out_file || !nr_kinds || nr_conns < 1 || depth < 1)
		die("proto=, port=, out= and request= are needed");
	if (closed && depth > 1)
		die("a closed loop has one request under way on each connection");
	conns = calloc(nr_conns, sizeof *conns);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < nr_conns; i++) {
		dial(&conns[i]);
		struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };
		epoll_ctl(epoll_fd, EPOLL_CTL_ADD, conns[i].fd, &event);
	}
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	struct epoll_event tick = { .events = EPOLLIN, .data.u32 = UINT32_MAX };
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer, &tick);

	int64_t begin = now() + 20000000, end = begin + seconds * 1e9, armed = 0;
	printf("%lld\n", (long long)begin);
	fflush(stdout);
	uint64_t state = seed;
	if (closed)
		for (int i = 0; i < nr_conns; i++) {
			conns[i].draws = draw(&state);
			conns[i].next_due = begin + exponential(&conns[i].draws, think_ms * 1e6);
		}
	else
		for (double at = begin; (at += exponential(&state, 1e9 / rate)) < end;)
			new_request(at, draw(&state));
	int total = nr_requests, sent = 0, finished = 0, last = 0;
	for (;;) {
		int64_t t = now(), wake = end + drain * 1e9;
		if (t >= wake || (t >= end && finished == sent && (closed || sent == total)))
			break;
		if (closed) {
			for (int i = 0; i < nr_conns; i++) {
				struct conn *c = &conns[i];
				if (!c->next_due || c->next_due >= end)
					continue;
				if (c->next_due <= t) {
					int number = new_request(c->next_due, draw(&c->draws));
					c->next_due = 0;
					begin_request(c, number);
					sent++;
				} else if (c->next_due < wake) {
					wake = c->next_due;
				}
			}
		} else {
			// The connection after the last one that has room, so that all of them are
			// used.
			while (sent < total && requests[sent].due <= t) {
				int tried = 0;
				while (tried < nr_conns && conns[last].under_way == depth)
					last = (last + 1) % nr_conns, tried++;
				if (tried == nr_conns)
					break;
				begin_request(&conns[last], sent++);
				last = (last + 1) % nr_conns;
			}
			if (sent < total && requests[sent].due > t)
				wake = requests[sent].due;
		}
		if (t < end && end < wake)
			wake = end;
		if (wake != armed) {
			struct itimerspec at = { .it_value = { wake / 1000000000, wake % 1000000000 } };
			timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
			armed = wake;
		}
		struct epoll_event events[64];
		int found = epoll_wait(epoll_fd, events, 64, 1000);
		for (int i = 0; i < found; i++) {
			if (events[i].data.u32 == UINT32_MAX) {
				uint64_t times;
				if (read(timer, &times, sizeof times) > 0)
					armed = 0;
				continue;
			}
			struct conn *c = &conns[events[i].data.u32];
			if (events[i].events & EPOLLOUT)
				flush(c);
			int done = events[i].events & EPOLLIN ? receive(c) : 0;
			finished += done;
			if (closed && done)
				c->next_due = now() + exponential(&c->draws, think_ms * 1e6);
		}
	}
	write_log();
	return 0;
}
