package jobs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/testkernel"
)

// ordinary is a user without privileges.
const ordinary = 65534

// TestRootless runs an exec2 job on an agent of an ordinary user. As root it runs itself as that
// user.
func TestRootless(t *testing.T) {
	rootless(t, testkernel.Kernel{}, true)
}

// TestRootlessAlone does so without user namespaces.
func TestRootlessAlone(t *testing.T) {
	rootless(t, testkernel.Kernel{NoUserNamespaces: true}, false)
}

func rootless(t *testing.T, k testkernel.Kernel, namespaces bool) {
	t.Helper()
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABIScopes {
		t.Skipf("needs Landlock ABI %d: have %d, %v", landlock.ABIScopes, abi, err)
	}
	if os.Geteuid() == 0 {
		k.Rerun(t, ordinary, "")
		return
	}
	a := harness.DevAgent(t)
	t.Cleanup(func() { harness.PurgeAll(t, a) })
	var node *api.Node
	harness.Within(t, harness.Patience, "the driver has answered", func() bool {
		node = onlyNode(t, a)
		return node.Attributes["driver.exec2.level"] != ""
	})
	want := "host" // the namespaces are missing, too
	if namespaces {
		want = "baseline"
	}
	if got := node.Attributes["driver.exec2.level"]; got != want {
		t.Errorf("level %q, want %s: there are no limits", got, want)
	}
	lacks := node.Attributes["driver.exec2.lacks"]
	if !strings.Contains(lacks, "limits (") || !strings.Contains(lacks, "user (a user that only this task has)") ||
		strings.Contains(lacks, "namespaces (") == namespaces {
		t.Errorf("lacks %q, namespaces %t", lacks, namespaces)
	}
	script := `id -u; echo number $$; cat /etc/passwd; unshare -U true; echo made > $NOMAD_SECRETS_DIR/f && cat $NOMAD_SECRETS_DIR/f; sleep 600`
	id, _ := harness.Run(t, a, harness.Job("rootless", "", harness.Sandboxed(harness.InShell(script))))
	al := harness.Await(t, a, id, "running", 1)[0]
	harness.Within(t, harness.Patience, "the task has tried all", func() bool { return strings.HasSuffix(harness.Log(a, al), "made\n") })
	text := harness.Log(a, al)
	if !strings.HasPrefix(text, "65534\n") || strings.Contains(text, "root:") || strings.Contains(text, "number 2\n") != namespaces {
		t.Errorf("the task printed %q, own namespaces: %t", text, namespaces)
	}
	if got := harness.Event(t, al, "t", api.TaskStarted); got == nil {
		t.Error("the task has no event of its start")
	}
	for _, e := range al.TaskStates["t"].Events {
		if strings.Contains(e.Type, "Mismatch") {
			t.Errorf("the sandbox is reported as different from the declaration: %s", e.DisplayMessage)
		}
	}
	harness.StopAndWait(t, a, id, 1)
}

// onlyNode returns the node of an agent that is the only client.
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
