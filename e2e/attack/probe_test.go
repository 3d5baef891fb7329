package attack_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/e2e/attack"
)

// never are operations that fail even without a sandbox, with the reason to try them.
var never = map[string]string{
	"identity/undo-no-new-privileges": "the kernel has no way back",
	"identity/blocked-signals":        "the test blocks none",
	"connect/start-by-supervisor":     "the socket of the test does not answer",
}

// perhaps are operations that root may not do on some machines.
var perhaps = map[string]string{
	"device/disk":               "device groups",
	"process/change-memory-map": "needs CAP_SYS_RESOURCE",
	"schedule/own-limits":       "needs CAP_SYS_RESOURCE",
	"process/core-dump":         "needs CAP_SYS_RESOURCE where the limit is 0",
	"schedule/limits-user":      "needs CAP_SYS_RESOURCE",
	"schedule/own-oom-score":    "needs CAP_SYS_RESOURCE",
	"socket/ping":               "needs a group of net.ipv4.ping_group_range",
	"kernel/legacy-call":        "a kernel may have no 32-bit calls",
}

// missing are the errors of a kernel without the feature.
var missing = []string{"denied ENOSYS", "denied EAFNOSUPPORT", "denied EPROTONOSUPPORT", "denied ESOCKTNOSUPPORT"}

// Without a sandbox, as root, every operation succeeds. This shows that the sandbox causes the
// denials in the tables. Missing features of the machine are "absent".
func TestProbeSucceedsUnconfined(t *testing.T) {
	g := newGround(t)
	alloc := filepath.Join(g.dir, "unconfined")
	for _, d := range []string{"", "probe", "probe/local", "probe/secrets", "alloc", "alloc/logs", "mate", "mate/local", "mate/secrets"} {
		g.mkdir(filepath.Join("unconfined", d), 0o777)
	}
	g.layNeighbour(filepath.Join(alloc, "probe"), filepath.Join(alloc, "mate"))
	g.targets.Neighbour, g.targets.Supervisor, g.targets.Init = g.targets.Root, g.targets.Root, g.targets.Root
	l, err := net.Listen("unix", filepath.Join(g.dir, "supervisor.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g.targets.SupervisorSocket, g.targets.HTTP = l.Addr().String(), g.targets.TCP
	lay(t, filepath.Join(g.dir, "secret"), 0o600) // next to the socket
	cmd := exec.Command(g.probe, "run", g.writeTargets())
	cmd.Env = []string{"NOMAD_TASK_DIR=" + alloc + "/probe/local", "NOMAD_SECRETS_DIR=" + alloc + "/probe/secrets",
		"NOMAD_ALLOC_DIR=" + alloc + "/alloc", "AGENT=" + canary, "LD_EVIL=1", "GLIBC_TUNABLES=evil"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWUTS,
		Credential: &syscall.Credential{Groups: []uint32{42}}, AmbientCaps: []uintptr{unix.CAP_KILL}}
	stray, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer stray.Close()
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = strings.NewReader("input"), &out, &out, []*os.File{stray}
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	got := results(t, out.String())
	for _, op := range attack.Operations() {
		v := got[op.Name]
		why, exempt := never[op.Name]
		_, may := perhaps[op.Name]
		if may {
			continue
		}
		switch ok := v == "allowed" || strings.HasPrefix(v, "absent") || slices.Contains(missing, v); {
		case !ok && !exempt:
			t.Errorf("%s = %s, want allowed: the operation proves nothing", op.Name, v)
		case v == "allowed" && exempt:
			t.Errorf("%s is allowed, though listed as: %s", op.Name, why)
		}
	}
}
