package logstore

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/open-nomad/open-nomad/internal/testdisk"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"golang.org/x/sys/unix"
)

const small = 256 << 10 // bytes of a segment

func openGuarded(t *testing.T, dir string) *guardedLog {
	t.Helper()
	g, err := openLog(dir, small, hclog.NewNullLogger())
	if err != nil {
		t.Fatalf("openLog() = %v", err)
	}
	g.retry = 50 * time.Millisecond
	t.Cleanup(func() { g.Close() })
	return g
}

func entry(index, term uint64) *raft.Log {
	return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: bytes.Repeat([]byte{byte(index)}, 4096)}
}

// holds fails unless the log has entries 1 to last, with term 1 before cut and term 2 from cut
// on.
func holds(t *testing.T, g *guardedLog, last, cut uint64) {
	t.Helper()
	if got, err := g.LastIndex(); err != nil || got != last {
		t.Errorf("LastIndex() = %d, %v, want %d", got, err, last)
	}
	for i := uint64(1); i <= last; i++ {
		var e raft.Log
		want := uint64(1)
		if i >= cut {
			want = 2
		}
		if err := g.GetLog(i, &e); err != nil || e.Index != i || e.Term != want || len(e.Data) != 4096 || e.Data[7] != byte(i) {
			t.Fatalf("GetLog(%d) = index %d, term %d, %v, want term %d", i, e.Index, e.Term, err, want)
		}
	}
}

// On a full disk writes fail and reads work. Writing continues when there is space. The next
// start finds the same log.
func TestFullDisk(t *testing.T) {
	disk := testdisk.New(t, "4m", false)
	g := openGuarded(t, disk.Dir)
	disk.Fill(small / 2)
	last := uint64(0)
	var err error
	for err == nil && last < 1000 {
		if err = g.StoreLog(entry(last+1, 1)); err == nil {
			last++
		}
	}
	if !errors.Is(err, unix.ENOSPC) || last < 10 {
		t.Fatalf("after %d entries: %v, want no space", last, err)
	}
	holds(t, g, last, last+1)
	if err := g.SetUint64(termKey, 77); err != nil {
		t.Errorf("the term cannot be written: %v", err)
	}
	for range 3 { // the failure lasts and leaves nothing behind
		<-time.After(2 * g.retry)
		if err := g.StoreLog(entry(last+1, 1)); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("StoreLog() = %v, want no space", err)
		}
	}
	holds(t, g, last, last+1)
	if err := g.Unwritable(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Unwritable() = %v", err)
	}
	disk.Free()
	testpace.Succeeds(t, "the entry is written", func() error { return g.StoreLog(entry(last+1, 1)) })
	if err := g.Unwritable(); err != nil {
		t.Errorf("Unwritable() = %v with space", err)
	}
	for range 100 {
		last++
		if err := g.StoreLog(entry(last+1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	last++
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	again := openGuarded(t, disk.Dir)
	holds(t, again, last, last+1)
	if term, err := again.GetUint64(termKey); term != 77 || err != nil {
		t.Errorf("term = %d, %v", term, err)
	}
}

// A follower with a full disk waits when it must remove entries: raft would otherwise count
// them. Close ends the wait.
func TestFullDiskTruncation(t *testing.T) {
	for name, freed := range map[string]bool{"freed": true, "closed": false} {
		t.Run(name, func(t *testing.T) {
			disk := testdisk.New(t, "4m", false)
			g := openGuarded(t, disk.Dir)
			for i := uint64(1); i <= 20; i++ {
				if err := g.StoreLog(entry(i, 1)); err != nil {
					t.Fatal(err)
				}
			}
			disk.Fill(small / 2)
			done := make(chan error, 1)
			go func() { done <- g.DeleteRange(15, 20) }()
			select {
			case err := <-done:
				t.Fatalf("DeleteRange() = %v on a full disk", err)
			case <-time.After(5 * g.retry):
			}
			if !freed {
				g.Interrupt()
				if err := <-done; !errors.Is(err, unix.ENOSPC) {
					t.Fatalf("DeleteRange() = %v, want no space", err)
				}
				return
			}
			disk.Free()
			if err := <-done; err != nil {
				t.Fatalf("DeleteRange() = %v", err)
			}
			for i := uint64(15); i <= 120; i++ {
				if err := g.StoreLog(entry(i, 2)); err != nil {
					t.Fatal(err)
				}
			}
			holds(t, g, 120, 15)
			if err := g.Close(); err != nil {
				t.Fatal(err)
			}
			holds(t, openGuarded(t, disk.Dir), 120, 15)
		})
	}
}

// Without space for a segment, the error is not ErrDamaged.
func TestFullDiskAtStart(t *testing.T) {
	disk := testdisk.New(t, "2m", false)
	disk.Fill(small / 2)
	for range 2 {
		if _, err := openLog(disk.Dir, small, hclog.NewNullLogger()); !errors.Is(err, unix.ENOSPC) || errors.Is(err, ErrDamaged) {
			t.Fatalf("openLog() = %v, want no space", err)
		}
	}
	disk.Free()
	if err := openGuarded(t, disk.Dir).StoreLog(entry(1, 1)); err != nil {
		t.Error(err)
	}
}

// Removing entries at the moment when their segment is full does not remove the following ones.
func TestTruncationOfFullSegment(t *testing.T) {
	dir := t.TempDir()
	g := openGuarded(t, dir)
	first := uint64(1)
	for range 10 {
		var full []*raft.Log
		for i := range uint64(70) {
			full = append(full, entry(first+i, 1))
		}
		if err := g.StoreLogs(full); err != nil {
			t.Fatal(err)
		}
		if err := g.DeleteRange(first+60, first+69); err != nil {
			t.Fatal(err)
		}
		first += 60
		if err := g.StoreLog(entry(first, 1)); err != nil {
			t.Fatalf("after the removal of %d: %v", first, err)
		}
		first++
	}
	holds(t, g, first-1, first)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	holds(t, openGuarded(t, dir), first-1, first)
}
