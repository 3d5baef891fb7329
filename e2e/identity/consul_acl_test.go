package identity_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// TestConsul_ACL checks that the right submit-job is enough for a job whose service and task log in to Consul, and that the
// states of services and checks need read-job.
func TestConsul_ACL(t *testing.T) {
	harness.NeedsRoot(t)
	c := testconsul.Start(t, testconsul.Config{ACL: true})
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "c.hcl")
	identity := "{\n aud = [\"consul.io\"]\n ttl = \"1h\"\n }\n"
	harness.WriteFile(t, cfg, harness.TestDrivers+fmt.Sprintf("acl {\n enabled = true\n}\nconsul {\n address = %q\n token = %q\n"+
		" auto_advertise = false\n service_identity %s task_identity %s}\n", c.Addr(), c.Management(), identity, identity))
	a := harness.Start(t, cluster.Options{Dir: dir, Secret: harness.BootSecret, Args: []string{"-server", "-client", "-bootstrap-expect=1",
		"-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "d"), "-config=" + cfg}})
	defer func() { harness.PurgeAll(t, a) }()
	trustCluster(t, c, a.Address()+"/.well-known/jwks.json")
	as := func(right string) string {
		t.Helper()
		rules := fmt.Sprintf("namespace \"default\" {\n capabilities = [%q]\n}\n", right)
		if _, err := a.Client.ACLPolicies().Upsert(&api.ACLPolicy{Name: right, Rules: rules}, nil); err != nil {
			t.Fatal(err)
		}
		token, _, err := a.Client.ACLTokens().Create(&api.ACLToken{Type: "client", Policies: []string{right}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return token.SecretID
	}
	submitter, reader := as("submit-job"), as("read-job")
	job, err := a.Client.Jobs().ParseHCL(consulWorkloads, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Client.Jobs().Register(job, &api.WriteOptions{AuthToken: submitter}); err != nil {
		t.Fatal(err)
	}
	al := harness.Await(t, a, "shop", "running", 1)[0]
	harness.Within(t, harness.Patience, "the service and the task have tokens", func() bool {
		return len(c.Services()) == 1 && len(c.Logins()) == 2
	})
	for _, tc := range []struct {
		name string
		read func(*api.QueryOptions) error
	}{
		{"checks", func(q *api.QueryOptions) error { _, err := a.Client.Allocations().Checks(al.ID, q); return err }},
		{"services", func(q *api.QueryOptions) error {
			_, err := a.Client.Allocations().ConsulServices(al.ID, q)
			return err
		}},
	} {
		if err := tc.read(&api.QueryOptions{AuthToken: submitter}); !slices.Contains([]int{403, 404}, harness.StatusCode(err)) {
			t.Errorf("%s with submit-job: %v, want a refusal", tc.name, err)
		}
		if err := tc.read(&api.QueryOptions{AuthToken: reader}); err != nil {
			t.Errorf("%s with read-job: %v", tc.name, err)
		}
	}
}
