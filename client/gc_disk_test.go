package client

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Blocks reserved for root do not cause garbage collection.
func TestUsedBlocks(t *testing.T) {
	for what, c := range map[string]struct {
		fs   unix.Statfs_t
		want float64
	}{
		"empty":               {unix.Statfs_t{Blocks: 100, Bfree: 100, Bavail: 100}, 0},
		"half":                {unix.Statfs_t{Blocks: 100, Bfree: 50, Bavail: 50}, 50},
		"half, much reserved": {unix.Statfs_t{Blocks: 100, Bfree: 80, Bavail: 20}, 50},
		"full for others":     {unix.Statfs_t{Blocks: 100, Bfree: 5}, 100},
		"full":                {unix.Statfs_t{Blocks: 100}, 100},
	} {
		if got := usedBlocks(c.fs); got != c.want {
			t.Errorf("%s: usedBlocks() = %v, want %v", what, got, c.want)
		}
	}
}
