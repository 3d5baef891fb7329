package e2e

import (
	"context"
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
)

// canary is in the agent's environment and must not reach a sandboxed task.
const canary = "canary-b8f1e2"

// sandboxAgent starts an agent with a data directory and an environment full of secrets. The test
// is skipped where the sandbox is incomplete.
func sandboxAgent(t *testing.T) (a *cluster.Agent, data string) {
	t.Helper()
	needsWholeSandbox(t)
	dir := outsideTmp(t)
	data = filepath.Join(dir, "data")
	cfg := filepath.Join(dir, "exec2.hcl")
	write(t, cfg, "plugin \"exec2\" {\n  config {\n    unveil_by_task = true\n  }\n}\nplugin \"raw_exec\" {\n  config {\n    enabled = true\n    legacy_privileged_behavior = true\n  }\n}\naudit {\n  enabled = true\n}\n")
	a = start(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + data, "-config=" + cfg, "-log-level=TRACE"},
		Env: []string{"AWS_SECRET_ACCESS_KEY=" + canary, "LD_LIBRARY_PATH=/" + canary, "GLIBC_TUNABLES=glibc.malloc.check=" + canary, "NOMAD_TOKEN=",
			"VAULT_TOKEN=" + canary, "PLAIN=" + canary, "GODEBUG=http2debug=0," + canary + "=1"}})
	t.Cleanup(func() { purgeAll(t, a) })
	return a, data
}

// outsideTmp returns a directory that tasks see, unlike the host's /tmp, and can pass through.
func outsideTmp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "nomad-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cleared(t, dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// purgeAll stops every job, so that no task outlives its agent.
func purgeAll(t *testing.T, a *cluster.Agent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // the test's context may have ended
	defer cancel()
	if err := a.Purge(ctx); err != nil {
		t.Error(err)
	}
}

// oneTask returns a batch job of one sandboxed task.
func oneTask(id, command string, args ...string) *api.Job {
	kind, cpu, memory, attempts, mode, unlimited := "batch", 100, 128, 0, "fail", false
	return &api.Job{ID: &id, Name: &id, Type: &kind, TaskGroups: []*api.TaskGroup{{Name: &id,
		RestartPolicy:    &api.RestartPolicy{Attempts: &attempts, Mode: &mode},
		ReschedulePolicy: &api.ReschedulePolicy{Attempts: &attempts, Unlimited: &unlimited},
		Tasks: []*api.Task{{Name: "t", Driver: "exec2", Resources: &api.Resources{CPU: &cpu, MemoryMB: &memory},
			Config: map[string]any{"command": command, "args": args}}}}}}
}

// probeJob returns a task that tries attacks.
func probeJob(t *testing.T, a *cluster.Agent, id string, tries ...[2]string) *api.Job {
	t.Helper()
	self := reachable(t, a.Dir)
	args := []string{"probe"}
	for _, try := range tries {
		args = append(args, try[0], try[1])
	}
	job := oneTask(id, self, args...)
	job.TaskGroups[0].Tasks[0].Config["unveil"] = []string{"rx:" + self, "r:/proc/self/status"}
	return job
}

// reachable copies this program to a place that tasks can reach.
func reachable(t *testing.T, dir string) string {
	t.Helper()
	at := filepath.Join(dir, "probe")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(at); err == nil {
		return at
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return at
}

// registers registers a job and retries until it is acknowledged.
func registers(t *testing.T, a *cluster.Agent, job *api.Job) {
	t.Helper()
	acked(t, "Register "+*job.ID, func() error {
		_, _, err := a.Client.Jobs().Register(job, nil)
		return err
	})
}

// register registers a job and waits until its only allocation has the status.
func register(t *testing.T, a *cluster.Agent, job *api.Job, status string) *api.AllocationListStub {
	t.Helper()
	registers(t, a, job)
	var out *api.AllocationListStub
	within(t, 30*time.Second, *job.ID+" is "+status, func() bool {
		allocs, _, err := a.Client.Jobs().Allocations(*job.ID, true, nil)
		if err != nil || len(allocs) != 1 {
			return false
		}
		if out = allocs[0]; status != out.ClientStatus && out.ClientStatus == api.AllocClientStatusFailed {
			for _, ev := range out.TaskStates["t"].Events {
				t.Log(ev.Type, ev.DisplayMessage)
			}
			t.Fatalf("%s failed: %s", *job.ID, log(a, out))
		}
		return out.ClientStatus == status
	})
	return out
}

// pidIn returns the process of the task whose working directory is below dir.
func pidIn(t *testing.T, dir string) int {
	t.Helper()
	var found int
	within(t, 10*time.Second, "a process in "+dir, func() bool {
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
	a, data := sandboxAgent(t)
	victim := register(t, a, oneTask("victim", "/bin/sh", "-c", "echo of-the-victim; echo x > $NOMAD_SECRETS_DIR/own; echo x > $NOMAD_TASK_DIR/own; chmod 666 $NOMAD_TASK_DIR/own; sleep 600"), "running")
	there := filepath.Join(data, "alloc", victim.ID)
	within(t, patience, "the victim has something to lose, and only sleeps", func() bool {
		info, err := os.Stat(there + "/t/local/own")
		return err == nil && info.Mode().Perm() == 0o666 && log(a, victim) != ""
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
	for _, dir := range []string{"/", "/etc", "/root", "/proc", "/var/tmp", data, filepath.Join(data, "client"), filepath.Join(data, "server"), filepath.Join(data, "alloc"),
		there, there + "/t", there + "/t/local", there + "/t/secrets", there + "/alloc", there + "/alloc/logs", there + "/alloc/data"} {
		try(dir, "list", "create", "chmod", "chown", "utime", "rename", "mknod")
		if dir != there+"/alloc/data" { // open to every UID, and Landlock does not restrict attributes
			try(dir, "xattr")
		}
	}
	for _, file := range []string{"/etc/shadow", "/etc/passwd", "/etc/hosts", data + "/client/state.db", data + "/client/secret-id", data + "/client/client-id", data + "/server/node-id",
		data + "/server/raft/wal/wal-meta.db", there + "/t/secrets/own", there + "/t/local/own", there + "/alloc/logs/t.stdout.0", "/bin/true", "/proc/sys/kernel/core_pattern"} {
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
	for _, flag := range []int{unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWNET, unix.CLONE_NEWPID, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC, unix.CLONE_NEWCGROUP, unix.CLONE_NEWTIME} {
		try(strconv.Itoa(flag), "unshare")
	}
	const x32 = 0x40000000
	for _, nr := range []int{unix.SYS_CLONE3, unix.SYS_BPF, unix.SYS_IO_URING_SETUP, unix.SYS_KEYCTL, unix.SYS_MOUNT, unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN,
		unix.SYS_SETNS, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE} {
		try(strconv.Itoa(nr), "syscall")
		try(strconv.Itoa(nr|x32), "syscall")
	}
	try(strconv.Itoa(unix.SYS_SOCKET|x32), "syscall")
	try("0", "setuid", "setgid", "groups", "suid")
	try("/", "chroot")
	try(canary, "canary")

	done := register(t, a, probeJob(t, a, "attacker", tries...), "complete")
	text := log(a, done)
	if strings.Count(text, " denied: ") != len(tries) || !strings.Contains(text, "-- end") {
		for line := range strings.Lines(text) {
			if strings.Contains(line, " ALLOWED") {
				t.Errorf("attack succeeded: %s", line)
			}
		}
		t.Errorf("%d attacks of %d were denied", strings.Count(text, " denied: "), len(tries))
	}
	for _, want := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000",
		"CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "Groups:\t \n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the task's status lacks %q", want)
		}
	}
	if got := log(a, victim); got != "of-the-victim\n" {
		t.Errorf("the victim's log is %q", got)
	}
	cleanEnvironment(t, super)
	// The supervisor may be protected from the OOM killer; its tasks must not be.
	if score := content(t, fmt.Sprintf("/proc/%d/oom_score_adj", vpid)); strings.HasPrefix(score, "-") {
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
	for _, word := range []string{canary, "LD_", "GODEBUG", "GLIBC_TUNABLES"} {
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
