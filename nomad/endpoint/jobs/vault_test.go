package jobs_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// vaultServers returns the change of a configuration of servers with Vault, whose state is in a directory.
func vaultServers(dir string) func(*server.Config) {
	return func(c *server.Config) {
		c.DataDir, c.BootstrapExpect, c.Kinds, c.OIDCIssuer = dir, 1, drivers.Table(), "https://nomad.example"
		c.Vault = vault.Clusters{"default": {Enabled: true, DefaultIdentity: &nomad.WorkloadIdentity{Audience: []string{"vault.io"}, TTL: time.Hour},
			ExtraClaims: map[string]string{"where": "${node.id}/${alloc.id}/${vault.role}"}}}
	}
}

// vaultJob returns a job whose task has a vault block.
func vaultJob(id string, count int) *nomad.Job {
	j := servertest.BatchJob(id, count)
	j.TaskGroups[0].Tasks[0].Vault = &nomad.Vault{Role: "web", ChangeMode: "signal", ChangeSignal: "sigusr1"}
	return j
}

// readJob returns the registered job.
func readJob(t *testing.T, s *server.Server, id string) *nomad.Job {
	t.Helper()
	return servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest(id)).Job
}

// TestVault_Servers registers a job with a vault block, and compares the claims of the explanation and of the plan with
// those that the servers sign. Then the servers lose their vault block: each write of the job is refused, and its
// allocations remain.
func TestVault_Servers(t *testing.T) {
	dir := t.TempDir()
	s, stop := servertest.Start(t, vaultServers(dir))
	n := servertest.Join(t, s.RPCAddr())
	n.Node.Attributes["vault.version"], n.Node.Attributes["os.signals"] = "1.20.0", "SIGHUP,SIGUSR1"
	n.Must("Node.Register", &message.NodeRegisterRequest{Node: n.Node, WriteRequest: n.Write(n.JWT)}, new(message.NodeUpdateResponse))
	write := message.WriteRequest{Region: "global", Namespace: "default"}

	servertest.Register(t, s, vaultJob("web", 1))
	stored := readJob(t, s, "web")
	var constraints []string
	for _, c := range stored.TaskGroups[0].Constraints {
		constraints = append(constraints, c.LTarget+" "+c.Operand+" "+c.RTarget)
	}
	for _, want := range []string{"${attr.vault.version} semver >= 0.6.1", "${attr.os.signals} set_contains SIGUSR1", "${attr.nomad.version} semver >= 1.7.0-a"} {
		if strings.Count(strings.Join(constraints, "\n"), want) != 1 {
			t.Errorf("constraints %q, want %q once", constraints, want)
		}
	}
	if got := *stored.TaskGroups[0].Tasks[0].Vault; got != (nomad.Vault{Role: "web", Cluster: "default", ChangeMode: "signal", ChangeSignal: "SIGUSR1"}) {
		t.Errorf("stored block = %+v", got)
	}
	var plan message.JobPlanResponse
	if err := s.Call(servertest.Context(t), "Job.Plan", &message.JobPlanRequest{Job: codec.Copy(stored), Diff: true, WriteRequest: write}, &plan); err != nil {
		t.Fatal(err)
	}
	if plan.Diff.Type != "None" {
		t.Errorf("diff of the job that was read = %+v", plan.Diff)
	}

	alloc := n.Allocs(1)[0]
	want := signedClaims(t, n, alloc)
	var explained message.JobExplainResponse
	if err := s.Call(servertest.Context(t), "Job.Explain", &message.JobExplainRequest{JobID: "web", QueryOptions: servertest.Global}, &explained); err != nil {
		t.Fatal(err)
	}
	for from, list := range map[string][]*message.VaultLogin{"plan": plan.Vault, "explain": explained.Explanation.Vault} {
		if len(list) != 1 || list[0].Task != "t" || list[0].Role != "web" || list[0].Identity != "vault_default" || list[0].Alg != "EdDSA" || list[0].TTL != time.Hour {
			t.Fatalf("logins of %s = %+v", from, list)
		}
		got := map[string]string{}
		for _, c := range list[0].Claims {
			got[c.Name] = strings.NewReplacer("(ID of the allocation)", alloc.ID, "(ID of the node)", n.Node.ID).Replace(c.Value)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("claims of %s = %q\nsigned:  %q", from, got, want)
		}
	}

	parent := vaultJob("parent", 0)
	parent.ParameterizedJob = &nomad.ParameterizedJobConfig{}
	servertest.Register(t, s, parent)
	for _, meta := range []map[string]string{nil, {"a": "b"}} {
		versioned := vaultJob("versions", 0)
		versioned.Meta = meta
		servertest.Register(t, s, versioned)
	}
	stop()
	s, _ = servertest.Start(t, func(c *server.Config) {
		vaultServers(dir)(c)
		c.Vault = nil
	})
	count := int64(2)
	for method, req := range map[string]any{
		"Job.Register": &message.JobRegisterRequest{Job: vaultJob("web", 2), WriteRequest: write},
		"Job.Revert":   &message.JobRevertRequest{JobID: "versions", JobVersion: 0, WriteRequest: write},
		"Job.Scale":    &message.JobScaleRequest{JobID: "web", Target: map[string]string{"Group": "g"}, Count: &count, WriteRequest: write},
		"Job.Dispatch": &message.JobDispatchRequest{JobID: "parent", WriteRequest: write},
	} {
		_, err := retried(t, s, method, req)
		if err == nil || !strings.Contains(err.Error(), `Vault "default" not enabled but used in the job`) {
			t.Errorf("%s = %v", method, err)
		}
	}
	list := servertest.Read[message.AllocListResponse](t, s, "Alloc.List", &message.AllocListRequest{QueryOptions: servertest.Global})
	if len(list.Allocations) != 1 || list.Allocations[0].ID != alloc.ID || list.Allocations[0].DesiredStatus != nomad.AllocDesiredStatusRun {
		t.Errorf("allocations = %+v, want %s to run", list.Allocations, alloc.ID)
	}
	if got := s.Unserved(); len(got) != 1 || !strings.Contains(got[0], "jobs work on clients with Vault only") {
		t.Errorf("Unserved() = %q", got)
	}
}

// retried calls a method until a leader answers.
func retried(t *testing.T, s *server.Server, method string, req any) (out map[string]any, err error) {
	t.Helper()
	err = servertest.Retry(t, func(ctx context.Context) error { return s.Call(ctx, method, req, &out) })
	return out, err
}

// TestVault_LyingNode checks that a node cannot choose the claims of a task's identity for Vault: the servers read them from the
// stored allocation and its job.
func TestVault_LyingNode(t *testing.T) {
	s, _ := servertest.Start(t, vaultServers(t.TempDir()))
	n := servertest.Join(t, s.RPCAddr())
	n.Node.Attributes["vault.version"], n.Node.Attributes["os.signals"] = "1.20.0", "SIGHUP,SIGUSR1"
	n.Must("Node.Register", &message.NodeRegisterRequest{Node: n.Node, WriteRequest: n.Write(n.JWT)}, new(message.NodeUpdateResponse))
	job := vaultJob("web", 1)
	job.TaskGroups[0].Services = []*nomad.Service{{Name: "t", Provider: "nomad"}}
	servertest.Register(t, s, job)
	alloc := n.Allocs(1)[0]
	want := signedClaims(t, n, alloc)
	if want["vault_role"] != "web" || want["nomad_task"] != "t" || want["nomad_job_id"] != "web" || want["nomad_namespace"] != "default" {
		t.Errorf("claims %q", want)
	}
	lie := *alloc
	lie.Namespace, lie.JobID, lie.TaskGroup, lie.Job = "other", "other", "other", vaultJob("other", 1)
	lie.ClientStatus = nomad.AllocClientStatusRunning
	lie.Job.TaskGroups[0].Tasks[0].Vault.Role = "admin"
	n.Must("Node.UpdateAlloc", &message.AllocUpdateRequest{Alloc: []*nomad.Allocation{&lie}, WriteRequest: n.Write(n.JWT)}, new(message.GenericResponse))
	for _, h := range []message.WIHandle{
		{IdentityName: "vault_default", WorkloadIdentifier: "t"},
		{IdentityName: "vault_default", WorkloadIdentifier: "t", InterpolatedWorkloadIdentifier: "other"},
	} {
		signed := signVault(n, alloc, h)
		if len(signed.SignedIdentities) != 1 {
			t.Errorf("%+v: rejections %+v", h, signed.Rejections)
		} else if got := claimsOf(t, signed.SignedIdentities[0].JWT); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: claims %q, want %q", h, got, want)
		}
	}
	for _, h := range []message.WIHandle{
		{IdentityName: "vault_default", WorkloadIdentifier: "other"},
		{IdentityName: "vault_other", WorkloadIdentifier: "t"},
		{IdentityName: "vault_default", WorkloadIdentifier: "t", WorkloadType: message.WorkloadTypeService},
	} {
		if signed := signVault(n, alloc, h); len(signed.SignedIdentities) != 0 || len(signed.Rejections) != 1 {
			t.Errorf("%+v: %d identities, rejections %+v", h, len(signed.SignedIdentities), signed.Rejections)
		}
	}
}

// signedClaims returns the claims of the identity for Vault that the servers sign for an allocation, as texts.
func signedClaims(t *testing.T, n *servertest.FakeNode, alloc *nomad.Allocation) map[string]string {
	t.Helper()
	signed := signVault(n, alloc, message.WIHandle{IdentityName: "vault_default", WorkloadIdentifier: "t"})
	if len(signed.SignedIdentities) != 1 {
		t.Fatalf("rejections %+v", signed.Rejections)
	}
	return claimsOf(t, signed.SignedIdentities[0].JWT)
}

// signVault signs an identity of an allocation, as a node requests it.
func signVault(n *servertest.FakeNode, alloc *nomad.Allocation, h message.WIHandle) (signed message.AllocIdentitiesResponse) {
	n.Must("Alloc.SignIdentities", &message.AllocIdentitiesRequest{
		QueryOptions: message.QueryOptions{AuthToken: n.JWT, MinQueryIndex: alloc.CreateIndex - 1},
		Identities:   []*message.WorkloadIdentityRequest{{AllocID: alloc.ID, WIHandle: h}}}, &signed)
	return signed
}

// claimsOf returns the texts in the claims of a token that do not differ in each.
func claimsOf(t *testing.T, jwt string) map[string]string {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(jwt, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for name, v := range claims {
		switch v := v.(type) {
		case string:
			out[name] = v
		case map[string]any:
			for key, inner := range v {
				out["/"+name+"/"+key] = inner.(string)
			}
		}
	}
	delete(out, "jti")
	return out
}

// TestVault_UpgradeCheck checks which jobs and nodes cannot use Vault by workload identity.
func TestVault_UpgradeCheck(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Vault = vault.Clusters{"default": {Enabled: true}} })
	check := func() message.UpgradeCheckVaultWorkloadIdentityResponse {
		t.Helper()
		return servertest.Read[message.UpgradeCheckVaultWorkloadIdentityResponse](t, s, "Operator.UpgradeCheckVaultWorkloadIdentity",
			&message.UpgradeCheckVaultWorkloadIdentityRequest{QueryOptions: servertest.Global})
	}
	if got := check(); len(got.JobsWithoutVaultIdentity)+len(got.OutdatedNodes) != 0 {
		t.Errorf("empty region: %+v", got)
	}
	servertest.Register(t, s, vaultJob("without", 0))
	own := vaultJob("own", 0)
	own.TaskGroups[0].Tasks[0].Identities = []*nomad.WorkloadIdentity{{Name: "vault_default", Audience: []string{"a"}}}
	servertest.Register(t, s, own)
	servertest.Register(t, s, servertest.BatchJob("plain", 0))
	for version, name := range map[string]string{"1.6.10": "old", "1.7.0-beta.1": "beta", "2.0.6": "new", "": "unknown"} {
		n := servertest.NewFakeNode(t, s)
		n.Node.Name, n.Node.Attributes["nomad.version"] = name, version
		n.Must("Node.Register", &message.NodeRegisterRequest{Node: n.Node, WriteRequest: n.Write("")}, new(message.NodeUpdateResponse))
	}
	got := check()
	if len(got.JobsWithoutVaultIdentity) != 1 || got.JobsWithoutVaultIdentity[0].ID != "without" {
		t.Errorf("jobs = %+v", got.JobsWithoutVaultIdentity)
	}
	var names []string
	for _, n := range got.OutdatedNodes {
		names = append(names, n.Name)
	}
	if text := strings.Join(names, " "); len(names) != 2 || !strings.Contains(text, "old") || !strings.Contains(text, "unknown") {
		t.Errorf("outdated nodes = %q", names)
	}
	if got.VaultTokens != nil || got.Index == 0 {
		t.Errorf("tokens %v at index %d", got.VaultTokens, got.Index)
	}
}

// TestVault_Refused checks the status of a job that servers without Vault refuse.
func TestVault_Refused(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	_, err := retried(t, s, "Job.Register", &message.JobRegisterRequest{Job: vaultJob("web", 1), WriteRequest: message.WriteRequest{Region: "global"}})
	servertest.WantError(t, err, http.StatusBadRequest, `Vault "default" not enabled but used in the job`)
}
