package state_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
)

// usesEntry is argv[0] of a process that opens the database of a directory, writes to it and
// closes it.
const usesEntry = "nomad-state-test-use"

func init() { companion.Register(usesEntry, func() int { return uses(os.Args[1]) }) }

// Exit statuses of that process.
const (
	exitRefused = 10
	exitFailed  = 11
)

func uses(dir string) int {
	db, err := state.Open(state.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if errors.Is(err, state.ErrCorrupt) || errors.Is(err, state.ErrForm) { // the project's mark may be damaged
		return exitRefused
	}
	if err == nil {
		err = errors.Join(db.PutAlloc(&nomad.Allocation{ID: nomad.NewID(), NodeID: "n"}), db.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	return 0
}

// A file with a few changed bytes is refused or works, and never makes the program hang.
// Bbolt's check misses some damage in inline buckets, so the program may rarely crash.
func TestDamageAnywhere(t *testing.T) {
	testpace.Slow(t, "opens thousands of damaged files")
	dir := t.TempDir()
	db := open(t, dir)
	for range 100 {
		if err := db.PutAlloc(&nomad.Allocation{ID: nomad.NewID(), NodeID: "n", Name: "damaged"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "state.db")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused, crashed := 0, 0
	const files, mayCrash = 100, 3
	for seed := range uint64(files) {
		if err := os.WriteFile(path, damaged(good, seed), 0o600); err != nil {
			t.Fatal(err)
		}
		switch code, out := use(t, dir); code {
		case 0:
		case exitRefused:
			refused++
		case exitFailed:
			t.Errorf("seed %d: %s", seed, out)
		default:
			t.Logf("seed %d: exit status %d: %.300s", seed, code, out)
			crashed++
		}
	}
	t.Logf("%d of %d files were refused, %d crashed the program", refused, files, crashed)
	if refused == 0 || crashed > mayCrash {
		t.Errorf("%d files were refused and %d crashed the program, want some and at most %d", refused, crashed, mayCrash)
	}
}

// damaged returns the file with one to three bytes changed.
func damaged(good []byte, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	bad := append([]byte(nil), good...)
	for range 1 + r.IntN(3) {
		within := 4096
		if r.IntN(2) == 0 {
			within = 128 // the page header, which is the most critical
		}
		bad[r.IntN(len(bad)/4096)*4096+r.IntN(within)] = byte(r.Uint32())
	}
	return bad
}

// use runs the process and returns its exit status and output.
func use(t *testing.T, dir string) (int, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{usesEntry, dir}
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // the race detector sleeps for a second at each exit
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended || ctx.Err() != nil {
		t.Fatal(errors.Join(err, ctx.Err()))
	}
	return cmd.ProcessState.ExitCode(), out
}
