package testpace

import "testing"

// Slow skips the test with -short. Reason says what takes the time: a daemon, a virtual machine, many processes, or a
// wait of more than two seconds.
func Slow(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow, not with -short: " + reason)
	}
}
