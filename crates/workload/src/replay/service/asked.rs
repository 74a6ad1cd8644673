//! The requests of a service: from the client's log, or from the trace.
//!
//! # From the log
//!
//! The log has all times, if it is of these clients: four in five requests are sent while a client
//! is awake, and answered while one is. Where clients are on other machines, four in five replies
//! come at most 1 ms after a thread of the service that requests wake has run.
//!
//! # From sockets
//!
//! Where the recorder kept events of sockets, `exchanged` has the rules.
//!
//! # From wakeups
//!
//! A client that keeps a schedule is woken by timers. If at least four in five of those wakeups
//! that find the service asleep send it something, each such wakeup is a request, visible or not,
//! due when the timer woke the client. A message that the client sends at another time, while
//! nothing is under way, is one too.
//!
//! If four in five of the periods with one request have one reply, every reply has its own request.
//! A reply without a request then shows one that no timer led to. A reply in several pieces counts
//! once.
//!
//! * A client whose timer may be up to 1 ms late (`coarse`) sends all that fell due in a
//!   millisecond at once, and only the first message wakes the service: two requests were sent
//!   together.
//! * Any other client was awake when the request fell due: it ran, or waited for a CPU. The request
//!   is the first of its messages that no timer led to; if there is none, it was sent when the
//!   client got a CPU after its longest wait in the period. Its due time is drawn from that wait.
//!   In a recording of nginx and PHP 107 of 1734 requests show no timer, of which this finds 87.
//!
//! Some clients have timers that send nothing: every program in Go has a monitor thread that wakes
//! each 20 µs to 10 ms, and a millisecond early for every other timer. The *work* of a timer is the
//! CPU time from its wakeup to sleep, with that of the client's threads that it wakes in turn, one
//! of which may be the one that sends. Where fewer than four in five timers send, timers with at
//! least a certain work are taken to send. That threshold is the best one, and must select four in
//! five of the timers that send, and four in five selected ones must send. In a recording of a
//! client in Go, 670 of 6284 timers that found the service asleep sent something; 79 µs selects
//! them with 13 errors.
//!
//! Except for the services of `direct`, a trace does not show which reply belongs to which request.
//! A *period* lasts from the first wakeup of the service until all threads are asleep that clients
//! wake, that reply, or that exchange messages with these. In a period all requests are answered,
//! in the order of their arrival. (A client whose connections are all busy keeps requests back and
//! sends them when it has answers: if such a message follows, the period goes on.) Replies that
//! follow each other closely wake the client once. So every visible reply gets one request of the
//! period, and the other requests are divided among the replies in proportion to the client's work
//! for each. With fewer requests than replies, work alone decides. No request gets a reply from
//! before its arrival.
//!
//! A client has a reply when it has read it, not when it begins to run: its work from there until
//! it sleeps, or sends again, is reading. Requests that share a reply share that work in order.
//!
//! # Worked example
//!
//! In one period a client was woken by timers at 1, 2 and 3 ms, and by replies at 90 and 91 ms,
//! which it worked 40 and 22 µs for. Of three requests the first reply is given 1 + 1 · 40 / 62 =
//! 1.6, rounded to two, and the second the last. The client begins to run 2 µs after each reply, so
//! it has the three replies at 90.022, 90.042 and 91.024 ms.

mod busy;
mod dialogues;
mod direct;
mod exchanged;

use busy::{answered, client_work_ns, kept_back, last_end_ns, periods, sends, serving};
pub(super) use dialogues::in_parts;
use direct::Direct;
pub(super) use exchanged::from_sockets;

use super::super::activity::Draft;
use super::super::threads::ThreadId;
use super::super::timeline::median;
use super::clock::Clock;
use super::coarse::{self, Coarse};
use super::{Asked, Border, MESSAGES_MIN, Told};
use schedcast_sim::random;
use schedcast_trace::Request;
use std::collections::BTreeMap;

/// A message that a client had kept back follows an answer within this time, ns, and an answer
/// reaches another machine within this time.
const AT_ONCE_NS: u64 = 1_000_000;

/// A service answers in pieces if more than this percentage of the requests that were alone have
/// more than one reply.
const PIECES_PERCENT: usize = 1;
/// Two replies of an activation are pieces of one if there is less work between them than one part
/// in this many of the median work of a reply.
const PIECE_PART: u64 = 4;

/// At least four in five.
pub(super) fn most(count: usize, all: usize) -> bool {
    count * 5 >= all * 4
}

/// The requests of the log, in order of sending, and the connection of each. A log of whole
/// milliseconds does not show which request follows which reply: connections are left out then.
pub(super) fn from_log(border: &Border<'_>, drafts: &[Draft], clock: &Clock<'_>) -> Option<Told> {
    let evidence = border.evidence;
    let log = evidence.log?;
    let since_ns = |us: u64| (us as i64).saturating_mul(1000) - evidence.start_ns as i64;
    let length_ns = (evidence.end_ns - evidence.start_ns) as i64;
    let mut rows: Vec<&Request> = log
        .iter()
        .filter(|request| (0..length_ns).contains(&since_ns(request.replied_us)))
        .collect();
    rows.sort_by_key(|request| (request.sent_us, request.scheduled_us));
    // By connection: when the last reply came.
    let mut replied_us: BTreeMap<u32, u64> = BTreeMap::new();
    let asked: Vec<Asked> = rows
        .iter()
        .map(|request| {
            let before_us = replied_us.insert(request.client, request.replied_us);
            let free_us = before_us.unwrap_or(0).min(request.sent_us);
            Asked {
                sent_ns: since_ns(request.sent_us),
                due_ns: since_ns(request.scheduled_us),
                replied_ns: since_ns(request.replied_us) as u64,
                busy_ns: free_us.saturating_sub(request.scheduled_us) * 1000,
                ..arrival(0, 0)
            }
        })
        .collect();
    let own = border.of_clients(drafts);
    let is_awake = |at_ns: u64| {
        let woken = |draft: &usize| drafts[*draft].activation.woken_ns <= at_ns;
        let before = &own[..own.partition_point(woken)];
        // The clocks of log and trace are the same.
        let lasts = |draft: &usize| drafts[*draft].activation.lasts_to_logged(at_ns);
        before.iter().rev().take(border.clients.len()).any(lasts)
    };
    let awake = |one: &&Asked| {
        // Rounded down, and none is sent before the recording begins.
        let sent_ns = u64::try_from(one.sent_ns).map(|sent_ns| sent_ns + 999);
        is_awake(one.replied_ns) && sent_ns.is_ok_and(is_awake)
    };
    let repliers = border.repliers();
    let ran = |one: &&Asked| {
        let ended = clock.last_end_of_any_ns(repliers.keys().copied(), one.replied_ns);
        ended.is_some_and(|end_ns| end_ns + AT_ONCE_NS >= one.replied_ns)
    };
    let agreeing = match border.is_remote {
        true => asked.iter().filter(ran).count(),
        false => asked.iter().filter(awake).count(),
    };
    let tells = !Request::are_whole_milliseconds(log);
    let connections = tells.then(|| rows.iter().map(|request| request.client).collect());
    (asked.len() >= MESSAGES_MIN && most(agreeing, asked.len())).then_some(Told {
        asked,
        connections,
        by_log: true,
        ..Told::default()
    })
}

/// The requests that wakeups show, in order of sending.
pub(super) fn from_wakeups(border: &Border<'_>, drafts: &[Draft]) -> Option<Told> {
    if border.hides_replies {
        return None;
    }
    let (serving, passing) = serving(border);
    let prompted = Prompted::of(border, drafts);
    let kept_back = kept_back(border, drafts, &prompted);
    let awake = periods(border, drafts, &serving, &kept_back);
    let is_asleep = |at_ns: u64| last_end_ns(&awake, at_ns).is_none_or(|end_ns| end_ns < at_ns);
    let asleep = prompted.prompts.iter().filter(|one| is_asleep(one.due_ns));
    let least_work_ns = least_work_ns(asleep)?;
    let sending = prompted.prompts.iter().filter(|one| one.message.is_some());
    let coarse = Coarse::of(sending.filter_map(|one| one.slept_ns));
    let late_ns = |slept_ns: Option<u64>, due_ns: u64| {
        let known = coarse.zip(slept_ns);
        known.map_or(0, |(coarse, slept_ns)| coarse.late_ns(slept_ns, due_ns))
    };
    let mut arrivals: Vec<Due> = Vec::new();
    for one in &prompted.prompts {
        let sent_ns = match one.message {
            Some(message) => border.time_ns(message),
            None if one.work_ns < least_work_ns => continue,
            None if is_asleep(one.due_ns) && is_asleep(one.end_ns) => continue,
            None => one.end_ns,
        };
        let asked = Asked {
            late_ns: late_ns(one.slept_ns, one.due_ns),
            ..arrival(sent_ns, one.due_ns)
        };
        arrivals.push(Due {
            asked,
            slept_ns: one.slept_ns,
            message: one.message,
        });
    }
    let spans = periods(border, drafts, &passing, &kept_back);
    let direct = match coarse {
        None => Direct::of(border, drafts, &prompted, &spans),
        Some(_) => None,
    };
    let mut extra = prompted.extra;
    if direct.is_some() {
        extra.extend(prompted.later);
    }
    let mut busy = split(border, drafts, &spans, arrivals, extra, direct.is_some());
    for period in &mut busy {
        match direct {
            Some(_) => period.add_messages(),
            None => period.add_lone(border, late_ns),
        }
    }
    join_pieces(drafts, &mut busy);
    let alone = busy.iter().filter(|period| period.requests.len() == 1);
    let alone = alone.filter(|period| !period.replies.is_empty());
    let (single, all) = alone.fold((0, 0), |(single, all), period| {
        (single + usize::from(period.replies.len() == 1), all + 1)
    });
    let waits = coarse.is_none().then(|| waits(border, drafts));
    let mut asked = Vec::new();
    let mut left = Vec::new();
    for mut period in busy {
        if most(single, all) {
            period.complete(border, waits.as_deref(), late_ns);
        }
        let mut requests = std::mem::take(&mut left);
        requests.append(&mut period.requests);
        if let Some(direct) = &direct {
            direct.pair(&mut requests, &mut period.replies, &mut asked);
        }
        if period.replies.is_empty() {
            left = requests;
            continue;
        }
        let requests = requests.into_iter().map(|one| one.asked).collect();
        asked.extend(answered(border, drafts, requests, &period.replies));
    }
    if direct.is_some() {
        asked.sort_by_key(|one| one.sent_ns);
    }
    (asked.len() >= MESSAGES_MIN).then_some(Told {
        asked,
        coarse,
        ..Told::default()
    })
}

/// Requests, messages and replies by period; unless `all`, those of a period without a reply belong
/// to the next one.
fn split(
    border: &Border<'_>,
    drafts: &[Draft],
    spans: &[(u64, u64)],
    mut arrivals: Vec<Due>,
    mut extra: Vec<Extra>,
    all: bool,
) -> Vec<Period> {
    arrivals.sort_by_key(|one| one.asked.sent_ns);
    extra.sort_unstable_by_key(|one| one.sent_ns);
    let client_work_ns = client_work_ns(border, drafts);
    let mut replies = border.replies.iter().copied().peekable();
    let (mut arrivals, mut extra) = (
        arrivals.into_iter().peekable(),
        extra.into_iter().peekable(),
    );
    let mut busy = Vec::new();
    let mut period = Period::default();
    for &(from_ns, to_ns) in spans {
        while let Some(reply) = replies.next_if(|reply| border.time_ns(*reply) <= to_ns) {
            let weight = client_work_ns.get(&reply).copied().unwrap_or(1).max(1);
            period.replies.push((reply, weight));
        }
        while let Some(one) = arrivals.next_if(|one| one.asked.sent_ns <= to_ns as i64) {
            period.requests.push(one);
        }
        period.requests.sort_by_key(|one| one.asked.sent_ns);
        while let Some(one) = extra.next_if(|one| one.sent_ns <= to_ns) {
            if one.sent_ns >= from_ns.saturating_sub(AT_ONCE_NS) {
                period.extra.push(one);
            }
        }
        if all || !period.replies.is_empty() {
            busy.push(std::mem::take(&mut period));
        }
    }
    busy
}

/// A message that no timer led to, or a later one of a client that a timer woke.
#[derive(Clone, Copy)]
struct Extra {
    message: usize,
    sent_ns: u64,
    /// When the client's thread that sends it woke, or sent the one before.
    woken_ns: u64,
    /// How long the thread had slept whose wakeup led to it.
    slept_ns: Option<u64>,
}

/// A request that falls due.
#[derive(Clone, Copy)]
struct Due {
    asked: Asked,
    /// How long the client's thread had slept that a timer woke for it.
    slept_ns: Option<u64>,
    /// The waking of the service that is its message, where that is visible.
    message: Option<usize>,
}

impl Due {
    /// A request that its client was awake for.
    fn awake(asked: Asked, message: Option<usize>) -> Self {
        let slept_ns = None;
        Self {
            asked,
            slept_ns,
            message,
        }
    }
}

/// From when the service got something to do to when it was done.
#[derive(Default)]
struct Period {
    /// In order of sending.
    requests: Vec<Due>,
    extra: Vec<Extra>,
    /// In order of time, each with the work that its client did for it.
    replies: Vec<(usize, u64)>,
}

impl Period {
    fn insert(&mut self, request: Due) {
        let place = self
            .requests
            .partition_point(|one| one.asked.sent_ns <= request.asked.sent_ns);
        self.requests.insert(place, request);
    }

    /// Requests that were sent by `at_ns`.
    fn sent_by(&self, at_ns: u64) -> usize {
        let sent = |one: &Due| one.asked.sent_ns <= at_ns as i64;
        self.requests.partition_point(sent)
    }

    /// Messages that no timer led to are requests while nothing is under way.
    fn add_lone(&mut self, border: &Border<'_>, late_ns: impl Fn(Option<u64>, u64) -> u64) {
        let extra = std::mem::take(&mut self.extra);
        for one in extra {
            let answered = self.replies.iter();
            let answered = answered.filter(|(reply, _)| border.time_ns(*reply) <= one.sent_ns);
            if self.sent_by(one.sent_ns) > answered.count() {
                self.extra.push(one);
                continue;
            }
            // Its client would have been woken for it by a timer, but was woken before.
            let slept_ns = one.slept_ns.filter(|slept_ns| coarse::is_last(*slept_ns));
            let asked = Asked {
                late_ns: late_ns(slept_ns, one.sent_ns),
                ..arrival(one.sent_ns, one.sent_ns)
            };
            self.insert(Due {
                asked,
                slept_ns,
                message: Some(one.message),
            });
        }
    }

    /// Each message is a request. One of a client that has kept requests back is taken for one of
    /// those.
    fn add_messages(&mut self) {
        let mut kept = 0;
        for (number, one) in std::mem::take(&mut self.extra).into_iter().enumerate() {
            let before = &self.requests[..self.sent_by(one.sent_ns)];
            let unsent = before.iter().filter(|one| one.message.is_none()).count();
            if unsent > kept {
                kept += 1;
                continue;
            }
            let asked = due_between(one.woken_ns, one.sent_ns, number);
            self.insert(Due::awake(asked, Some(one.message)));
        }
    }

    /// Every reply has its own request: adds those that are missing when it comes. `waits` are
    /// those of a client whose timers are not coarse.
    fn complete(
        &mut self,
        border: &Border<'_>,
        waits: Option<&[Wait]>,
        late_ns: impl Fn(Option<u64>, u64) -> u64,
    ) {
        let from_ns = self
            .requests
            .first()
            .map(|one| one.asked.sent_ns.max(0) as u64);
        for number in 1..=self.replies.len() {
            let at_ns = border.time_ns(self.replies[number - 1].0);
            let sent = self.sent_by(at_ns);
            if sent >= number {
                continue;
            }
            let first = self
                .extra
                .first()
                .copied()
                .filter(|one| one.sent_ns <= at_ns);
            let waited = waits.zip(from_ns).and_then(|(waits, from_ns)| {
                let reached = waits.partition_point(|wait| wait.ran_ns <= at_ns);
                let own = waits[..reached].iter().rev();
                let own = own.take_while(|wait| wait.ran_ns >= from_ns);
                own.max_by_key(|wait| wait.ran_ns - wait.woken_ns).copied()
            });
            let missing = match (first, waited) {
                (Some(one), _) if waits.is_some() => {
                    self.extra.remove(0);
                    let asked = due_between(one.woken_ns, one.sent_ns, number);
                    Due::awake(asked, Some(one.message))
                }
                (_, Some(wait)) => {
                    Due::awake(due_between(wait.woken_ns, wait.ran_ns, number), None)
                }
                _ if sent == 0 => continue,
                // It was sent with the one before.
                _ => {
                    let before = self.requests[sent - 1];
                    let number = before.asked.sent_ns as u64 + self.requests.len() as u64;
                    let late_ns = late_ns(before.slept_ns, number);
                    let asked = Asked {
                        late_ns,
                        ..before.asked
                    };
                    Due {
                        asked,
                        message: None,
                        ..before
                    }
                }
            };
            self.insert(missing);
        }
    }
}

/// Some services answer in pieces, each of which may wake the client: the one that completes the
/// reply counts. Where some of the requests that were alone have more than one, a reply is a piece
/// of the next if the same activation sends both with little work in between.
fn join_pieces(drafts: &[Draft], busy: &mut [Period]) {
    let mut places: BTreeMap<usize, (usize, u64)> = BTreeMap::new();
    for (index, draft) in drafts.iter().enumerate() {
        places.extend(
            draft
                .wakes()
                .map(|(into_ns, waking)| (waking, (index, into_ns))),
        );
    }
    let alone = busy.iter().filter(|period| period.requests.len() == 1);
    let first = alone.clone().filter_map(|period| {
        let (_, into_ns) = places.get(&period.replies.first()?.0)?;
        Some(*into_ns)
    });
    let mut work_ns: Vec<u64> = first.collect();
    let Some(median_ns) = median(&mut work_ns) else {
        return;
    };
    let is_piece = |one: usize, next: usize| match (places.get(&one), places.get(&next)) {
        (Some((draft, into_ns)), Some((other, next_ns))) => {
            draft == other && next_ns.saturating_sub(*into_ns) < median_ns / PIECE_PART
        }
        _ => false,
    };
    let in_pieces = alone.filter(|period| {
        let mut pairs = period.replies.windows(2);
        pairs.any(|pair| is_piece(pair[0].0, pair[1].0))
    });
    if in_pieces.count() * 100 <= work_ns.len() * PIECES_PERCENT {
        return;
    }
    for period in busy {
        let mut whole: Vec<(usize, u64)> = Vec::with_capacity(period.replies.len());
        for (reply, weight) in std::mem::take(&mut period.replies) {
            match whole.last_mut() {
                Some(last) if is_piece(last.0, reply) => *last = (reply, last.1 + weight),
                _ => whole.push((reply, weight)),
            }
        }
        period.replies = whole;
    }
}

/// A client's thread that is woken and gets a CPU.
#[derive(Clone, Copy)]
struct Wait {
    woken_ns: u64,
    ran_ns: u64,
}

/// How the client's threads waited for a CPU, in the order in which they got it.
fn waits(border: &Border<'_>, drafts: &[Draft]) -> Vec<Wait> {
    let own = border.of_clients(drafts).into_iter();
    let wait = |draft: usize| {
        let activation = &drafts[draft].activation;
        let ran_ns = activation.first_run_ns?;
        Some(Wait {
            woken_ns: activation.woken_ns.min(ran_ns),
            ran_ns,
        })
    };
    let mut waits: Vec<Wait> = own.filter_map(wait).collect();
    waits.sort_unstable_by_key(|wait| wait.ran_ns);
    waits
}

/// A request that fell due, at some time, while its client was awake, and was sent at `to_ns`.
fn due_between(from_ns: u64, to_ns: u64, number: usize) -> Asked {
    let key = to_ns + number as u64;
    let mut stream = random::stream(0, random::name_hash("due while awake"), key);
    let wide = u128::from(random::draw(&mut stream)) * u128::from(to_ns - from_ns.min(to_ns));
    arrival(to_ns, from_ns.min(to_ns) + (wide >> u64::BITS) as u64)
}

/// A timer that wakes a client.
struct Prompt {
    due_ns: u64,
    /// How long the thread had slept that it woke.
    slept_ns: Option<u64>,
    /// CPU time of the client's threads until all of them sleep again.
    work_ns: u64,
    end_ns: u64,
    /// The first waking of a thread of the service by one of them.
    message: Option<usize>,
}

/// Timers of clients, and the messages that they led to.
struct Prompted {
    prompts: Vec<Prompt>,
    /// Messages that no timer led to.
    extra: Vec<Extra>,
    /// Messages behind the first that a timer led to.
    later: Vec<Extra>,
    /// By draft of a client: the position of the timer that led to it.
    of_draft: BTreeMap<usize, usize>,
}

impl Prompted {
    /// Threads of a client wake each other: who sends is often not the one that the timer woke.
    fn of(border: &Border<'_>, drafts: &[Draft]) -> Self {
        let own = border.of_clients(drafts);
        let mut waker = BTreeMap::new();
        for draft in &own {
            waker.extend(drafts[*draft].wakes().map(|(_, waking)| (waking, *draft)));
        }
        let mut prompted = Self {
            prompts: Vec::new(),
            extra: Vec::new(),
            later: Vec::new(),
            of_draft: BTreeMap::new(),
        };
        let mut ended_ns: BTreeMap<ThreadId, u64> = BTreeMap::new();
        let mut of_first_ns = BTreeMap::new();
        for index in own {
            let draft = &drafts[index];
            let activation = &draft.activation;
            let slept_ns = ended_ns
                .get(&activation.thread)
                .and_then(|ended_ns| activation.woken_ns.checked_sub(*ended_ns));
            ended_ns.extend(activation.end_ns.map(|end_ns| (activation.thread, end_ns)));
            let before = border
                .waking_of(index)
                .and_then(|waking| waker.get(&waking));
            let first_ns = before.map_or(slept_ns, |before| of_first_ns[before]);
            of_first_ns.insert(index, first_ns);
            let led = before
                .and_then(|before| prompted.of_draft.get(before))
                .copied();
            let end_ns = activation.end_ns.unwrap_or(activation.woken_ns);
            let position = match led {
                _ if Border::is_prompt(draft) => {
                    prompted.prompts.push(Prompt {
                        due_ns: activation.woken_ns,
                        slept_ns,
                        work_ns: 0,
                        end_ns,
                        message: None,
                    });
                    prompted.prompts.len() - 1
                }
                Some(position) => position,
                None => {
                    let messages = sends(border, draft);
                    prompted.extra.extend(messages.map(|message| Extra {
                        message,
                        sent_ns: border.time_ns(message),
                        woken_ns: activation.woken_ns,
                        slept_ns: first_ns,
                    }));
                    continue;
                }
            };
            prompted.of_draft.insert(index, position);
            let prompt = &mut prompted.prompts[position];
            prompt.work_ns += activation.executed_ns;
            prompt.end_ns = prompt.end_ns.max(end_ns);
            let mut woken_ns = activation.woken_ns;
            for message in sends(border, draft) {
                let sent_ns = border.time_ns(message);
                match prompt.message {
                    None => prompt.message = Some(message),
                    Some(_) => prompted.later.push(Extra {
                        message,
                        sent_ns,
                        woken_ns,
                        slept_ns: None,
                    }),
                }
                woken_ns = sent_ns;
            }
        }
        prompted
    }
}

/// The threshold of work from which on a timer sends a request, by timers that find the service
/// asleep. `None` if their work does not separate those that send something.
fn least_work_ns<'a>(asleep: impl Iterator<Item = &'a Prompt>) -> Option<u64> {
    let mut tried: Vec<(u64, bool)> = asleep
        .map(|one| (one.work_ns, one.message.is_some()))
        .collect();
    let sending = tried.iter().filter(|(_, sends)| *sends).count();
    if tried.len() < MESSAGES_MIN {
        return None;
    }
    if most(sending, tried.len()) {
        return Some(0);
    }
    tried.sort_unstable();
    // From the first of those with the same work on, all are believed to send.
    let mut sending_before = 0;
    let mut best: Option<(usize, usize, usize, u64)> = None;
    for (place, (work_ns, sends)) in tried.iter().enumerate() {
        let (right, believed) = (sending - sending_before, tried.len() - place);
        let wrong = sending_before + believed - right;
        let begins = place == 0 || tried[place - 1].0 < *work_ns;
        if begins && best.is_none_or(|(least, ..)| wrong < least) {
            best = Some((wrong, right, believed, *work_ns));
        }
        sending_before += usize::from(*sends);
    }
    let (_, right, believed, work_ns) = best?;
    let tells = right >= MESSAGES_MIN && most(right, believed) && most(right, sending);
    tells.then_some(work_ns)
}

/// Notes the requests that their thread receives and answers before it receives another one.
pub(super) fn alone(asked: &mut [Asked]) {
    let mut taken: BTreeMap<ThreadId, Vec<u64>> = BTreeMap::new();
    for (at_ns, by) in asked.iter().filter_map(|one| one.taken) {
        taken.entry(by).or_default().push(at_ns);
    }
    for of_thread in taken.values_mut() {
        of_thread.sort_unstable();
    }
    for one in asked {
        let (Some((at_ns, by)), Some(answer)) = (one.taken, one.answer) else {
            continue;
        };
        let of_thread = &taken[&by];
        let from = of_thread.partition_point(|ns| *ns <= at_ns);
        let next_ns = of_thread.get(from);
        let is_alone = by == answer.by && next_ns.is_none_or(|ns| *ns > answer.at_ns);
        one.taken_alone_ns = is_alone.then_some(at_ns);
    }
}

pub(super) fn arrival(sent_ns: u64, due_ns: u64) -> Asked {
    Asked {
        sent_ns: sent_ns as i64,
        due_ns: due_ns as i64,
        replied_ns: 0,
        late_ns: 0,
        busy_ns: 0,
        reply: None,
        answer: None,
        taken: None,
        taken_alone_ns: None,
        handed_ns: None,
        after: None,
        first: None,
        goes_on: false,
        keeps_schedule: false,
        kind: 0,
    }
}
