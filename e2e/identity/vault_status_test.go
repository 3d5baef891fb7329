package identity_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testvault"
	"github.com/open-nomad/open-nomad/nomad"
)

// vaultSection is the section of nomad node status -verbose. Its rows are sorted.
const vaultSection = `Vault Tokens
Alloc ID  Task  Role  Lease  Expires  Next Renewal
<id>  t  <default>  30m  <moment>  <moment>
<id>  t  <default>  30m  <moment>  <moment>
<id>  t  later  no token  <none>  <none>
<id> t: last error, at <time>: <cause>
`

// vaultVolatile lists the parts of the section that differ between runs.
var vaultVolatile = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "<id>"},
	{regexp.MustCompile(`\S+ \(in [0-9hms]+\)`), "<moment>"},
	{regexp.MustCompile(`at \S+: .*role "later".*`), "at <time>: <cause>"},
	{regexp.MustCompile(`([^ \n]) {2,}`), "$1  "},
}

// vaultFleet starts a server and a client with access control, as separate agents. Its tasks can log in to Vault.
func vaultFleet(t *testing.T) (w *onVault, client *cluster.Agent) {
	t.Helper()
	harness.NeedsRoot(t)
	v, dir := testvault.Start(t, testvault.Config{}), harness.TempDir(t)
	cfg := filepath.Join(dir, "c.hcl")
	harness.WriteFile(t, cfg, harness.TestDrivers+fmt.Sprintf("acl {\n enabled = true\n}\nvault {\n enabled = true\n address = %q\n"+
		" default_identity {\n aud = [\"vault.io\"]\n ttl = \"2h\"\n}\n}\n", v.Addr()))
	start := func(name string, args ...string) *cluster.Agent {
		at := filepath.Join(dir, name)
		return harness.StartIn(t, cluster.Options{Dir: at, Lean: true, Secret: harness.BootSecret,
			Args: append(args, "-bind=127.0.0.1", "-data-dir="+filepath.Join(at, "data"), "-config="+cfg)})
	}
	server := start("server", "-server", "-bootstrap-expect=1")
	client = start("client", "-client", fmt.Sprintf("-servers=127.0.0.1:%d", server.RPC))
	w = &onVault{t: t, owner: t, v: v, a: server, dir: filepath.Join(dir, "client")}
	w.trust()
	harness.Within(t, harness.Patience, "the node has Vault", func() bool {
		node, _, err := server.Client.Nodes().Info(harness.NodeID(t, client), nil)
		return err == nil && node.Attributes["vault.accessible"] == "true"
	})
	return w, client
}

// TestVault_Tokens checks who may read the tokens of a node's tasks, from its server and from the node itself: a caller with
// node:read sees those of the namespaces with read-job. Neither the answer nor the command line has a token.
func TestVault_Tokens(t *testing.T) {
	t.Parallel() // it mostly waits
	w, client := vaultFleet(t)
	defer func() {
		if _, _, err := w.a.Client.Jobs().Deregister("hidden", true, &api.WriteOptions{Namespace: "other"}); err != nil {
			t.Error(err)
		}
		w.purge()
		harness.WaitCollected(t, w.a, filepath.Join(w.dir, "data"))
	}()
	w.v.Expect("could not be found") // the role "later"
	if _, err := w.a.Client.Namespaces().Register(&api.Namespace{Name: "other"}, nil); err != nil {
		t.Fatal(err)
	}
	harness.Run(t, w.a, vaultJob("shop", vaultTask("t", "", "")))
	harness.Run(t, w.a, vaultJob("waits", vaultTask("t", `role = "later"`, "")))
	harness.Run(t, w.a, strings.Replace(vaultJob("hidden", vaultTask("t", "", "")), "{\n", "{\n namespace = \"other\"\n", 1))
	w.running("shop", "t", 1)
	w.waitsWith("waits", "t", `role "later"`)
	harness.Within(t, harness.Patience, "two tokens", func() bool { return len(w.v.Tokens()) == 2 })
	node := harness.NodeID(t, client)
	check := func(name, url, secret string, status int, want ...string) {
		t.Run(name, func(t *testing.T) {
			code, body, _ := harness.Fetch(t, http.DefaultClient, "GET", url, secret)
			if code != status {
				t.Fatalf("status %d, want %d: %s", code, status, body)
			}
			search(t, "the answer", body, append(w.v.Tokens(), w.v.Root(), "eyJ"))
			if status != http.StatusOK {
				return
			}
			var tokens []*api.VaultToken
			if err := json.Unmarshal([]byte(body), &tokens); err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, one := range tokens {
				got = append(got, one.Namespace+"/"+one.JobID)
				checkToken(t, one)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("tokens of %q, want %q", got, want)
			}
		})
	}
	server := w.a.Address() + "/v1/client/vault-tokens?node_id=" + node
	direct := client.Address() + "/v1/client/vault-tokens"
	for _, tc := range []struct {
		name, rules string
		status      int
		want        []string
	}{
		{"one namespace", "node {\n policy = \"read\"\n}\nnamespace \"default\" {\n capabilities = [\"read-job\"]\n}", 200,
			[]string{"default/shop", "default/waits"}},
		{"both namespaces", "node {\n policy = \"read\"\n}\nnamespace \"*\" {\n capabilities = [\"read-job\"]\n}", 200,
			[]string{"default/shop", "default/waits", "other/hidden"}},
		{"another right", "node {\n policy = \"read\"\n}\nnamespace \"*\" {\n capabilities = [\"list-jobs\"]\n}", 200, nil},
		{"no namespace", "node {\n policy = \"read\"\n}", 200, nil},
		{"no right on nodes", "namespace \"*\" {\n policy = \"write\"\n}", 403, nil},
	} {
		secret := w.caller(tc.rules)
		check(tc.name+", server", server, secret, tc.status, tc.want...)
		check(tc.name+", node", direct, secret, tc.status, tc.want...)
		check(tc.name+", node by its ID", direct+"?node_id="+node, secret, tc.status, tc.want...)
	}
	check("no token, server", server, "", 403)
	check("no token, node", direct, "", 403)
	all := []string{"default/shop", "default/waits", "other/hidden"}
	check("management, server", server, harness.BootSecret, 200, all...)
	check("management, node", direct, harness.BootSecret, 200, all...)
	out, err := harness.Command(t, w.a, "node", "status", "-verbose", node)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	search(t, "node status", out, append(w.v.Tokens(), "eyJ"))
	_, section, _ := strings.Cut(out, "\nVault Tokens\n")
	section, _, _ = strings.Cut("Vault Tokens\n"+section, "\n\n")
	for _, one := range vaultVolatile {
		section = one.pattern.ReplaceAllString(section, one.by)
	}
	lines := strings.Split(section, "\n")
	if len(lines) > 5 {
		slices.Sort(lines[2:5]) // their order is that of the IDs
	}
	if got := strings.Join(lines, "\n") + "\n"; got != vaultSection {
		t.Errorf("the section is\n%s\nwant\n%s\nin %s", got, vaultSection, out)
	}
}

// caller returns the secret of a token with rules.
func (w *onVault) caller(rules string) string {
	w.t.Helper()
	name := "caller-" + nomad.NewID()
	if _, err := w.a.Client.ACLPolicies().Upsert(&api.ACLPolicy{Name: name, Rules: rules}, nil); err != nil {
		w.t.Fatal(err)
	}
	token, _, err := w.a.Client.ACLTokens().Create(&api.ACLToken{Type: "client", Policies: []string{name}}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return token.SecretID
}

// checkToken checks the description of a token of the jobs of TestVault_Tokens.
func checkToken(t *testing.T, one *api.VaultToken) {
	t.Helper()
	if one.Task != "t" || one.Cluster != "default" || one.AllocID == "" {
		t.Errorf("task %q of allocation %q, cluster %q", one.Task, one.AllocID, one.Cluster)
	}
	if one.JobID == "waits" {
		if one.LoggedIn || one.Role != "later" || !strings.Contains(one.Error, `role "later"`) || time.Since(one.ErrorAt) > time.Hour {
			t.Errorf("a task without a token: %+v", one)
		}
		return
	}
	if !one.LoggedIn || one.Role != "" || one.Lease != 30*time.Minute || !one.Renewable || one.Error != "" {
		t.Errorf("a task with a token: %+v", one)
	}
	if now := time.Now(); !one.NextRenewal.After(now) || !one.Expires.After(one.NextRenewal) || one.Expires.After(now.Add(one.Lease)) {
		t.Errorf("expires %s, next renewal %s", one.Expires, one.NextRenewal)
	}
}
