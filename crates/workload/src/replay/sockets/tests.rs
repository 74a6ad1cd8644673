//! Events of sockets, and the requests that they show.

use super::*;

const CLIENT: ThreadId = ThreadId(0);
const SERVER: ThreadId = ThreadId(1);
/// The client's socket and the server's.
const ENDS: [u64; 2] = [0xa, 0xb];

type Use = (u64, ThreadId, AtSocket, u64);

fn uses(all: &[Use]) -> Vec<SocketUse> {
    let one = |(time_us, thread, what, socket): &Use| SocketUse {
        time_ns: time_us * 1000,
        thread: *thread,
        socket: (*socket).into(),
        what: *what,
    };
    all.iter().map(one).collect()
}

fn found(all: &[Use]) -> Vec<(u64, u64, u64)> {
    let sides = Sides {
        clients: &[CLIENT].into(),
        inside: &[false, true],
    };
    let us = |one: &Exchanged| [one.sent_ns, one.replied_ns, one.free_ns].map(|ns| ns / 1000);
    let (all, _) = Messages::of(&uses(all), 0).exchanged(&sides);
    all.iter()
        .map(us)
        .map(|[sent, replied, free]| (sent, replied, free))
        .collect()
}

fn sent(at_us: u64, by: ThreadId, from: usize) -> [Use; 2] {
    [
        (at_us, by, AtSocket::Arrived, ENDS[1 - from]),
        (at_us + 4, by, AtSocket::Sent, ENDS[from]),
    ]
}

fn received(at_us: u64, by: ThreadId, end: usize) -> Use {
    (at_us, by, AtSocket::Received, ENDS[end])
}

fn asked(at_us: u64) -> Vec<Use> {
    let mut uses: Vec<Use> = sent(at_us, CLIENT, 0).into();
    uses.push(received(at_us + 10, SERVER, 1));
    uses
}

#[test]
fn a_request_is_answered_by_the_last_message_before_the_next_one() {
    let mut uses = asked(1000);
    uses.extend(sent(1200, SERVER, 1));
    uses.push(received(1250, CLIENT, 0));
    uses.extend(sent(1300, SERVER, 1));
    uses.push(received(1350, CLIENT, 0));
    uses.extend(asked(2000));
    uses.extend(sent(2100, SERVER, 1));
    assert_eq!(found(&uses), [(1000, 1350, 0), (2000, 2100, 1350)]);
    uses.extend(asked(3000));
    assert_eq!(found(&uses).len(), 2, "it has no answer");
}

/// One softirq delivers the client's message, another one comes from a network card.
#[test]
fn a_softirq_that_delivers_a_message_wakes_for_its_sender() {
    let waking = |time_us: u64| Waking {
        time_ns: time_us * 1000,
        cpu: 0,
        wakee: SERVER,
        source: Source::SOFTIRQ,
        under: Some(CLIENT),
        remote: false,
    };
    let mut wakings = [waking(1001), waking(2000)];
    Messages::of(&uses(&sent(1000, CLIENT, 0)), 0).claim(&mut wakings, 0);
    let sources = wakings.map(|waking| waking.source);
    assert_eq!(sources, [Source::Thread(CLIENT), Source::SOFTIRQ]);
}

/// The server preempts the client before that has left its call.
#[test]
fn data_comes_before_its_sender_says_so() {
    let [arrived, left] = sent(1000, CLIENT, 0);
    let mut uses = vec![arrived, received(1050, SERVER, 1)];
    uses.extend(sent(1100, SERVER, 1));
    uses.push((1200, left.1, left.2, left.3));
    assert_eq!(found(&uses), [(1000, 1100, 0)]);
}

/// lighttpd answers `ab` so: head and file wait in the socket until it is shut down.
#[test]
fn what_leaves_after_its_sender_says_so_is_no_part_of_the_next_message() {
    const OTHER: [u64; 2] = [0xc, 0xd];
    let mut uses = asked(1000);
    uses.push((1020, SERVER, AtSocket::Sent, ENDS[1]));
    uses.push((1030, SERVER, AtSocket::Arrived, ENDS[0]));
    uses.push(received(1040, CLIENT, 0));
    uses.push((1050, CLIENT, AtSocket::Arrived, OTHER[1]));
    uses.push((1054, CLIENT, AtSocket::Sent, OTHER[0]));
    uses.push((1060, SERVER, AtSocket::Received, OTHER[1]));
    uses.push((1070, SERVER, AtSocket::Sent, OTHER[1]));
    assert_eq!(found(&uses), [(1000, 1040, 0), (1050, 1070, 0)]);
}

/// One client closes its connection before the server answers, another one before it receives
/// the answer. The kernel gives the first one's socket to a new connection.
#[test]
fn clients_that_close_before_they_have_the_answer_gave_up() {
    let given_up = |all: &[Use]| {
        let sides = Sides {
            clients: &[CLIENT].into(),
            inside: &[false, true],
        };
        let (all, closed) = Messages::of(&uses(all), 0).exchanged(&sides);
        unread(&all) + closed
    };
    let ask = |at_us, [client, server]: [u64; 2]| -> [Use; 3] {
        [
            (at_us, CLIENT, AtSocket::Arrived, server),
            (at_us + 4, CLIENT, AtSocket::Sent, client),
            (at_us + 10, SERVER, AtSocket::Received, server),
        ]
    };
    let mut uses: Vec<Use> = ask(1000, [0xa, 0xb]).into();
    uses.extend(ask(1100, [0xc, 0xd]));
    // A server that sends to a closed socket reaches nobody.
    uses.push((1200, SERVER, AtSocket::Sent, 0xd));
    uses.extend(ask(1300, [0xa, 0xe]));
    assert_eq!(given_up(&uses), 1, "the other may have its answer later");
    uses.push((1400, SERVER, AtSocket::Sent, 0xe));
    uses.push((1410, CLIENT, AtSocket::Received, 0xa));
    assert_eq!(given_up(&uses), 2);
}

/// TLS ends with a message that has no answer. The next connection has the same two sockets.
#[test]
fn a_new_connection_begins_where_its_client_connects() {
    let dialogue = |at_us: u64| -> Vec<Use> {
        let mut uses: Vec<Use> = vec![(at_us, CLIENT, AtSocket::Connects, ENDS[0])];
        uses.extend(asked(at_us + 50));
        uses.extend(sent(at_us + 100, SERVER, 1));
        uses.push(received(at_us + 150, CLIENT, 0));
        uses.extend(asked(at_us + 400));
        uses
    };
    let uses = [dialogue(1000), dialogue(2000)].concat();
    let sides = Sides {
        clients: &[CLIENT].into(),
        inside: &[false, true],
    };
    let (all, given_up) = Messages::of(&self::uses(&uses), 0).exchanged(&sides);
    let us = |one: &Exchanged| {
        (
            one.lifetime.map(|one| one.opened_ns / 1000),
            one.sent_ns / 1000,
        )
    };
    let times: Vec<_> = all.iter().map(us).collect();
    assert_eq!(times, [(Some(1000), 1050), (Some(2000), 2050)]);
    assert_eq!(given_up, 0);
}

/// `nc -N` closes its end when it has sent, and reads the answer then. The server has the
/// address of the client's socket for its own next connection.
#[test]
fn a_client_that_has_closed_its_own_end_gets_an_answer() {
    let mut uses: Vec<Use> = vec![(1000, CLIENT, AtSocket::Connects, ENDS[0])];
    uses.extend(asked(1050));
    uses.push((1070, CLIENT, AtSocket::Closes, ENDS[0]));
    uses.extend(sent(1100, SERVER, 1));
    uses.push(received(1150, CLIENT, 0));
    uses.push((1500, SERVER, AtSocket::Received, ENDS[0]));
    uses.push((1510, SERVER, AtSocket::Closes, ENDS[0]));
    uses.push((1600, SERVER, AtSocket::Received, ENDS[0]));
    let sides = Sides {
        clients: &[CLIENT].into(),
        inside: &[false, true],
    };
    let (all, _) = Messages::of(&self::uses(&uses), 0).exchanged(&sides);
    assert_eq!((all.len(), all[0].replied_ns), (1, 1_150_000));
    assert_eq!(all[0].lifetime.unwrap().closed_ns(), Some(1_150_000));
}

#[test]
fn a_listener_that_data_come_at_gets_none() {
    let [arrived, left] = sent(1000, CLIENT, 0);
    let mut uses = vec![arrived, (1002, CLIENT, AtSocket::Arrived, 0x1), left];
    uses.push(received(1010, SERVER, 1));
    uses.extend(sent(1100, SERVER, 1));
    assert_eq!(found(&uses), [(1000, 1100, 0)]);
    let messages = Messages::of(&self::uses(&uses), 0);
    assert_eq!(messages.connects(&[CLIENT].into()), 1);
}

#[test]
fn a_request_in_pieces_is_one_and_two_that_overlap_are_two() {
    let mut uses: Vec<Use> = sent(1000, CLIENT, 0).into();
    uses.extend(asked(1010));
    uses.extend(asked(1500));
    uses.extend(sent(1600, SERVER, 1));
    uses.push(received(1700, CLIENT, 0));
    assert_eq!(found(&uses), [(1000, 1700, 0), (1500, 1700, 1700)]);
}

/// Two clients of one server: their sockets and the server's.
const DATAGRAM_ENDS: [u64; 3] = [0xa1, 0xa2, 0xb];

fn datagram(at_us: u64, by: ThreadId, from: u64, to: u64) -> [Use; 2] {
    [
        (at_us, by, AtSocket::Arrived, to),
        (at_us + 4, by, AtSocket::Sent, from),
    ]
}

/// No event tells of the arrival of the second datagram, nor of those of the replies.
#[test]
fn datagrams_are_received_in_the_order_in_which_they_came() {
    let [first, second, server] = DATAGRAM_ENDS;
    let got = |at_us, by, socket| (at_us, by, AtSocket::ReceivedDatagram, socket);
    let mut uses: Vec<Use> = Vec::new();
    for (at_us, client) in [(100, second), (200, first)] {
        uses.extend(datagram(at_us, CLIENT, client, server));
        uses.push(got(at_us + 10, SERVER, server));
        uses.extend(datagram(at_us + 20, SERVER, server, client));
        uses.push(got(at_us + 30, CLIENT, client));
    }
    uses.extend(datagram(1000, CLIENT, first, server));
    uses.push((1010, CLIENT, AtSocket::Sent, second));
    uses.push(got(1100, SERVER, server));
    uses.push((1120, SERVER, AtSocket::Sent, server));
    uses.push(got(1200, SERVER, server));
    uses.push((1220, SERVER, AtSocket::Sent, server));
    uses.push(got(1300, CLIENT, first));
    uses.push(got(1400, CLIENT, second));
    let times: Vec<_> = found(&uses)
        .into_iter()
        .map(|(sent, replied, _)| (sent, replied))
        .collect();
    assert_eq!(times[2..], [(1000, 1300), (1010, 1400)]);
}

/// The first datagram is lost: the server receives the second, and its reply tells whose it was.
#[test]
fn a_lost_datagram_does_not_move_the_later_ones() {
    let [first, second, server] = DATAGRAM_ENDS;
    let got = |at_us, by, socket| (at_us, by, AtSocket::ReceivedDatagram, socket);
    let mut uses: Vec<Use> = datagram(1000, CLIENT, first, server).into();
    for at_us in [2000, 3000] {
        uses.extend(datagram(at_us, CLIENT, second, server));
        uses.push(got(at_us + 10, SERVER, server));
        uses.extend(datagram(at_us + 20, SERVER, server, second));
        uses.push(got(at_us + 30, CLIENT, second));
    }
    let sides = Sides {
        clients: &[CLIENT].into(),
        inside: &[false, true],
    };
    let (all, given_up) = Messages::of(&self::uses(&uses), 0).exchanged(&sides);
    let taken: Vec<_> = all
        .iter()
        .map(|one| (one.sent_ns / 1000, one.taken.0 / 1000))
        .collect();
    assert_eq!(taken, [(2000, 2020), (3000, 3010)]);
    assert_eq!(given_up, 0, "it may be lost, or want no reply");
}

/// As those of statistics. One that has a reply all the same gets it.
#[test]
fn datagrams_without_replies_take_none_from_others() {
    let [client, _, server] = DATAGRAM_ENDS;
    let got = |at_us, by, socket| (at_us, by, AtSocket::ReceivedDatagram, socket);
    let mut uses: Vec<Use> = Vec::new();
    let mut asks = |at_us: u64, is_answered: bool| {
        uses.extend(datagram(at_us, CLIENT, client, server));
        uses.push(got(at_us + 10, SERVER, server));
        if is_answered {
            uses.extend(datagram(at_us + 20, SERVER, server, client));
            uses.push(got(at_us + 30, CLIENT, client));
        }
    };
    asks(100, true);
    (0..2000).for_each(|row| asks(1000 + 50 * row, false));
    let last_us = [200_000, 200_100, 200_200];
    last_us.into_iter().for_each(|at_us| asks(at_us, true));
    let times: Vec<_> = found(&uses).iter().map(|one| (one.0, one.1)).collect();
    let all = [(100, 130), (200_100, 200_130), (200_200, 200_230)];
    assert_eq!(
        [times[0], times[2], times[3]],
        all,
        "one reply takes the wrong one"
    );
    assert_eq!(times.len(), 4);
}

/// The server greets first, as those of mail and MySQL do.
#[test]
fn a_backend_is_whom_the_group_connects_to() {
    let greeted = |connector| -> Vec<Use> {
        let mut uses: Vec<Use> = vec![(1000, connector, AtSocket::Connects, ENDS[0])];
        uses.extend(sent(1100, SERVER, 1));
        uses.push(received(1150, CLIENT, 0));
        uses.extend(asked(1200));
        uses
    };
    let connectors = |all: &[Use]| {
        Messages::of(&uses(all), 0)
            .contacts
            .connectors(&[false, true])
    };
    assert_eq!(connectors(&greeted(CLIENT)), [(CLIENT, true)]);
    assert_eq!(connectors(&greeted(SERVER)), [(CLIENT, false)]);
    assert_eq!(connectors(&asked(1000)), [], "who made it is not known");
}

#[test]
fn the_beginning_and_the_end_of_a_connection_have_times() {
    let uses = uses(&[
        (1000, CLIENT, AtSocket::Connects, ENDS[0]),
        (1900, CLIENT, AtSocket::Closes, ENDS[0]),
        (2000, CLIENT, AtSocket::Connects, ENDS[0]),
        // The server ends this one.
        (2900, SERVER, AtSocket::Closes, ENDS[0]),
    ]);
    let messages = Messages::of(&uses, 0);
    let [by_client, by_server] =
        [CLIENT, SERVER].map(|by| messages.changed_ns(&BTreeSet::from([by])));
    assert_eq!(by_client, [1_000_000, 1_900_000, 2_000_000]);
    assert_eq!(by_server, [2_900_000]);
}
