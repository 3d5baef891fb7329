package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/testkernel"
)

// ordinary is a user without any rights.
const ordinary = 65534

// TestRootless has an agent that is an ordinary user run a job of exec2. As root it runs
// itself as that user.
func TestRootless(t *testing.T) {
	rootless(t, testkernel.Kernel{}, true)
}

// TestRootlessAlone does so where user namespaces are forbidden.
func TestRootlessAlone(t *testing.T) {
	rootless(t, testkernel.Kernel{NoUserNamespaces: true}, false)
}

func rootless(t *testing.T, k testkernel.Kernel, namespaces bool) {
	t.Helper()
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABIScopes {
		t.Skipf("needs Landlock ABI %d: have %d, %v", landlock.ABIScopes, abi, err)
	}
	if os.Geteuid() == 0 {
		asOrdinary(t, k)
		return
	}
	a := devAgent(t)
	t.Cleanup(func() { purgeAll(t, a) })
	var node *api.Node
	within(t, patience, "the driver has answered", func() bool {
		node = onlyNode(t, a)
		return node.Attributes["driver.exec2.level"] != ""
	})
	if got := node.Attributes["driver.exec2.level"]; got != "baseline" {
		t.Errorf("level %q, want baseline: there are no limits", got)
	}
	lacks := node.Attributes["driver.exec2.lacks"]
	if !strings.Contains(lacks, "control group, a uid per task") || strings.Contains(lacks, "PID namespace") == namespaces {
		t.Errorf("lacks %q, namespaces %t", lacks, namespaces)
	}
	script := `id -u; echo number $$; cat /etc/passwd; unshare -U true; echo made > $NOMAD_SECRETS_DIR/f && cat $NOMAD_SECRETS_DIR/f; sleep 600`
	id, _ := run(t, a, job("rootless", "", sandboxed(inShell(script))))
	al := await(t, a, id, "running", 1)[0]
	within(t, patience, "the task has tried all", func() bool { return strings.HasSuffix(log(a, al), "made\n") })
	text := log(a, al)
	if !strings.HasPrefix(text, "65534\n") || strings.Contains(text, "root:") || strings.Contains(text, "number 2\n") != namespaces {
		t.Errorf("the task says %q, own namespaces: %t", text, namespaces)
	}
	if got := event(t, al, "t", api.TaskStarted); got == nil {
		t.Error("the task has no event of its start")
	}
	for _, e := range al.TaskStates["t"].Events {
		if strings.Contains(e.Type, "Mismatch") {
			t.Errorf("the sandbox is told to be other than declared: %s", e.DisplayMessage)
		}
	}
	stopped(t, a, id, 1)
}

// onlyNode is the node of an agent in dev mode.
func onlyNode(t *testing.T, a *cluster.Agent) *api.Node {
	t.Helper()
	nodes, _, err := a.Client.Nodes().List(nil)
	if err != nil || len(nodes) != 1 {
		t.Fatalf("nodes = %v, %v, want one", nodes, err)
	}
	node, _, err := a.Client.Nodes().Info(nodes[0].ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// asOrdinary runs the same test as an ordinary user, on a sparser kernel if need be.
func asOrdinary(t *testing.T, k testkernel.Kernel) {
	t.Helper()
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	bin, home := filepath.Join(dir, "e2e.test"), filepath.Join(dir, "home")
	if err := os.WriteFile(bin, program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, ordinary, ordinary); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=3m")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = home, []string{"TMPDIR=" + home, "HOME=" + home, "PATH=/usr/bin:/bin"}, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	if err := k.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || strings.Contains(out.String(), "SKIP") {
		t.Errorf("as uid %d: %v\n%s", ordinary, err, &out)
	}
}
