package identity_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// TestVault_Recipes runs what the page of Vault recommends: an identity that is signed with RS256, and roles that bind claims.
// For each role one task logs in, and one that the role must refuse waits with an event that names the claim.
func TestVault_Recipes(t *testing.T) {
	t.Parallel() // it mostly waits
	w := startVault(t, "")
	defer w.purge()
	w.trust()
	w.v.Expect("does not match")
	rsa := "identity {\n name = \"vault_default\"\n aud = [\"vault.io\"]\n alg = \"RS256\"\n ttl = \"1h\"\n}"
	for _, tc := range []struct {
		name         string // of the role and of the job that may log in; none may if it begins with "other"
		bound        map[string]any
		more         string // of the task
		refused      string // the job that may not log in, "" for none
		refusedClaim string
	}{
		{name: "rsa", more: rsa},
		{name: "onejob", bound: map[string]any{"nomad_namespace": "default", "nomad_job_id": "onejob"}, refused: "otherjob",
			refusedClaim: "nomad_job_id"},
		{name: "onetask", bound: map[string]any{"nomad_job_id": "onetask", "nomad_task": "t"}},
		{name: "othertask", bound: map[string]any{"nomad_task": "u"}, refused: "wrongtask", refusedClaim: "nomad_task"},
		{name: "byrole", bound: map[string]any{"vault_role": "byrole"}},
		{name: "othernamespace", bound: map[string]any{"nomad_namespace": "prod"}, refused: "wrongnamespace", refusedClaim: "nomad_namespace"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			w.role(tc.name, map[string]any{"bound_claims": tc.bound, "user_claim": "/sub"})
			block := `role = "` + tc.name + `"`
			if !strings.HasPrefix(tc.name, "other") {
				harness.Run(t, w.a, vaultJob(tc.name, vaultTask("t", block, tc.more)))
				al := w.running(tc.name, "t", 1)
				readsOwnSecretsOnly(w, tc.name, w.token(al, "t"))
				harness.StopAndWait(t, w.a, tc.name, 1)
			}
			if tc.refused != "" {
				harness.Run(t, w.a, vaultJob(tc.refused, vaultTask("t", block, "")))
				w.waitsWith(tc.refused, "t", `claim "`+tc.refusedClaim+`" of the identity does not match bound_claims`)
				harness.StopAndWait(t, w.a, tc.refused, 1)
			}
			w.none()
		})
	}
	w.t = t
}

// readsOwnSecretsOnly checks the policy with templates: a token reads the secrets of its job, and not those of another job.
func readsOwnSecretsOnly(w *onVault, job, token string) {
	w.t.Helper()
	w.v.Expect("permission denied")
	root := w.client(w.v.Root())
	for _, at := range []string{job, job + "2"} {
		if _, err := root.Logical().Write("secret/data/default/"+at+"/db", map[string]any{"data": map[string]any{"k": "v"}}); err != nil {
			w.t.Fatal(err)
		}
	}
	if s, err := w.client(token).Logical().Read("secret/data/default/" + job + "/db"); err != nil || s == nil {
		w.t.Errorf("the secret of the job: %v, %v", s, err)
	}
	if _, err := w.client(token).Logical().Read("secret/data/default/" + job + "2/db"); err == nil || !strings.Contains(err.Error(), "permission denied") {
		w.t.Errorf("the secret of another job: %v, want a refusal", err)
	}
}
