package denials

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// run reports what is due until the time is over.
func run(w *Watcher, length time.Duration) {
	for end := time.Now().Add(length); time.Now().Before(end); {
		time.Sleep(min(w.untilDue(time.Now()), time.Until(end)))
		w.report(time.Now())
	}
}

// A flood is one report with the number of denials: of different paths, of one path repeatedly, and
// of system calls.
func TestFloodIsOneReport(t *testing.T) {
	for name, tt := range map[string]struct {
		refuse func(w *Watcher, i int)
		more   bool
	}{
		"different paths": {func(w *Watcher, i int) { refusal(w, i, "d", fmt.Sprint("/", i)) }, true},
		"one path":        {func(w *Watcher, i int) { refusal(w, i, "d", "/a") }, false},
		"system calls": {func(w *Watcher, i int) {
			say(w, unix.AUDIT_SECCOMP, i, `auid=1 uid=80001 pid=999 comm="x" sig=0 arch=%s syscall=272 code=0x50001`, hostArch())
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, got := reported(t)
				w.Add(Task{ID: "a", UID: 80001})
				w.owners.learn("d", "a")
				flood := func() {
					for i := range 1000 {
						tt.refuse(w, i)
						run(w, time.Millisecond)
					}
					run(w, 2*floodPause)
				}
				flood()
				if r := *got; len(r) != 1 || r[0].Count != 1000 || !r[0].Flood() || r[0].More != tt.more {
					t.Fatalf("%d reports, the first of %d refusals, more %t: want one of 1000", len(r), r[0].Count, r[0].More)
				}
				if !tt.more && (len((*got)[0].Counts) != 1 || (*got)[0].Counts[0] != 1000) {
					t.Errorf("counts = %v, want 1000", (*got)[0].Counts)
				}
				// Listed denials are reported again if they are a flood.
				flood()
				if r := *got; len(r) != 2 || r[1].Count != 1000 || r[1].New != 0 {
					t.Errorf("%d reports after another flood, want a second one of 1000 refusals", len(r))
				}
				tt.refuse(w, 1)
				if run(w, 2*floodPause); len(*got) != 2 {
					t.Errorf("%d reports after one more refusal, want none", len(*got))
				}
			})
		})
	}
}

// Reports about a task with an endless series of different denials are limited.
func TestReportsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, got := reported(t)
		w.Add(Task{ID: "a", UID: 80001})
		w.owners.learn("d", "a")
		for i := range 200 {
			for range floodSize {
				refusal(w, i, "d", fmt.Sprint("/", i))
			}
			run(w, 2*floodPause)
		}
		if r := *got; len(r) != maxReports || !r[maxReports-1].Last || r[0].Last {
			t.Errorf("%d reports, want %d, and the last to say so", len(r), maxReports)
		}
	})
}

// Harmless probes are not reported; similar accesses are.
func TestHarmless(t *testing.T) {
	for _, tt := range []struct {
		rule, path string
		harmless   bool
	}{
		{"fs.read_file", "/proc/filesystems", true},
		{"fs.read_file", "/proc/17/mounts", true},
		{"fs.read_file", "/proc/17/mountinfo", true},
		{"fs.read_file", "/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", true},
		{"fs.ioctl_dev", "/dev/null", true},
		{"fs.ioctl_dev", "/dev/kvm", false},
		{"fs.read_file", "/dev/null", false},
		{"fs.read_file", "/proc/17/environ", false},
		{"fs.read_file", "/proc/mounts", false},
		{"fs.write_file", "/proc/filesystems", false},
		{"fs.read_file", "/srv/proc/17/mounts", false},
	} {
		if got := (Denial{Layer: Landlock, Rule: tt.rule, Path: tt.path}).isNoise(); got != tt.harmless {
			t.Errorf("%s of %s: harmless = %t, want %t", tt.rule, tt.path, got, tt.harmless)
		}
	}
}
