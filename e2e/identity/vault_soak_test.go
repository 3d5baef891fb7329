package identity_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	vault "github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// vaultRoles are the roles of the soak, by name. Every field overrides those of vaultSoak.role.
var vaultRoles = map[string]map[string]any{
	"short":  {"token_period": "5s"},
	"middle": {"token_period": "10s"},
	"long":   {"token_period": "20s"},
	"max":    {"token_ttl": "8s", "token_max_ttl": "12s"}, // each token is replaced by a login
	"batch":  {"token_ttl": "15s", "token_type": "batch"}, // the same
}

// vaultSoak is three servers and a client whose tasks log in to Vault.
type vaultSoak struct {
	t     *testing.T
	vault *testvault.Vault
	s     *harness.Servers
	node  *cluster.Agent
	each  int                  // tasks of each role
	began map[string]time.Time // starts of the tasks, by allocation
}

// TestVaultSoak keeps tasks with short-lived tokens through kills of the agent and of the leader, restarts and a seal of Vault,
// and outages longer than the tokens live. No task ends, no current token is left behind unrevoked, and none is renewed after
// its task. VAULT_SOAK=10m makes it last that long, with 200 tasks.
func TestVaultSoak(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	k := &vaultSoak{t: t, each: 8}
	lasting := time.Duration(0)
	if text := os.Getenv("VAULT_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("VAULT_SOAK is not a duration such as 10m: %v", err)
		}
		k.each, lasting = 200/len(vaultRoles), d
	}
	k.start()
	defer func() { harness.PurgeAll(t, k.s.All[k.s.Agreed()]) }()
	k.run(k.each)
	k.tasks()
	began, rounds := time.Now(), 0
	for rounds == 0 || time.Since(began) < lasting {
		k.round()
		rounds++
	}
	k.shrink()
	k.judge(rounds)
}

// start starts Vault, the servers and the client.
func (k *vaultSoak) start() {
	t := k.t
	t.Helper()
	k.vault = testvault.Start(t, testvault.Config{})
	k.vault.Expect("unknown token") // tokens end while Vault is down
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "vault.hcl")
	harness.WriteFile(t, cfg, harness.TestDrivers+fmt.Sprintf(
		"vault {\n enabled = true\n address = %q\n default_identity {\n aud = [\"vault.io\"]\n ttl = \"1h\"\n }\n}\n", k.vault.Addr()))
	k.s = harness.StartServersWith(t, func(o *cluster.Options) { o.Args = append(o.Args, "-config="+cfg) })
	k.trust()
	args := []string{"-client", "-bind=127.0.0.1", "-config=" + cfg, "-data-dir=" + filepath.Join(dir, "client", "data")}
	for _, a := range k.s.All {
		args = append(args, fmt.Sprintf("-servers=127.0.0.1:%d", a.RPC))
	}
	k.node = harness.StartIn(t, cluster.Options{Dir: filepath.Join(dir, "client"), Lean: true, Args: args})
	harness.Within(t, harness.Patience, "the node has Vault", func() bool {
		node, _, err := k.any().Client.Nodes().Info(harness.NodeID(t, k.node), nil)
		return err == nil && node.Attributes["vault.version"] != ""
	})
}

// any returns a server that runs.
func (k *vaultSoak) any() *cluster.Agent { return k.s.All[2] }

// trust makes Vault trust the cluster. The keys are those of any server that answers.
func (k *vaultSoak) trust() {
	t := k.t
	t.Helper()
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 50 {
			for _, a := range k.s.All {
				resp, err := http.Get(a.Address() + "/.well-known/jwks.json")
				if err != nil {
					continue
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err == nil && resp.StatusCode == http.StatusOK {
					_, _ = w.Write(body) // fails only if Vault is gone
					return
				}
			}
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(keys.Close)
	c, err := vault.NewClient(&vault.Config{Address: k.vault.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	c.SetToken(k.vault.Root())
	write := func(path string, data map[string]any) {
		t.Helper()
		if _, err := c.Logical().WriteWithContext(t.Context(), path, data); err != nil {
			t.Fatal(err)
		}
	}
	write("sys/auth/jwt-nomad", map[string]any{"type": "jwt"})
	write("auth/jwt-nomad/config", map[string]any{"jwks_url": keys.URL, "jwt_supported_algs": []string{"RS256", "EdDSA"}})
	for name, fields := range vaultRoles {
		role := map[string]any{"role_type": "jwt", "bound_audiences": "vault.io", "user_claim": "/nomad_job_id", "user_claim_json_pointer": true,
			"claim_mappings": map[string]any{"nomad_task": "nomad_task"}, "token_type": "service"}
		for field, value := range fields {
			role[field] = value
		}
		write("auth/jwt-nomad/role/"+name, role)
	}
}

// run registers the job with a number of tasks of each role.
func (k *vaultSoak) run(count int) {
	k.t.Helper()
	var groups strings.Builder
	for name := range vaultRoles {
		task := harness.Shell("exec sleep 100000", fmt.Sprintf("vault {\n role = %q\n change_mode = \"noop\"\n }", name))
		fmt.Fprintf(&groups, "group %q {\n count = %d\n %s\n}\n", name, count, strings.ReplaceAll(task, "= 10\n", "= 1\n"))
	}
	harness.Run(k.t, k.any(), fmt.Sprintf("job \"soak\" {\n %s\n}\n", strings.ReplaceAll(groups.String(), "memory = 1\n", "memory = 10\n")))
}

// file returns the token of a task.
func (k *vaultSoak) file(alloc string) string {
	text, err := os.ReadFile(filepath.Join(k.node.Dir, "data", "alloc", alloc, "t", "secrets", "vault_token"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// running returns the allocations that run.
func (k *vaultSoak) running() []*api.AllocationListStub {
	all, _, err := k.any().Client.Jobs().Allocations("soak", true, nil)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(al *api.AllocationListStub) bool {
		return al.ClientStatus != api.AllocClientStatusRunning || al.TaskStates["t"] == nil || al.TaskStates["t"].State != "running"
	})
}

// tasks waits until all tasks run.
func (k *vaultSoak) tasks() {
	k.t.Helper()
	k.began = map[string]time.Time{}
	want := k.each * len(vaultRoles)
	harness.Succeeds(k.t, "all tasks run", func() error {
		if running := len(k.running()); running != want {
			events := ""
			if all := harness.AllAllocs(k.t, k.any(), "soak"); len(all) > 0 {
				events = strings.Join(messages(all[0], "t"), "; ")
			}
			return fmt.Errorf("%d of %d tasks run; events of one: %s", running, want, events)
		}
		return nil
	})
	for _, al := range k.running() {
		k.began[al.ID] = al.TaskStates["t"].StartedAt
	}
	k.settled("the start")
}

// settled waits until the token of each task is valid.
func (k *vaultSoak) settled(after string) {
	k.t.Helper()
	harness.Succeeds(k.t, "valid tokens after "+after, func() error {
		valid, wrong := k.vault.Tokens(), 0
		for alloc := range k.began {
			if !slices.Contains(valid, k.file(alloc)) {
				wrong++
			}
		}
		if wrong > 0 {
			return fmt.Errorf("%d of %d tasks have a token that is not valid", wrong, len(k.began))
		}
		return nil
	})
}

// round causes each fault once. After each, all tasks have valid tokens again.
func (k *vaultSoak) round() {
	t := k.t
	t.Helper()
	set := func(m testvault.Mode) {
		t.Helper()
		if err := k.vault.Set(m); err != nil {
			t.Fatal(err)
		}
	}
	kill := func(a **cluster.Agent) {
		t.Helper()
		if err := (*a).Kill(); err != nil {
			t.Fatal(err)
		}
		*a = harness.Restart(t, *a)
	}
	for _, fault := range []struct {
		name  string
		cause func()
	}{
		{"a kill of the agent", func() { kill(&k.node) }},
		{"a restart of Vault", func() {
			if err := k.vault.Restart(); err != nil {
				t.Fatal(err)
			}
		}},
		{"a kill of the leader", func() { kill(&k.s.All[k.s.Agreed()]) }},
		{"a seal", func() { k.vault.Seal(); k.renewals(1); k.vault.Unseal() }},
		{"an outage longer than the tokens live", func() {
			set(testvault.Mode{Refuse: true})
			k.vault.Advance(30 * time.Second)
			set(testvault.Mode{})
		}},
		{"a kill of the agent while Vault fails", func() {
			set(testvault.Mode{Status: http.StatusBadGateway})
			kill(&k.node)
			k.vault.Advance(30 * time.Second)
			set(testvault.Mode{})
		}},
	} {
		fault.cause()
		k.settled(fault.name)
	}
	running := k.running()
	if len(running) != len(k.began) {
		t.Errorf("%d tasks run, want %d", len(running), len(k.began))
	}
	for _, al := range running {
		if s := al.TaskStates["t"]; s.Restarts > 0 || !s.StartedAt.Equal(k.began[al.ID]) {
			t.Errorf("allocation %s: the task has started again: %d restarts, %q", al.ID, s.Restarts, harness.Events(al, "t"))
		}
	}
}

// renewals waits until Vault got a number of further requests to renew tokens.
func (k *vaultSoak) renewals(n int) {
	k.t.Helper()
	const call = "PUT /v1/auth/token/renew-self"
	before := k.vault.Calls(call)
	harness.Within(k.t, harness.Patience, "renewals", func() bool { return k.vault.Calls(call) >= before+n })
}

// shrink stops half of the tasks while Vault hangs, and then the others.
func (k *vaultSoak) shrink() {
	t := k.t
	t.Helper()
	if err := k.vault.Set(testvault.Mode{Hang: true}); err != nil {
		t.Fatal(err)
	}
	stopped := k.each - k.each/2
	k.run(k.each / 2)
	harness.Within(t, 2*time.Minute, "half of the tasks end while Vault hangs", func() bool {
		return len(harness.Allocs(t, k.any(), "soak", "complete")) == stopped*len(vaultRoles)
	})
	if err := k.vault.Set(testvault.Mode{}); err != nil {
		t.Fatal(err)
	}
	for _, al := range harness.Allocs(t, k.any(), "soak", "complete") {
		delete(k.began, al.ID)
	}
	k.settled("the end of half of the tasks")
	current := map[string]string{}
	for alloc := range k.began {
		current[alloc] = k.file(alloc)
	}
	harness.Within(t, harness.Patience, "the tokens of the ended tasks are revoked, or have expired", func() bool {
		return len(k.owned(current)) == len(k.vault.Tokens())
	})
	harness.Stop(t, k.any(), "soak")
	harness.Within(t, 2*time.Minute, "all tasks end", func() bool { return len(k.running()) == 0 })
	// Batch tokens cannot be revoked, so they end with their TTL.
	harness.Within(t, harness.Patience, "no token is valid", func() bool { return len(k.vault.Tokens()) == 0 })
	records := k.vault.Records()
	for alloc, id := range current {
		if r := records[id]; r.End != testvault.Revoked && !r.Batch && r.Role != "max" {
			t.Errorf("allocation %s, role %s: its token was not revoked at its end: %q", alloc, r.Role, r.End)
		}
	}
}

// owned returns the valid tokens of roles whose tokens are not replaced, if they are current, and all of the other roles.
func (k *vaultSoak) owned(current map[string]string) (out []string) {
	records := k.vault.Records()
	for _, id := range k.vault.Tokens() {
		replaced := records[id].Batch || records[id].Role == "max"
		for _, one := range current {
			if one == id || replaced {
				out = append(out, id)
				break
			}
		}
	}
	return out
}

// judge reports what was observed.
func (k *vaultSoak) judge(rounds int) {
	k.t.Helper()
	logins, renewals, late := 0, 0, 0
	for _, r := range k.vault.Records() {
		logins++
		renewals += r.Renewals
		for _, after := range r.Late {
			if after > time.Second { // a request may have been under way
				late++
			}
		}
	}
	k.t.Logf("%d rounds of faults, %d tasks: %d logins, %d renewals, %d of them after a revocation", rounds, k.each*len(vaultRoles), logins, renewals, late)
	if late > 0 {
		k.t.Errorf("%d renewals of tokens whose task has ended", late)
	}
	if renewals < logins/4 {
		k.t.Errorf("%d renewals for %d logins: that was not a soak", renewals, logins)
	}
}
