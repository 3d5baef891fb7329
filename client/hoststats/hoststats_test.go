package hoststats

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/nomad/message"
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

// Statistics have the percentage that garbage collection compares.
func TestDiskStats(t *testing.T) {
	got := statsOf("/dev/x", "/data", unix.Statfs_t{Bsize: 4096, Blocks: 100, Bfree: 80, Bavail: 20, Files: 10, Ffree: 4})
	want := message.HostDiskStats{Device: "/dev/x", Mountpoint: "/data", Size: 409600, Used: 81920, Available: 81920, UsedPercent: 50,
		InodesUsedPercent: 60}
	if *got != want {
		t.Errorf("statsOf() = %+v, want %+v", *got, want)
	}
}
