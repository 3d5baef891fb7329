package supervise_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/stage"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// named lists the children of the supervisor with a name.
func (r *rig) named(name string) []int {
	r.t.Helper()
	var out []int
	for _, pid := range childrenOf(r.t, r.supervisor()) {
		if comm(pid) == name {
			out = append(out, pid)
		}
	}
	return out
}

// childrenOf lists the children of all threads of a process that may be gone.
func childrenOf(t testing.TB, pid int) []int {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, name := range threads {
		text, _ := os.ReadFile(name) // the thread may be gone
		for _, f := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n)
		}
	}
	return out
}

func comm(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// spare waits until one is parked.
func (r *rig) spare() int {
	r.t.Helper()
	var parked int
	r.waitFor("a spare", func() bool {
		for _, pid := range r.named(stage.ParkedEntry) {
			if isParked(pid) {
				parked = pid
				return true
			}
		}
		return false
	})
	return parked
}

// isParked says whether a spare waits: then the descriptors of a start are free. One that a
// start has used has some of them, and none at all when it has ended.
func isParked(pid int) bool {
	has := func(fd int) bool {
		_, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
		return err == nil
	}
	return has(7) && !slices.ContainsFunc([]int{0, 1, 2, 3, 4, 5}, has)
}

// noSpare has the next start find a spare that is of no use, as after the OOM killer.
func (r *rig) noSpare() {
	r.t.Helper()
	pid := r.spare()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	r.waitFor("the end of the spare", func() bool { return strings.Contains("Z", stateOf(pid)) }) // it is reaped when it is found
}

// stateOf is the letter of a process's state, "" if there is none.
func stateOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:1]
}

// starts runs a test with a start that finds a spare, and with one that finds none. The
// supervisor may have one a moment later than it is seen: that the test has to find out.
func starts(t *testing.T, test func(t *testing.T, spare bool)) {
	t.Run("spare", func(t *testing.T) { test(t, true) })
	t.Run("no spare", func(t *testing.T) { test(t, false) })
}

// prepare waits for a spare, and takes it away unless it is wanted.
func (r *rig) prepare(spare bool) {
	r.t.Helper()
	if spare {
		r.spare()
	} else {
		r.noSpare()
	}
}

// wasSpare says whether an init was split off a spare: its arguments tell.
func (r *rig) wasSpare(init int) bool {
	r.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", init))
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.HasPrefix(string(text), "nomad-init\x00H") || strings.HasPrefix(string(text), stage.ParkedEntry)
}

// show prints what a program sees of itself. The shell reads its own files: while another
// program does, it may be about to wait.
const show = `for f in status limits cgroup oom_score_adj stat; do
	while read -r line; do echo "$line"; done < /proc/self/$f
done
tr '\0' '\n' < /proc/$$/environ
tr '\0' '\n' < /proc/$$/cmdline
ls -l /proc/$$/fd /proc/$$/ns
readlink /proc/$$/cwd /proc/$$/root /proc/$$/exe
cat /proc/$$/loginuid /proc/$$/sessionid /proc/$$/personality
read x < /proc/self/timerslack_ns; echo slack $x
echo 0 > /proc/self/timerslack_ns; read x < /proc/self/timerslack_ns; echo default slack $x
ulimit -a; umask; trap; id
ls -d /proc/[0-9]*
echo over; exec sleep 1000
`

// passing is what differs from run to run.
var passing = regexp.MustCompile(`(?m)^(Vm|Rss|voluntary_|nonvoluntary_|Hugetlb).*$|\b(mnt|ipc|pid|pid_for_children):\[\d+\]|\b[A-Z][a-z]{2} +\d+ \d\d:\d\d\b`)

// TestSpareIsNotSeen compares what a program sees: it can't tell how its stage was made.
func TestSpareIsNotSeen(t *testing.T) {
	r := newRig(t)
	c := r.client()
	first := r.own("sleep 1000")
	r.start(c, first)
	seen := map[bool]string{}
	spec := r.shown()
	starts(t, func(t *testing.T, spare bool) {
		for was := !spare; was != spare; {
			r.prepare(spare)
			task := r.start(c, spec)
			r.waitFor("the end", func() bool { return strings.HasSuffix(r.stdout(spec), "over\n") })
			was = r.wasSpare(task.Init)
			seen[was] = r.facts(spec)
			r.gone(c, spec)
		}
	})
	spare, none := strings.Split(seen[true], "\n"), strings.Split(seen[false], "\n")
	if len(spare) < 100 {
		t.Errorf("the program saw little:\n%s", seen[true])
	}
	for i := range max(len(spare), len(none)) {
		switch {
		case i >= len(spare) || i >= len(none):
			t.Fatalf("with a spare the program sees %d lines, without %d", len(spare), len(none))
		case spare[i] != none[i]:
			t.Errorf("with a spare the program sees\n\t%s\nwithout\n\t%s", spare[i], none[i])
		}
	}
}

// shown is a start of which everything is asked.
func (r *rig) shown() *supervise.Spec {
	r.t.Helper()
	spec := r.own("")
	policy, err := sandbox.Encode(&sandbox.Policy{Argv: []string{"/bin/sh", "-c", show}, Dir: "/usr", OOMScoreAdj: 17,
		PrivatePID: true, PrivateIPC: true, Mounts: &sandbox.Mounts{Proc: true}, Env: []string{"PATH=/usr/bin:/bin", "A=b"},
		User: &sandbox.User{UID: 4711, GID: 4712, Groups: []uint32{4713}}, Rlimits: []sandbox.Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 99, Hard: 100}},
		Seccomp: sandbox.SeccompNone})
	if err != nil {
		r.t.Fatal(err)
	}
	spec.Policy = policy
	return spec
}

// facts are what the program of spec printed, but for what differs from run to run.
func (r *rig) facts(spec *supervise.Spec) string {
	text := passing.ReplaceAllString(r.stdout(spec), "…")
	var out []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 52 { // of stat: session and the like, nice value and threads, signal at the end, scheduling
			f = slices.Concat(f[:9], f[18:20], f[37:38], f[39:41])
			line = strings.Join(f, " ")
		}
		line, _, _ = strings.Cut(line, "supervise-") // names of the record and of the group
		out = append(out, strings.TrimSpace(line))
	}
	return strings.Join(out, "\n")
}

// gone ends a task and removes its output.
func (r *rig) gone(c *supervise.Client, spec *supervise.Spec) {
	r.t.Helper()
	if _, err := c.Kill(r.t.Context(), spec.ID); err != nil {
		r.t.Fatal(err)
	}
	if err := c.Forget(r.t.Context(), spec.ID); err != nil {
		r.t.Fatal(err)
	}
	for _, name := range []string{spec.Logs.Name + ".stdout.0", proc.LogIndexName(spec.Logs.Name)} {
		if err := os.Remove(filepath.Join(r.logs, name)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestStoppedSpare: a start does not wait for one that does not run, and leaves nothing of it.
func TestStoppedSpare(t *testing.T) {
	r := newRig(t)
	c := r.client()
	r.start(c, r.own("sleep 1000"))
	pid := r.spare()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.waitFor("the stop", func() bool { return stateOf(pid) == "T" })
	r.waitFor("the end of the spare", func() bool { // by the first start that finds it
		s := r.own("exit 3")
		r.start(c, s)
		if exit := r.wait(c, s.ID); exit.Code != 3 {
			t.Errorf("exit = %+v, want 3", exit)
		}
		return !alive(pid)
	})
	if next := r.spare(); next == pid {
		t.Errorf("spare %d is still there", pid)
	}
}

// TestSpareIsKilledDuringStart: a stage without its runtime is not waited for.
func TestSpareIsKilledDuringStart(t *testing.T) {
	r := newRig(t)
	c := r.client()
	r.start(c, r.own("sleep 1000"))
	var pid int
	var s *supervise.Spec
	var over <-chan error
	var stage []int
	for s == nil || !r.wasSpare(stage[0]) {
		if s != nil {
			r.release(c, s, over)
		}
		pid, s = r.spare(), r.own("sleep 1000")
		over, stage = r.hang(c, s)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-over; err == nil { // else the task is known to have failed
		if exit := r.wait(c, s.ID); exit.Signal != int(unix.SIGKILL) {
			t.Errorf("exit = %+v, want SIGKILL", exit)
		}
	}
	for _, p := range append(stage, pid) {
		r.waitFor("their end", func() bool { return !alive(p) })
	}
}

// TestSpareEndsWithItsSupervisor, whichever way that goes.
func TestSpareEndsWithItsSupervisor(t *testing.T) {
	r := newRig(t)
	c := r.client()
	r.start(c, r.own("sleep 1000"))
	pid := r.spare()
	if err := c.Upgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alive(pid) { // nor is it a zombie, of a child that the next supervisor does not know
		t.Errorf("spare %d outlives the upgrade", pid)
	}
	pid = r.spare()
	r.crash()
	r.waitFor("the end of the spare", func() bool { return !alive(pid) })
	if _, err := c.Tasks(t.Context()); err != nil { // asks the next supervisor
		t.Fatal(err)
	}
	pid = r.spare()
	if err := c.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.waitFor("the end of the spare", func() bool { return !alive(pid) })
}

// TestSpareIsSmall: it is there all the time.
func TestSpareIsSmall(t *testing.T) {
	r := newRig(t)
	c := r.client()
	r.start(c, r.own("sleep 1000"))
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", r.spare()))
	if err != nil {
		t.Fatal(err)
	}
	var pss int
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, "Pss: %d kB", &pss) //nolint:errcheck // other lines
	}
	t.Logf("a spare has a PSS of %d KiB", pss)
	if limit := 3 << 10; pss > limit && companion.Embedded() {
		t.Errorf("a spare has a PSS of %d KiB, want at most %d", pss, limit)
	}
}
