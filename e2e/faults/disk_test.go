//go:build linux && faults

package faults_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/testdisk"
)

// left is the space that fill leaves: not enough for a log segment.
const left = 512 << 10

// smallLog configures small log segments.
const smallLog = "server {\n  raft_logstore {\n    wal {\n      segment_size_mb = 1\n    }\n  }\n}\n"

// diskTrio starts three servers, each with a small disk.
func diskTrio(t *testing.T) (*trio, []testdisk.Disk) {
	t.Helper()
	var disks []testdisk.Disk
	var dirs []string
	for range 3 {
		d := testdisk.New(t, "24m", true)
		disks, dirs = append(disks, d), append(dirs, d.Dir)
	}
	return startTrio(t, smallLog, dirs...), disks
}

// flood writes 100 jobs of 40 KB through a server: more than a segment. It retries failed writes.
func (s *trio) flood(through *cluster.Agent) {
	s.t.Helper()
	for range 100 {
		s.within("a write", func() error { return s.write(through, 40_000) })
	}
}

// alive fails if a server has ended.
func (s *trio) alive() {
	s.t.Helper()
	for i, a := range s.all {
		if _, err := a.Client.Agent().Self(); err != nil {
			s.t.Fatalf("server %d does not answer: %v\n%s", i, err, a.Log)
		}
	}
}

// reportsFull fails unless a server logged its full disk.
func (s *trio) reportsFull(i int) {
	s.t.Helper()
	if text := fmt.Sprint(s.all[i].Log); !strings.Contains(text, "no space left on device") {
		s.t.Errorf("server %d does not report its full disk:\n%s", i, text)
	}
}

// A follower with a full disk accepts no more entries, and catches up by itself when space is free.
// The others continue without a pause.
func TestFollowerDiskFull(t *testing.T) {
	s, disks := diskTrio(t)
	lead := s.lead()
	full := (lead + 1) % 3
	disks[full].Fill(left)
	for again := 2; ; again-- {
		s.flood(s.all[lead])
		was := lead
		if lead = s.lead(); lead == was {
			break
		}
		if lead == full || again == 0 { // a busy machine may cause other elections, but not each time
			t.Errorf("server %d leads, it was %d: a full follower disturbs the others", lead, was)
			break
		}
	}
	s.alive()
	s.reportsFull(full)
	// A snapshot of its own fails, and leaves no file.
	disks[full].Fill(0)
	if _, _, err := s.saved(full); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("a snapshot of the full server: %v", err)
	}
	if tmp, err := filepath.Glob(filepath.Join(disks[full].Dir, "data/server/raft/snapshots/*.tmp")); len(tmp) > 0 || err != nil {
		t.Errorf("%v is left of the snapshot: %v", tmp, err)
	}
	disks[full].Free()
	s.complete()
	s.same()
}

// A leader with a full disk transfers leadership, and catches up by itself.
func TestLeaderDiskFull(t *testing.T) {
	s, disks := diskTrio(t)
	lead := s.lead()
	disks[lead].Fill(left)
	began := time.Now()
	s.flood(s.all[(lead+1)%3])
	t.Logf("100 writes of 40 KB while the leader's disk filled up: %v", time.Since(began).Round(time.Millisecond))
	if now := s.lead(); now == lead {
		t.Errorf("server %d leads although it cannot write", lead)
	}
	s.alive()
	s.reportsFull(lead)
	disks[lead].Free()
	s.complete()
	s.same()
}

// With all disks full, writes fail with the reason, reads succeed and no server crashes. A server
// that is restarted on its full disk starts, or reports the full disk. When space is free, all
// continue by themselves.
func TestAllDisksFull(t *testing.T) {
	s, disks := diskTrio(t)
	for range 10 {
		s.within("a write", func() error { return s.write(s.all[0], 40_000) })
	}
	for _, d := range disks {
		d.Fill(left)
	}
	reasons := map[string]bool{}
	s.within("a write fails because of the full disk", func() error {
		for i := range s.all {
			if err := s.write(s.all[i], 40_000); err != nil {
				reasons[err.Error()] = true
				if strings.Contains(err.Error(), "no space left on device") {
					return nil
				}
			}
		}
		return fmt.Errorf("the refusals so far: %v", reasons)
	})
	s.alive()
	s.complete() // stale reads
	s.killAll(1)
	a, err := cluster.Start(t.Context(), s.all[1].Options)
	if err == nil { // its newest segment exists
		s.all[1] = a
	} else if text := fmt.Sprint(s.all[1].Log); !strings.Contains(text, "no space left on device: free the 1 MiB of its next segment") {
		t.Errorf("the server did not start on its full disk: %v, output\n%s", err, text)
	}
	for _, d := range disks {
		d.Free()
	}
	if err != nil {
		s.restart(1)
	}
	s.within("a write is taken again", func() error { return s.write(s.all[0], 0) })
	s.complete()
	s.same()
	s.killAll(0, 1, 2)
	s.restart(0, 1, 2)
	s.lead()
	s.complete()
}
