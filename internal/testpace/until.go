package testpace

import (
	"testing"
	"time"
)

// patience is how long Until and Succeeds wait. It is not related to a time limit of the product.
const patience = 2 * time.Minute

// maxPoll is the longest interval between two checks of a condition. The first one is a millisecond.
const maxPoll = 20 * time.Millisecond

// Until waits until a condition is met. It fails the test after two minutes.
func Until(t testing.TB, what string, met func() bool) {
	t.Helper()
	Within(t, patience, what, met)
}

// Within is Until with a limit.
func Within(t testing.TB, limit time.Duration, what string, met func() bool) {
	t.Helper()
	if !poll(limit, met) {
		t.Fatalf("not within %v: %s", limit, what)
	}
}

// Succeeds calls try until it returns nil. After two minutes it fails the test with the last error.
func Succeeds(t testing.TB, what string, try func() error) {
	t.Helper()
	var err error
	if !poll(patience, func() bool { err = try(); return err == nil }) {
		t.Fatalf("not within %v: %s: %v", patience, what, err)
	}
}

// poll calls met until it returns true. It returns false if the last call began after the limit.
func poll(limit time.Duration, met func() bool) bool {
	begun := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, maxPoll) {
		over := time.Since(begun) > limit
		if met() {
			return true
		}
		if over {
			return false
		}
		<-time.After(wait)
	}
}
