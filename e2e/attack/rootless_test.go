package attack_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/internal/landlock"
)

const (
	sameUser = "the task has the agent's user and no PID namespace, and the kernel asks for the uid only: " +
		"give the agent root, or allow user namespaces"
	sameFiles = "log files are the agent's user's, which the task is, and there is no mount namespace to make them read-only"
	pathOnly  = "before ABI 9 Landlock has no right for sockets in the file system, and the task is the user whose socket it is"
)

// rootless are the columns of testdata/rootless.txt: the agent and its tasks run as the same
// ordinary user.
var rootless = []situation{
	{name: "rootless", agent: namedUser, block: "allow_unprivileged = true", allows: append([]reason{
		{"schedule/priority-init", ownInit}, {"schedule/affinity-init", ownInit}, {"schedule/limits-init", ownInit},
	}, withoutRoot...)},
	{name: "rootless-alone", agent: namedUser, block: "allow_unprivileged = true", alone: true, allows: append([]reason{
		{"schedule/", sameUser},
		{"proc/stat-", "the host's /proc lists the processes of all: it is not granted, but Landlock does not cover stat"},
		{"connect/supervisor", pathOnly + ". The supervisor asks for a secret that the task cannot read"},
		{"connect/user-session", pathOnly + ". Nothing hides it: do not run such an agent as the user of a session"},
		{"connect/run", "before ABI 9 Landlock has no right for sockets in the file system, and there is no mount namespace to hide them"},
		{"files/run-stat", "Landlock does not cover stat, and there is no mount namespace to hide what is there"},
		{"neighbour/api-socket", pathOnly + ". It asks for a token"},
		{"own/log-pipe-read", "only init could keep the pipe open for reading in the task's stead, and there is no PID namespace"},
		{"own/log-", sameFiles}, {"own/replace-logs", sameFiles}, {"mate/log-", sameFiles},
		{"files/agent-audit-mode", "the task has the agent's user, and there is no mount namespace to hide the file. Its content is closed"},
		{"identity/bounding-set", "an ordinary user cannot change it; no_new_privs keeps every program from using it"},
	}, withoutRoot...)},
}

// ownInit is the reason why a task may change process 1 of its PID namespace.
const ownInit = "it is the process 1 of the task itself, of the task's user"

// withoutRoot are the reasons for all agents without root.
var withoutRoot = []reason{
	{"own/secrets-", "secrets are on disk: a memory file system takes root"},
	{"mate/api-socket", "tasks of one allocation are one user and reach each other's API socket, which asks for a token"},
}

// The tasks of an agent without root may do exactly what the table allows.
func TestRootlessTable(t *testing.T) {
	needs(t, landlock.ABIAudit)
	check(t, "rootless", rootless)
}

// lowerAgent prepares an agent of an ordinary user: its data directory, and a program that it can
// read. For root it changes nothing.
func (g *ground) lowerAgent(program string) (*syscall.Credential, string) {
	t := g.t
	t.Helper()
	if g.agentUser == "" {
		return nil, program
	}
	uid, gid := lookup(t, g.agentUser)
	g.mkdir("data", 0o711)
	if err := os.Chown(g.targets.DataDir, uid, gid); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(g.dir, "agent.test")
	if err := os.WriteFile(at, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, at
}

// taskOf returns the process of an allocation's task, found by its environment: there are no
// control groups.
func (h *host) taskOf(alloc string) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && bytes.Contains(env, []byte("NOMAD_ALLOC_ID="+alloc+"\x00")) {
			return pid
		}
	}
	h.t.Fatalf("no process of allocation %s", alloc)
	return 0
}
