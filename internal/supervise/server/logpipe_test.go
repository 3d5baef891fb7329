package server_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// unprivileged returns a task of an ordinary user, with its own PID namespace and /proc.
func (r *rig) unprivileged(script string) *proc.Spec {
	r.t.Helper()
	s := r.withInit("")
	const uid, gid = 4711, 4712
	policy, err := sandbox.Encode(&sandbox.Policy{Argv: []string{"/bin/sh", "-c", script}, Dir: "/",
		PrivatePID: true, Mounts: &sandbox.Mounts{Proc: true}, Env: []string{"PATH=/usr/bin:/bin"},
		User: &sandbox.User{UID: uid, GID: gid}, Seccomp: sandbox.SeccompNone})
	if err != nil {
		r.t.Fatal(err)
	}
	s.Policy, s.Owner = policy, &proc.Owner{UID: uid, GID: gid}
	return s
}

// probeLogPipes tries to read both log pipes, and writes to them.
const probeLogPipes = `exec 8>&1 9>&2
for n in 8 9; do
	while read -r name flags; do
		[ $name = flags: ] && echo "access mode ${flags#"${flags%?}"}"
	done < /proc/self/fdinfo/$n
	chmod 666 /proc/self/fd/$n 2>/dev/null && echo changed the mode
	failure=$( (: < /proc/self/fd/$n) 2>&1 ); echo "read: ${failure##*: }"
	failure=$( (: <> /proc/self/fd/$n) 2>&1 ); echo "read and write: ${failure##*: }"
	echo appended >> /proc/self/fd/$n
done
for n in 1 2; do
	(: < /proc/1/fd/$n) 2>/dev/null && echo read the pipe of init
done
echo over
exec sleep 1000
`

// A task can write to its log pipes and open them for writing. It cannot read them, which would
// take output of its other processes from the collector.
func TestLogPipeIsWriteOnly(t *testing.T) {
	const stream = "access mode 1\nread: Permission denied\nread and write: Permission denied\n"
	const want = stream + "appended\n" + stream + "over\n"
	r := newRig(t)
	c := r.client()
	s := r.unprivileged(probeLogPipes)
	r.start(c, s)
	testpace.Until(r.t, "the end", func() bool { return strings.HasSuffix(r.stdout(s), "over\n") })
	if got := r.stdout(s); got != want {
		t.Errorf("stdout = %q, want %q", got, want)
	}
	if _, err := c.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
}

// A task that writes without a supervisor gets no SIGPIPE and loses nothing.
func TestLogPipeOutlivesSupervisor(t *testing.T) {
	r := newRig(t)
	c := r.client()
	s := r.unprivileged("trap 'echo alone; exec 3< /dev/null' USR1; trap 'echo adopted' USR2; echo up; while :; do sleep 0.005; done")
	task := r.start(c, s)
	testpace.Until(r.t, "the first line", func() bool { return r.stdout(s) == "up\n" })
	r.crash()
	if err := unix.Kill(task.PID, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	testpace.Until(r.t, "the second line", func() bool {
		_, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/3", task.PID))
		return err == nil || !alive(task.Init)
	})
	got, err := c.Task(t.Context(), s.ID) // starts the next supervisor
	if err != nil || got.Exit != nil {
		t.Fatalf("Task() = %+v, %v, want it running", got, err)
	}
	if err := c.Signal(t.Context(), s.ID, syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	testpace.Until(r.t, "the last line", func() bool { return r.stdout(s) == "up\nalone\nadopted\n" })
}
