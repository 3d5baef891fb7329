package identity_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// consulTemplates has a task in the sandbox and one without, with templates that read Consul, and a task without an identity.
const consulTemplates = `
job "reads" {
  group "g" {
    task "boxed" {
      driver = "exec2"
      consul {}
      config {
        command = "/bin/sleep"
        args    = ["600"]
      }
      template {
        destination = "local/x"
        change_mode = "noop"
        wait {
          min = "1ms"
          max = "1ms"
        }
        data = "{{ key \"app/limit\" }} {{ keyOrDefault \"app/none\" \"10\" }} {{ range ls \"app\" }}{{ .Key }} {{ end }}"
      }
      resources {
        cpu    = 10
        memory = 30
      }
    }
    task "plain" {
      driver = "raw_exec"
      consul {}
      config {
        command = "/bin/sleep"
        args    = ["600"]
      }
      template {
        destination = "local/x"
        change_mode = "noop"
        wait {
          min = "1ms"
          max = "1ms"
        }
        data = "{{ key \"app/limit\" }}{{ range nomadServices }}{{ .Name }}{{ end }}"
      }
      resources {
        cpu    = 10
        memory = 30
      }
    }
  }
}
`

// TestConsul_Templates renders keys of Consul in the real sandbox of exec2 and of the client, with the token of the task. The
// renders follow changes, also over a kill of the agent.
func TestConsul_Templates(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	c := testconsul.Start(t, testconsul.Config{ACL: true})
	a, dir := consulAgent(t, c, c.Management())
	for _, name := range []string{dir, filepath.Dir(dir)} { // for the user of the task
		if err := os.Chmod(name, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	trustCluster(t, c, a.Address()+"/.well-known/jwks.json")
	c.PutKey("app/limit", "one")
	harness.Run(t, a, consulTemplates)
	al := harness.Await(t, a, "reads", "running", 1)[0]
	file := func(task string) string {
		text, err := os.ReadFile(filepath.Join(dir, "d", "alloc", al.ID, task, "local", "x"))
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	want := func(value string) {
		t.Helper()
		harness.Within(t, harness.Patience, "the value "+value, func() bool {
			return file("boxed") == value+" 10 limit " && file("plain") == value
		})
	}
	want("one")
	c.PutKey("app/limit", "two")
	want("two")
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	c.PutKey("app/limit", "three")
	a = harness.Restart(t, a)
	want("three")
	for _, al := range harness.AllAllocs(t, a, "reads") {
		if text := strings.Join(messages(al, "boxed"), "\n"); strings.Contains(text, c.Management()) || !strings.Contains(text, "confined by driver exec2") {
			t.Errorf("events = %s", text)
		}
	}
	harness.StopAndWait(t, a, "reads", 1)
	harness.PurgeAll(t, a)
}
