package migrate_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// wantSwaps is the number of exchanges that each race test makes, within maxRace.
const (
	wantSwaps = 100_000
	minRounds = 40
	maxRace   = 2 * time.Minute
)

// swap exchanges two names until stop is closed, and counts.
func swap(a, b string, swaps *atomic.Int64, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) == nil {
			swaps.Add(1)
		}
	}
}

// race runs work again and again while names are exchanged.
func race(t *testing.T, pairs [][2]string, work func()) {
	t.Helper()
	want, late := int64(wantSwaps), time.Now().Add(maxRace)
	if testing.Short() {
		want /= 20
	}
	var swaps atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	for _, p := range pairs {
		go func() {
			swap(p[0], p[1], &swaps, stop)
			done <- struct{}{}
		}()
	}
	rounds := 0
	for (swaps.Load() < want || rounds < minRounds) && time.Now().Before(late) {
		work()
		rounds++
	}
	close(stop)
	for range pairs {
		<-done
	}
	if swaps.Load() < want {
		t.Errorf("%d swaps in %v, want %d", swaps.Load(), maxRace, want)
	}
	t.Logf("%d swaps, %d rounds", swaps.Load(), rounds)
}

// secretDir is a directory outside with a file that must not be read, and its content.
func secretDir(t *testing.T) (dir, secret string) {
	dir, secret = t.TempDir(), "the-secret-of-another"
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, secret
}

// A snapshot never contains a file outside, whatever links are exchanged with its files and
// directories.
func TestRaceSnapshot(t *testing.T) {
	from := newDisk(t)
	outside, secret := secretDir(t)
	from.write("alloc/data/d/a", "inside")
	from.write("alloc/data/f", "inside")
	from.write("t/local/d/e/b", "inside")
	for name, target := range map[string]string{
		"alloc/data/dlink": outside, "alloc/data/flink": filepath.Join(outside, "a"), "t/local/d/elink": outside, "local": outside,
		"data": outside,
	} {
		if err := os.Symlink(target, filepath.Join(from.path, name)); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(from.path, name) }
	pairs := [][2]string{{at("alloc/data/d"), at("alloc/data/dlink")}, {at("alloc/data/f"), at("alloc/data/flink")},
		{at("t/local/d/e"), at("t/local/d/elink")}, {at("t/local"), at("local")}, {at("alloc/data"), at("data")}}
	complete := 0
	race(t, pairs, func() {
		var out bytes.Buffer
		err := from.source().Write(context.Background(), &out)
		if bytes.Contains(out.Bytes(), []byte(secret)) {
			t.Fatal("the snapshot has a file from outside")
		}
		if err == nil {
			complete++
		}
	})
	t.Logf("%d snapshots were complete", complete)
}

// Receiving writes nothing outside, whatever links are exchanged with the staging directory, its
// content and the data directories. A task cannot do this, since these directories are not its own.
func TestRaceReceive(t *testing.T) {
	to := newDisk(t)
	outside, secret := secretDir(t)
	var entries []entry
	for i := range 40 {
		entries = append(entries, entry{name: fmt.Sprintf("alloc/data/d/%d", i), text: "x"},
			entry{name: fmt.Sprintf("t/local/d/a%d", i), text: "y"})
	}
	stream := tarOf(t, entries)
	at := func(name string) string { return filepath.Join(to.path, name) }
	for _, name := range []string{"alloc/dlink", "t/llink", "mlink"} {
		if err := os.Symlink(outside, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	pairs := [][2]string{{at(".migrate"), at("mlink")}, {at("alloc/data"), at("alloc/dlink")}, {at("t/local"), at("t/llink")},
		{at(".migrate/alloc/data/d"), at("alloc/dlink")}, {at(".migrate/t/local"), at("t/llink")}}
	complete := 0
	race(t, pairs, func() {
		if to.target().Receive(io.Reader(bytes.NewReader(stream)), limits()) == nil {
			complete++
		}
		left, err := os.ReadDir(outside)
		if err != nil || len(left) != 2 {
			t.Fatalf("outside has %v, %v", left, err)
		}
	})
	t.Logf("%d streams were received", complete)
	for _, name := range []string{"a", "b"} {
		if got, err := os.ReadFile(filepath.Join(outside, name)); err != nil || string(got) != secret {
			t.Errorf("%s outside has %q, %v", name, got, err)
		}
	}
}
