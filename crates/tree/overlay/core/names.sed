# Fields whose names differ between releases, for sched_fair.c. They stand before the first line of a copy.
/^static struct {$/,/^} nohz /{
s/^\tint \(has_blocked\|has_blocked_load\);.*$/#define sc_has_blocked nohz.\1/p
s/^\tint needs_update;.*$/#define sc_needs_update nohz.needs_update/p
}
