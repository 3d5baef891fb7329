package security_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// probeJob returns a task that tries attacks.
func probeJob(t *testing.T, a *cluster.Agent, id string, tries ...[2]string) *api.Job {
	t.Helper()
	self := harness.CopyProgram(t, a.Dir)
	args := []string{"probe"}
	for _, try := range tries {
		args = append(args, try[0], try[1])
	}
	job := harness.OneTask(id, self, args...)
	job.TaskGroups[0].Tasks[0].Config["unveil"] = []string{"rx:" + self, "r:/proc/self/status"}
	return job
}

// pidIn returns the process of the task whose working directory is below dir.
func pidIn(t *testing.T, dir string) int {
	t.Helper()
	var found int
	harness.Within(t, 10*time.Second, "a process in "+dir, func() bool {
		all, err := filepath.Glob("/proc/[0-9]*/cwd")
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range all {
			if at, err := os.Readlink(link); err == nil && strings.HasPrefix(at, dir) {
				found, _ = strconv.Atoi(strings.Split(link, "/")[2])
				return true
			}
		}
		return false
	})
	return found
}

// A task that attacks the agent, the supervisor, the servers' state and another task achieves
// nothing.
func TestSandboxHolds(t *testing.T) {
	a, data := harness.SandboxAgent(t)
	victim := harness.Register(t, a, harness.OneTask("victim", "/bin/sh", "-c",
		"echo of-the-victim; echo x > $NOMAD_SECRETS_DIR/own; echo x > $NOMAD_TASK_DIR/own; chmod 666 $NOMAD_TASK_DIR/own; sleep 600"), "running")
	there := filepath.Join(data, "alloc", victim.ID)
	harness.Within(t, harness.Patience, "the victim has something to lose, and only sleeps", func() bool {
		info, err := os.Stat(there + "/t/local/own")
		return err == nil && info.Mode().Perm() == 0o666 && harness.Log(a, victim) != ""
	})
	vpid := pidIn(t, there)
	super := parentOf(t, vpid)
	supervisor, agent, task := strconv.Itoa(super), strconv.Itoa(a.Pid()), strconv.Itoa(vpid)

	var tries [][2]string
	try := func(target string, kinds ...string) {
		for _, k := range kinds {
			tries = append(tries, [2]string{k, target})
		}
	}
	for _, pid := range []string{agent, supervisor, task, "1"} {
		try(pid, "kill", "ptrace", "pidfd", "vmread", "nice", "affinity", "prlimit")
		for _, name := range []string{"environ", "maps", "mem", "cmdline", "status", "auxv", "root/etc/shadow"} {
			try("/proc/"+pid+"/"+name, "read")
		}
		try("/proc/"+pid+"/fd", "list")
		try("/proc/"+pid+"/oom_score_adj", "write")
	}
	for _, dir := range []string{"/", "/etc", "/root", "/proc", "/var/tmp", data, filepath.Join(data, "client"),
		filepath.Join(data, "server"), filepath.Join(data, "alloc"),
		there, there + "/t", there + "/t/local", there + "/t/secrets", there + "/alloc", there + "/alloc/logs", there + "/alloc/data"} {
		try(dir, "list", "create", "chmod", "chown", "utime", "rename", "mknod")
		if dir != there+"/alloc/data" { // open to every UID, and Landlock does not restrict attributes
			try(dir, "xattr")
		}
	}
	for _, file := range []string{"/etc/shadow", "/etc/passwd", "/etc/hosts", data + "/client/state.db", data + "/client/secret-id",
		data + "/client/client-id", data + "/server/node-id",
		data + "/server/raft/wal/wal-meta.db", there + "/t/secrets/own", there + "/t/local/own", there + "/alloc/logs/t.stdout.0", "/bin/true",
		"/proc/sys/kernel/core_pattern"} {
		kinds := []string{"write", "truncate", "rename", "remove", "link", "chmod", "chown", "utime", "xattr"}
		if file != "/etc/hosts" && file != "/bin/true" {
			kinds = append(kinds, "read")
		}
		try(file, kinds...)
	}
	for _, sock := range []string{data + "/client/supervise/sock", there + "/t/secrets/api.sock"} {
		try(sock, "connect", "remove", "chmod")
	}
	for _, what := range []string{"raw", "raw6", "packet", "mptcp", "mptcp6", "vsock", "alg", "bluetooth"} {
		try(what, "socket")
	}
	for _, flag := range []int{unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWNET, unix.CLONE_NEWPID, unix.CLONE_NEWUTS,
		unix.CLONE_NEWIPC, unix.CLONE_NEWCGROUP, unix.CLONE_NEWTIME} {
		try(strconv.Itoa(flag), "unshare")
	}
	const x32 = 0x40000000
	for _, nr := range []int{unix.SYS_CLONE3, unix.SYS_BPF, unix.SYS_IO_URING_SETUP, unix.SYS_KEYCTL, unix.SYS_MOUNT, unix.SYS_USERFAULTFD,
		unix.SYS_PERF_EVENT_OPEN,
		unix.SYS_SETNS, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE} {
		try(strconv.Itoa(nr), "syscall")
		try(strconv.Itoa(nr|x32), "syscall")
	}
	try(strconv.Itoa(unix.SYS_SOCKET|x32), "syscall")
	try("0", "setuid", "setgid", "groups", "suid")
	try("/", "chroot")
	try(harness.Canary, "canary")

	done := harness.Register(t, a, probeJob(t, a, "attacker", tries...), "complete")
	text := harness.Log(a, done)
	if strings.Count(text, " denied: ") != len(tries) || !strings.Contains(text, "-- end") {
		for line := range strings.Lines(text) {
			if strings.Contains(line, " ALLOWED") {
				t.Errorf("attack succeeded: %s", line)
			}
		}
		t.Errorf("%d attacks of %d were denied", strings.Count(text, " denied: "), len(tries))
	}
	for _, want := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
		"CapBnd:\t0000000000000000",
		"CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "Groups:\t \n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the task's status lacks %q", want)
		}
	}
	if got := harness.Log(a, victim); got != "of-the-victim\n" {
		t.Errorf("the victim's log is %q", got)
	}
	cleanEnvironment(t, super)
	// The supervisor may be protected from the OOM killer; its tasks must not be.
	if score := harness.Content(t, fmt.Sprintf("/proc/%d/oom_score_adj", vpid)); strings.HasPrefix(score, "-") {
		t.Errorf("the task's OOM score is %s", score)
	}
}

// cleanEnvironment checks the environment of a root process that serves tasks.
func cleanEnvironment(t *testing.T, pid int) {
	t.Helper()
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{harness.Canary, "LD_", "GODEBUG", "GLIBC_TUNABLES"} {
		if strings.Contains(string(env), word) {
			t.Errorf("the supervisor's environment holds %s: %q", word, env)
		}
	}
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "PPid:")
	parent, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}
