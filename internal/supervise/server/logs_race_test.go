package server_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// wantSwaps is the number of exchanges, within maxRace.
const (
	wantSwaps = 100_000
	minRounds = 5
	maxRace   = 2 * time.Minute
)

// TestRaceLogs starts tasks whose logs rotate while the log files, and their directory, are exchanged with links to
// files and a directory outside. Nothing outside is made, changed or removed.
func TestRaceLogs(t *testing.T) {
	r := newRig(t)
	c := r.client()
	outside, dir := t.TempDir(), filepath.Join(r.logs, "sub")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"canary", "race.stdout.0", "race.stdout.1", "race.stdout.2"} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte("untouched"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := content(t, outside)
	for name, target := range map[string]string{filepath.Join(dir, "link"): filepath.Join(outside, "canary"), dir + "link": outside} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	var swaps atomic.Int64
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		exchangeLogs(dir, filepath.Join(outside, "canary"), &swaps, &stop)
	}()
	rounds, ran := 0, 0
	ctx, cancel := context.WithTimeout(context.Background(), maxRace)
	defer cancel()
	for ; (swaps.Load() < wantSwaps || ran < minRounds) && ctx.Err() == nil; rounds++ {
		s := r.spec("seq 3000")
		s.Logs.Dir, s.Logs.Name, s.Logs.MaxFiles, s.Logs.MaxBytes = "sub", "race", 3, 2000
		if _, err := c.Start(ctx, s); err != nil {
			continue // the directory was a link
		}
		if _, err := c.Wait(ctx, s.ID); err == nil {
			ran++
		}
	}
	stop.Store(true)
	<-done
	t.Logf("%d exchanges during %d starts, of which %d ran", swaps.Load(), rounds, ran)
	if swaps.Load() < wantSwaps || ran < minRounds {
		t.Errorf("%d exchanges during %d starts, of which %d ran", swaps.Load(), rounds, ran)
	}
	if after := content(t, outside); after != before {
		t.Errorf("outside was\n%s\nand is\n%s", before, after)
	}
}

// exchangeLogs exchanges every log file with a link, and at times their directory. It makes links with the next names.
func exchangeLogs(dir, canary string, swaps *atomic.Int64, stop *atomic.Bool) {
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // no exchanges: the test fails
	}
	d := os.NewFile(uintptr(fd), dir)
	defer d.Close()
	for !stop.Load() {
		if _, err := d.Seek(0, 0); err != nil {
			return
		}
		names, err := d.Readdirnames(-1)
		if err != nil {
			return
		}
		last := newest(fd, names)
		for n := range 3 {
			unix.Symlinkat(canary, fd, "race.stdout."+strconv.Itoa(last+n+1)) //nolint:errcheck // it may exist
		}
		for range 20 {
			for _, name := range names {
				if strings.HasPrefix(name, "race.stdout.") && unix.Renameat2(fd, name, fd, "link", unix.RENAME_EXCHANGE) == nil {
					swaps.Add(1)
				}
			}
		}
		for _, name := range names { // few names, so that the supervisor meets the exchanged ones
			if n, err := strconv.Atoi(strings.TrimPrefix(name, "race.stdout.")); err == nil && n < last-8 {
				unix.Unlinkat(fd, name, 0) //nolint:errcheck // it may be gone
			}
		}
		if unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, dir+"link", unix.RENAME_EXCHANGE) == nil {
			swaps.Add(1)
		}
	}
}

// newest returns the highest number of a log file. Links do not count.
func newest(fd int, names []string) int {
	last := 0
	for _, name := range names {
		var st unix.Stat_t
		n, err := strconv.Atoi(strings.TrimPrefix(name, "race.stdout."))
		if err == nil && unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			last = max(last, n)
		}
	}
	return last
}

// content returns the files of a directory with their modes, times and content.
func content(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString(e.Name() + " " + info.Mode().String() + " " + info.ModTime().String() + " " + string(text) + "\n")
	}
	return out.String()
}
