package identity_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/vault/api"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// vaultTemplates has a task in the sandbox and one without, with templates that read Vault.
const vaultTemplates = `
job "shop" {
  group "g" {
    task "boxed" {
      driver = "exec2"
      vault {
        change_mode = "noop"
      }
      secret "db" {
        provider = "vault"
        path     = "secret/default/shop/db"
        config {
          engine = "kv_v2"
        }
      }
      env {
        DB = "${secret.db.pass}"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "[ -n \"$VAULT_TOKEN\" ] && [ \"$VAULT_TOKEN\" = \"$(cat \"$NOMAD_SECRETS_DIR/vault_token\")\" ] && echo token $DB; exec sleep 600"]
      }
      template {
        destination = "local/x"
        change_mode = "noop"
        wait {
          min = "1ms"
          max = "1ms"
        }
        data = "{{ with secret \"secret/default/shop/db\" }}{{ .Data.data.pass }}{{ end }} {{ range secrets \"secret/default/shop\" }}{{ . }} {{ end }}"
      }
      resources {
        cpu    = 10
        memory = 30
      }
    }
    task "plain" {
      driver = "raw_exec"
      vault {
        change_mode  = "noop"
        env          = false
        disable_file = true
      }
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
        data = "{{ with secret \"secret/data/default/shop/db\" }}{{ .Data.data.pass }}{{ end }}"
      }
      resources {
        cpu    = 10
        memory = 30
      }
    }
  }
}
`

// withoutBlock has a template for Vault, and no vault block.
const withoutBlock = `
job "curious" {
  type = "batch"
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts = 0
    }
    task "t" {
      driver = "exec2"
      config {
        command = "/bin/true"
      }
      template {
        destination = "local/x"
        data        = "{{ with secret \"secret/default/shop/db\" }}{{ .Data.data.pass }}{{ end }}"
      }
      resources {
        cpu    = 10
        memory = 30
      }
    }
  }
}
`

// The users of tasks in the sandbox. Tests of other packages run at the same time, so they have others.
const (
	vaultUser  = 85_700
	vaultUsers = 20
)

// vaultAgent starts an agent with a Vault that trusts it.
func vaultAgent(t *testing.T, v *testvault.Vault) (a *cluster.Agent, dir string) {
	t.Helper()
	dir = harness.TempDir(t)
	cfg := filepath.Join(dir, "c.hcl")
	harness.WriteFile(t, cfg, harness.TestDrivers+fmt.Sprintf("log_level = \"TRACE\"\nvault {\n enabled = true\n address = %q\n"+
		" default_identity {\n aud = [\"vault.io\"]\n ttl = \"1h\"\n }\n}\n"+
		"client {\n template {\n vault_default_lease_duration = \"1s\"\n }\n users {\n dynamic_user_min = %d\n dynamic_user_max = %d\n }\n}\n",
		v.Addr(), vaultUser, vaultUser+vaultUsers-1))
	a = harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "d"), "-config=" + cfg}})
	for _, name := range []string{dir, filepath.Dir(dir)} { // for the user of the task
		if err := os.Chmod(name, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "nomad", "setup", "vault", "-y", "-jwks-url="+a.Address()+"/.well-known/jwks.json")
	cmd.Env = append(os.Environ(), "VAULT_ADDR="+v.Addr(), "VAULT_TOKEN="+v.Root())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	harness.Within(t, harness.Patience, "the node has Vault", func() bool {
		node, _, err := a.Client.Nodes().Info(harness.NodeID(t, a), nil)
		return err == nil && node.Attributes["vault.version"] != ""
	})
	return a, dir
}

// tokenOfUser checks the token of task boxed, whose file belongs to its dynamic user, and that task plain has none. dir is that of
// the allocation.
func tokenOfUser(t *testing.T, dir string) {
	t.Helper()
	var file unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "boxed", "secrets", "vault_token"), &file); err != nil {
		t.Fatal(err)
	}
	if file.Uid < vaultUser || file.Uid >= vaultUser+vaultUsers || file.Mode&0o7777 != 0o640 {
		t.Errorf("the token of the task in the sandbox has owner %d and mode %o", file.Uid, file.Mode&0o7777)
	}
	harness.Within(t, harness.Patience, "the task in the sandbox reads its token and its secret", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "alloc", "logs", "boxed.stdout.0"))
		return err == nil && string(text) == "token one\n"
	})
	if err := unix.Stat(filepath.Join(dir, "plain", "secrets", "vault_token"), &file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the token of a task with disable_file: %v", err)
	}
}

// TestVault_Templates renders secrets of Vault in the real sandbox of exec2 and of the client, with the tokens of the tasks. The
// renders follow changes, over a kill of the agent and the loss of the tokens.
func TestVault_Templates(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	v := testvault.Start(t, testvault.Config{})
	v.Expect("unknown token")
	config := api.DefaultConfig()
	config.Address = v.Addr()
	root, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	root.SetToken(v.Root())
	put := func(value string) {
		t.Helper()
		data := map[string]any{"data": map[string]any{"pass": value}}
		if _, err := root.Logical().WriteWithContext(t.Context(), "secret/data/default/shop/db", data); err != nil {
			t.Fatal(err)
		}
	}
	a, dir := vaultAgent(t, v)
	put("one")
	harness.Run(t, a, vaultTemplates)
	al := harness.Await(t, a, "shop", "running", 1)[0]
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
			return file("boxed") == value+" db " && file("plain") == value
		})
	}
	want("one")
	tokenOfUser(t, filepath.Join(dir, "d", "alloc", al.ID))
	put("two")
	want("two")
	tokens := v.Tokens()
	if len(tokens) != 2 {
		t.Errorf("%d tokens", len(tokens))
	}
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	put("three")
	a = harness.Restart(t, a)
	want("three")
	if again := v.Tokens(); strings.Join(again, " ") != strings.Join(tokens, " ") {
		t.Errorf("the tokens changed from %d to %d", len(tokens), len(again))
	}
	for _, id := range tokens {
		v.Lost(id)
	}
	put("four")
	want("four")
	for _, al := range harness.AllAllocs(t, a, "shop") {
		text := strings.Join(append(messages(al, "boxed"), messages(al, "plain")...), "\n")
		for _, id := range append(tokens, v.Tokens()...) {
			if strings.Contains(text, id) {
				t.Errorf("a token in the events: %s", text)
			}
		}
		if strings.Contains(text, "Cannot read") || !strings.Contains(text, "confined by driver exec2") {
			t.Errorf("events = %s", text)
		}
	}
	harness.Run(t, a, withoutBlock)
	failed := harness.Await(t, a, "curious", "failed", 1)[0]
	if text := strings.Join(messages(harness.AllAllocs(t, a, "curious")[0], "t"), "\n"); !strings.Contains(text, "the task has no vault block") {
		t.Errorf("events of %s = %s", failed.ID, text)
	}
	harness.StopAndWait(t, a, "shop", 1)
	harness.Within(t, harness.Patience, "the tokens are revoked", func() bool { return len(v.Tokens()) == 0 })
	harness.PurgeAll(t, a)
}
