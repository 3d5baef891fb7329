package logs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/logs"
)

// wantSwaps is the number of exchanges, within maxRace.
const (
	wantSwaps = 100_000
	minRounds = 100
	maxRace   = 2 * time.Minute
)

// exchange exchanges two names of a directory until stop is set, and counts. By the descriptor, it never exchanges a
// file outside.
func exchange(dir int, a, b string, swaps *atomic.Int64, stop *atomic.Bool) {
	for !stop.Load() {
		if unix.Renameat2(dir, a, dir, b, unix.RENAME_EXCHANGE) == nil {
			swaps.Add(1)
		}
	}
}

// TestRaceReads checks that no read of a log or a file, which is also how log sinks read, leaves the allocation or waits
// for a FIFO, whatever links and FIFOs a task exchanges with its files and directories.
func TestRaceReads(t *testing.T) {
	dir, tr := tree(t)
	writeLogs(t, dir, map[int]string{0: "inside|", 1: "inside|"})
	outside, secret := t.TempDir(), "the-secret-of-another"
	for _, name := range []string{"web.stdout.0", "web.stdout.1", "web.stdout.2", "a.txt", "only-outside"} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte(secret), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, target := range map[string]string{"alloc/logslink": outside, "alloc/logs/link": filepath.Join(outside, "a.txt"),
		"web/locallink": outside, "web/local/link": filepath.Join(outside, "a.txt")} {
		if err := os.Symlink(target, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"alloc/logs/fifo", "web/local/fifo"} {
		if err := unix.Mkfifo(at(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var swaps atomic.Int64
	var stop atomic.Bool
	done := make(chan struct{})
	pairs := [][3]string{{"alloc", "logs", "logslink"}, {"alloc/logs", "web.stdout.0", "link"}, {"alloc/logs", "web.stdout.1", "fifo"},
		{"web", "local", "locallink"}, {"web/local", "a.txt", "link"}, {"web/local", "a.txt", "fifo"}}
	var dirs []int
	for _, p := range pairs {
		fd, err := unix.Open(at(p[0]), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		dirs = append(dirs, fd)
	}
	for i, p := range pairs {
		go func() {
			exchange(dirs[i], p[1], p[2], &swaps, &stop)
			done <- struct{}{}
		}()
	}
	read, rounds := 0, 0
	for late := time.Now().Add(maxRace); (swaps.Load() < wantSwaps || rounds < minRounds) && time.Now().Before(late); rounds++ {
		text := readAll(t, tr)
		if strings.Contains(text, secret) || strings.Contains(text, "only-outside") {
			t.Fatal("a file outside was read")
		}
		if text != "" {
			read++
		}
	}
	stop.Store(true)
	for range pairs {
		<-done
	}
	t.Logf("%d swaps, %d rounds, of which %d read something", swaps.Load(), rounds, read)
	if swaps.Load() < wantSwaps || rounds < minRounds || read == 0 {
		t.Errorf("%d swaps and %d rounds, of which %d read something", swaps.Load(), rounds, read)
	}
}

// readAll returns what every kind of read returns. An error is expected: a name leads to a link or a FIFO at times.
func readAll(t *testing.T, tr *logs.Tree) string {
	t.Helper()
	var out bytes.Buffer
	plain := logs.Output{Frame: logs.Plain, Sink: func(b []byte) error {
		_, err := out.Write(b)
		return err
	}}
	_ = tr.StreamLog(t.Context(), logs.Log{Task: "web", Type: "stdout"}, logs.Range{}, plain)
	_ = tr.StreamLog(t.Context(), logs.Log{Task: "web", Type: "stdout"}, logs.Range{From: &logs.Position{}, Limit: 1 << 20}, plain)
	_ = tr.StreamFile(t.Context(), "web/local/a.txt", logs.Range{}, plain)
	if f, err := tr.Open("web/local/a.txt"); err == nil {
		_, _ = out.ReadFrom(f)
		f.Close()
	}
	for _, dir := range []string{"alloc/logs", "web/local"} {
		files, _ := tr.List(dir)
		for _, f := range files {
			out.WriteString(f.Name + "|")
		}
	}
	if f, err := tr.Stat("web/local/only-outside"); err == nil {
		out.WriteString(f.Name)
	}
	return out.String()
}
