package identity_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// TestVault_ACL checks that the right submit-job is enough for a job whose task logs in to Vault.
func TestVault_ACL(t *testing.T) {
	t.Parallel() // it mostly waits
	w := startVault(t, "acl {\n enabled = true\n}\n"+fastTemplates, func(o *cluster.Options) { o.Secret = harness.BootSecret })
	defer w.purge()
	w.trust()
	rules := "namespace \"default\" {\n capabilities = [\"submit-job\"]\n}\n"
	if _, err := w.a.Client.ACLPolicies().Upsert(&api.ACLPolicy{Name: "submit", Rules: rules}, nil); err != nil {
		t.Fatal(err)
	}
	token, _, err := w.a.Client.ACLTokens().Create(&api.ACLToken{Type: "client", Policies: []string{"submit"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.store("shop") // the secret blocks need no right in the cluster either
	job, err := w.a.Client.Jobs().ParseHCL(vaultJob("shop", secretTask("shop", "t", "", "")), true)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.a.Client.Jobs().Register(job, &api.WriteOptions{AuthToken: token.SecretID}); err != nil {
		t.Fatal(err)
	}
	w.follows("shop", w.running("shop", "t", 1), 1)
	harness.StopAndWait(t, w.a, "shop", 1)
	w.none()
}

// TestVault_NodeLost checks the tokens of a node that the servers have lost, and that returns.
func TestVault_NodeLost(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	v := testvault.Start(t, testvault.Config{})
	block := fmt.Sprintf("vault {\n enabled = true\n address = %q\n default_identity {\n aud = [\"vault.io\"]\n ttl = \"2h\"\n}\n}\n", v.Addr())
	f := harness.NewFleet(t, block+"server {\n heartbeat_grace = \"1s\"\n min_heartbeat_ttl = \"1s\"\n max_heartbeats_per_second = 100\n}\n")
	w := &onVault{t: t, owner: t, v: v, a: f.Server, dir: filepath.Join(f.Dir, "one")}
	defer f.Purge()
	client := f.Join("one", block+fastTemplates)
	w.trust()
	w.role("short", map[string]any{"token_period": "20s"})
	w.store("shop")
	harness.Run(t, w.a, oneTask("shop"))
	al := w.running("shop", "t", 1)
	if err := client.Kill(); err != nil {
		t.Fatal(err)
	}
	harness.WaitNodeStatus(t, w.a, al.NodeID, "down")
	v.Advance(time.Minute)
	w.none()
	v.Expect("unknown token")
	harness.Restart(t, client)
	now := w.running("shop", "t", 1)
	if now.ID == al.ID {
		t.Error("the lost allocation runs again")
	}
	harness.Within(t, harness.Patience, "one token", func() bool { return len(v.Tokens()) == 1 })
	w.follows("shop", now, 1)
	harness.StopAndWait(t, w.a, "shop", 2)
	w.none()
}

// TestVault_LeaderLost checks that tasks keep their tokens through the loss of the leader, and log in after it.
func TestVault_LeaderLost(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	v := testvault.Start(t, testvault.Config{})
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "c.hcl")
	harness.WriteFile(t, cfg, harness.TestDrivers+fmt.Sprintf(
		"vault {\n enabled = true\n address = %q\n default_identity {\n aud = [\"vault.io\"]\n ttl = \"2h\"\n}\n}\n%s", v.Addr(), fastTemplates))
	s := harness.StartServersWith(t, func(o *cluster.Options) { o.Args = append(o.Args, "-config="+cfg) })
	servers := []string{}
	for _, a := range s.All {
		servers = append(servers, fmt.Sprintf("-servers=127.0.0.1:%d", a.RPC))
	}
	leader := s.All[s.Leader(s.All[0])]
	w := &onVault{t: t, owner: t, v: v, dir: filepath.Join(dir, "one")}
	for _, a := range s.All {
		if a != leader {
			w.a = a
		}
	}
	harness.StartIn(t, cluster.Options{Dir: w.dir, Lean: true, Args: append([]string{"-client", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(w.dir, "data"), "-config=" + cfg}, servers...)})
	defer w.purge()
	w.trust()
	w.role("short", map[string]any{"token_period": "20s"})
	w.store("shop")
	harness.Run(t, w.a, oneTask("shop"))
	al := w.running("shop", "t", 1)
	token := w.token(al, "t")
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	before := w.renewals()
	harness.Within(t, harness.Patience, "a renewal", func() bool { return w.renewals() > before })
	if now := w.running("shop", "t", 1); now.ID != al.ID || w.token(now, "t") != token {
		t.Error("the allocation or its token changed with the leader")
	}
	w.follows("shop", al, 1)
	w.store("late")
	harness.Within(t, harness.Patience, "another job is accepted", func() bool {
		job, err := w.a.Client.Jobs().ParseHCL(oneTask("late"), true)
		if err == nil {
			_, _, err = w.a.Client.Jobs().Register(job, nil)
		}
		return err == nil
	})
	w.follows("late", w.running("late", "t", 1), 1)
	harness.StopAndWait(t, w.a, "shop", 1)
	harness.StopAndWait(t, w.a, "late", 1)
	w.none()
}
