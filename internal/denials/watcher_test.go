package denials

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// reported returns a watcher without a kernel, and its delivered reports.
func reported(t *testing.T) (*Watcher, *[]Report) {
	var got []Report
	w := New(slog.New(slog.DiscardHandler), func(r Report) { got = append(got, r) })
	w.owners.group = func(pid int) []string { return map[int][]string{70: {"nomad.slice", "b.scope"}}[pid] }
	return w, &got
}

// say passes a record to the watcher as the kernel would.
func say(w *Watcher, kind uint16, serial int, text string, args ...any) {
	w.take(kind, fmt.Appendf(nil, "audit(1.0:%d): %s", serial, fmt.Sprintf(text, args...)), time.Now())
}

func refusal(w *Watcher, serial int, domain, path string) {
	say(w, unix.AUDIT_LANDLOCK_ACCESS, serial, `domain=%s blockers=fs.read_file path="%s" dev="vda" ino=1`, domain, path)
}

// TestOwners checks every way to attribute a denial.
func TestOwners(t *testing.T) {
	for _, tt := range []struct {
		name string
		say  func(w *Watcher)
		want string
	}{
		{"uid of its own", func(w *Watcher) {
			refusal(w, 1, "d", "/a")
			say(w, unix.AUDIT_LANDLOCK_DOMAIN, 1, `domain=d status=allocated mode=enforcing pid=999 uid=80001 exe="/x" comm="x"`)
		}, "a"},
		{"control group", func(w *Watcher) {
			refusal(w, 1, "d", "/a")
			say(w, unix.AUDIT_LANDLOCK_DOMAIN, 1, `domain=d status=allocated mode=enforcing pid=70 uid=1000`)
		}, "b"},
		{"pid of a process that has ended", func(w *Watcher) {
			refusal(w, 1, "d", "/a")
			say(w, unix.AUDIT_LANDLOCK_DOMAIN, 1, `domain=d status=allocated mode=enforcing pid=71 uid=1000`)
		}, "b"},
		{"caller, if an earlier agent got the record of the domain", func(w *Watcher) {
			refusal(w, 1, "d", "/a")
			say(w, unix.AUDIT_SYSCALL, 1, `arch=c000003e syscall=257 ppid=1 pid=999 auid=1 uid=80001 comm="x"`)
		}, "a"},
		{"domain that is known", func(w *Watcher) {
			w.owners.learn("d", "b")
			refusal(w, 1, "d", "/a")
		}, "b"},
		{"seccomp", func(w *Watcher) {
			say(w, unix.AUDIT_SECCOMP, 1, `auid=1 uid=80001 gid=1 ses=1 pid=999 comm="x" sig=0 arch=%s syscall=1 code=0x50001`, hostArch())
		}, "a"},
		{"somebody else", func(w *Watcher) {
			refusal(w, 1, "d", "/a")
			say(w, unix.AUDIT_LANDLOCK_DOMAIN, 1, `domain=d status=allocated mode=enforcing pid=999 uid=1000`)
			say(w, unix.AUDIT_SYSCALL, 1, `pid=999 uid=1000`)
		}, ""},
		{"another call", func(w *Watcher) {
			refusal(w, 1, "d", "/a")
			say(w, unix.AUDIT_SYSCALL, 2, `pid=999 uid=80001`)
		}, ""},
		{"a name that claims a uid", func(w *Watcher) {
			refusal(w, 1, "d", "/a")
			say(w, unix.AUDIT_LANDLOCK_DOMAIN, 1, `domain=d status=allocated mode=enforcing pid=999 uid=1000 exe="/x" comm="x" uid=80001`)
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, got := reported(t)
			w.Add(Task{ID: "a", UID: 80001})
			w.Add(Task{ID: "b", UID: -1, Group: "b.scope", PID: 71})
			tt.say(w)
			w.report(time.Now().Add(time.Minute))
			switch {
			case tt.want == "" && len(*got) > 0:
				t.Errorf("reported %+v, want nothing", *got)
			case tt.want != "" && (len(*got) != 1 || (*got)[0].TaskID != tt.want):
				t.Errorf("reported %+v, want one of task %s", *got, tt.want)
			}
		})
	}
}

// TestTelling checks that simultaneous denials are in one report, equal ones once, and that further
// reports wait for the pause.
func TestTelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, got := reported(t)
		w.Add(Task{ID: "a", UID: 80001})
		w.owners.learn("d", "a")
		refusal(w, 1, "d", "/a")
		refusal(w, 2, "d", "/b")
		refusal(w, 3, "d", "/a")
		refusal(w, 4, "d", "/etc/locale.alias")
		if wait := w.untilDue(time.Now()); wait != settleTime {
			t.Fatalf("untilDue() = %v, want %v", wait, settleTime)
		}
		w.report(time.Now())
		if len(*got) != 0 {
			t.Fatalf("reported %v at once", *got)
		}
		w.report(time.Now().Add(settleTime))
		if len(*got) != 1 || len((*got)[0].Denials) != 2 || (*got)[0].New != 2 {
			t.Fatalf("reported %+v, want two refusals in one report", *got)
		}
		time.Sleep(time.Second)
		refusal(w, 5, "d", "/c")
		if wait := w.untilDue(time.Now()); wait < 3*time.Second {
			t.Errorf("untilDue() = %v after a report, want a pause", wait)
		}
		w.report(time.Now().Add(pause))
		if len(*got) != 2 || len((*got)[1].Denials) != 3 || (*got)[1].New != 1 {
			t.Fatalf("reported %+v, want all three, one of them new", (*got)[1])
		}
	})
}

// TestFlush_ReportInProgress checks that Flush waits for a report in progress.
func TestFlush_ReportInProgress(t *testing.T) {
	telling, goOn := make(chan struct{}), make(chan struct{})
	w := New(slog.New(slog.DiscardHandler), func(Report) {
		close(telling)
		<-goOn
	})
	w.setRunning(true)
	w.Add(Task{ID: "a", UID: 80001})
	w.owners.learn("d", "a")
	refusal(w, 1, "d", "/a")
	go w.report(time.Now().Add(settleTime))
	<-telling
	settled := make(chan struct{})
	go func() {
		w.Flush(t.Context(), "a")
		close(settled)
	}()
	select {
	case <-settled:
		t.Error("Settle() returned while a report was in progress")
	case <-time.After(2 * settleTime):
	}
	close(goOn)
	<-settled
}

// TestFlood checks that the memory for a task with endless denials is bounded.
func TestFlood(t *testing.T) {
	w, got := reported(t)
	w.Add(Task{ID: "a", UID: 80001})
	w.owners.learn("d", "a")
	for i := range 5000 {
		refusal(w, i, "d", "/"+strings.Repeat("x", 100)+fmt.Sprint(i))
		refusal(w, i, fmt.Sprintf("e%d", i), "/") // unknown domains
		say(w, unix.AUDIT_LANDLOCK_DOMAIN, i, `domain=f%d status=allocated mode=enforcing pid=999 uid=80001`, i)
	}
	w.report(time.Now().Add(time.Minute))
	r := (*got)[0]
	if len(*got) != 1 || len(r.Denials) > maxDistinct || !r.More {
		t.Errorf("%d reports, %d refusals, more %t", len(*got), len(r.Denials), r.More)
	}
	if len(w.pending.list) > maxWaiting || len(w.pending.past) > maxSeen || len(w.owners.of["a"]) > maxDomains {
		t.Errorf("keeps %d waiting, %d texts, %d domains", len(w.pending.list), len(w.pending.past), len(w.owners.of["a"]))
	}
	w.Remove("a")
	if len(w.owners.domains)+len(w.owners.of)+len(w.owners.byUID) != 0 {
		t.Errorf("a task that was removed left %v %v %v", w.owners.domains, w.owners.of, w.owners.byUID)
	}
}

// TestLentAgain checks that removing a task keeps a uid that a later task has.
func TestLentAgain(t *testing.T) {
	w, _ := reported(t)
	w.Add(Task{ID: "a", UID: 80001})
	w.Add(Task{ID: "b", UID: 80001})
	w.Remove("a")
	if id := w.owners.byUID[80001]; id != "b" {
		t.Errorf("the uid is of %q, want b", id)
	}
}

func BenchmarkRepeated(b *testing.B) {
	w := New(slog.New(slog.DiscardHandler), func(Report) {})
	w.Add(Task{ID: "a", UID: 80001})
	w.owners.learn("d", "a")
	text := []byte(stamp + `domain=d blockers=fs.read_file path="/etc/passwd" dev="vda" ino=737`)
	for b.Loop() {
		w.take(unix.AUDIT_LANDLOCK_ACCESS, text, time.Now())
	}
}
