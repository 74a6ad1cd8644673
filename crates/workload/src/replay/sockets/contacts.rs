//! Which threads made the connections across the border of a group.
//!
//! Messages are looked at once, whatever the number of groups. Worked example: on a node with 300
//! pods a client sends 10,000 messages over four connections that it made to one of them. These are
//! four contacts. Each group looks at those of its own threads: one at these four, the others at
//! none.

use super::super::model::Thread;
use super::super::threads::ThreadId;
use super::{Lifetime, Message};
use schedcast_trace::Socket;
use std::collections::{BTreeMap, BTreeSet};

/// A connection that the recording shows opened: the socket that was connected, and when.
type Opened = (Socket, u64);

/// Two threads that exchange messages over a connection.
struct Contact {
    opened: Opened,
    made_by: ThreadId,
    ends: [ThreadId; 2],
}

/// Contacts of all threads.
#[derive(Default)]
pub(in super::super) struct Contacts {
    /// In the order of their first messages.
    all: Vec<Contact>,
    /// By thread: places in `all`, ascending.
    of_thread: BTreeMap<ThreadId, Vec<usize>>,
}

impl Contacts {
    /// Those of messages in order of time. `lifetime` is that of the connection that a socket has
    /// at a time.
    pub(super) fn of(sent: &[Message], lifetime: impl Fn(Socket, u64) -> Option<Lifetime>) -> Self {
        let mut seen: BTreeSet<(Opened, [ThreadId; 2])> = BTreeSet::new();
        let mut contacts = Self::default();
        for message in sent {
            let Some(got_by) = message.got_by else {
                continue;
            };
            let ends = [message.from, message.to].into_iter();
            let opened = ends.filter_map(|end| Some((end, lifetime(end, message.at_ns)?)));
            let Some((end, made)) = opened.max_by_key(|(_, one)| one.opened_ns) else {
                continue;
            };
            let opened = (end, made.opened_ns);
            let ends = [message.by.min(got_by), message.by.max(got_by)];
            if ends[0] != ends[1] && seen.insert((opened, ends)) {
                for thread in ends {
                    let own = contacts.of_thread.entry(thread).or_default();
                    own.push(contacts.all.len());
                }
                contacts.all.push(Contact {
                    opened,
                    made_by: made.by,
                    ends,
                });
            }
        }
        contacts
    }

    /// For each connection that a thread inside a group and one outside made: the latter, and
    /// whether that one connected. Whose message comes first says nothing: a server may greet its
    /// clients, and a request may have been under way when the recording began.
    pub(super) fn connectors(&self, inside: &[bool]) -> Vec<(ThreadId, bool)> {
        let members = self.of_thread.iter().filter(|(id, _)| inside[id.index()]);
        let mut own: Vec<usize> = members.flat_map(|(_, own)| own).copied().collect();
        own.sort_unstable();
        let mut seen: BTreeSet<Opened> = BTreeSet::new();
        let mut connectors = Vec::new();
        for contact in own.into_iter().map(|place| &self.all[place]) {
            let outside = contact.ends.iter().find(|end| !inside[end.index()]);
            if let Some(outside) = outside
                && seen.insert(contact.opened)
            {
                connectors.push((*outside, !inside[contact.made_by.index()]));
            }
        }
        connectors
    }

    /// Subjects outside a group that talk to it over connections which the recording shows opened:
    /// those to which the group made most of them, and those that made most of them. A backend that
    /// thinks for 20 ms, and answers by a timer, acts on its own all the same, and a client that
    /// asks only when it has been answered does not.
    pub(in super::super) fn by_connector<'a>(
        &self,
        inside: &[bool],
        threads: &'a [Thread],
    ) -> [BTreeSet<&'a str>; 2] {
        let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
        for (thread, connected) in self.connectors(inside) {
            let subject = threads[thread.index()].subject.as_str();
            counts.entry(subject).or_default()[usize::from(connected)] += 1;
        }
        let most = |of: usize| {
            let all = counts.iter();
            let most = all.filter(move |(_, counts)| counts[of] > counts[1 - of]);
            most.map(|(subject, _)| *subject).collect()
        };
        [most(0), most(1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thread 0 is the client of 1 and 2, each in a group of its own, and 3 came before the
    /// recording.
    #[test]
    fn a_group_sees_the_connections_across_its_border() {
        let socket = |number: u64| Socket::from(number);
        let (client, servers) = (ThreadId(0), [ThreadId(1), ThreadId(2)]);
        let message = |at_ns, by, got_by, from, to| Message {
            at_ns,
            by,
            from: socket(from),
            to: socket(to),
            got_by: Some(got_by),
            is_datagram: false,
            is_guess: false,
        };
        let sent = [
            message(10, client, servers[0], 1, 11),
            message(20, servers[0], client, 11, 1),
            message(30, client, servers[1], 2, 12),
            message(40, ThreadId(3), servers[1], 3, 13),
            message(50, client, servers[0], 1, 11),
        ];
        // The client made the first connection, the second server the second.
        let opened = |by| Lifetime {
            opened_ns: 5,
            by,
            closed: None,
        };
        let lifetimes = BTreeMap::from([
            (socket(1), opened(client)),
            (socket(12), opened(servers[1])),
        ]);
        let contacts = Contacts::of(&sent, |socket, _| lifetimes.get(&socket).copied());
        assert_eq!(contacts.all.len(), 2);
        let inside = |members: &[u32]| [0, 1, 2, 3].map(|id| members.contains(&id));
        let connectors = |members| contacts.connectors(&inside(members));
        assert_eq!(connectors(&[1]), [(client, true)]);
        assert_eq!(connectors(&[2]), [(client, false)]);
        assert_eq!(connectors(&[0]), [(servers[0], false), (servers[1], true)]);
        assert_eq!(connectors(&[0, 1]), [(servers[1], true)]);
        assert_eq!(connectors(&[3]), []);
    }
}
