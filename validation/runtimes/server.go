// SPDX-License-Identifier: GPL-2.0-only

// GET /w?n=N makes N objects of a linked structure that stays alive, each in place of an old one, and computes a sum for
// each: garbage collection must follow the live objects, as with a cache.
package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
)

type item struct {
	left, right *item
	data        [28]uint64 // 240 bytes with both pointers
}

const slots = 1 << 17 // 30 MB live

var (
	cache [slots]atomic.Pointer[item]
	next  atomic.Uint64
)

func work(n int, seed uint64) uint64 {
	sum := seed
	for range n {
		at := next.Add(1)
		made := &item{left: cache[(at*7919)%slots].Load()}
		for round := range 8 {
			for i := range made.data {
				sum ^= sum << 13
				sum ^= sum >> 7
				sum ^= sum << 17
				made.data[i] += sum + uint64(round)
			}
		}
		// An old object's own neighbour is let go, so that no chain grows.
		if made.left != nil {
			made.left.left = nil
		}
		cache[at%slots].Store(made)
	}
	return sum
}

func main() {
	work(slots, 1)
	http.HandleFunc("/w", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.URL.Query().Get("n"))
		if err != nil {
			http.Error(w, "expected n=NUMBER", http.StatusBadRequest)
			return
		}
		fmt.Fprintln(w, work(n, uint64(n)))
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
	os.Exit(1)
}
