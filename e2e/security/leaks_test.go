package security_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// No reply, no line of the log and the audit log, and no file that others can read contains a
// token, the secret ID of the node, or key material.
func TestSecretsStayInside(t *testing.T) {
	a, data := harness.SandboxAgent(t)
	h := harness.Hold(t, a, data, "holder")
	node, err := a.NodeID()
	if err != nil {
		t.Fatal(err)
	}
	eval := h.Alloc.EvalID
	secret := harness.Content(t, filepath.Join(data, "client", "secret-id"))
	hidden := map[string]string{"a token": "eyJhbGciOi", "a signature": h.Token[strings.LastIndexByte(h.Token, '.')+1:],
		"the node's secret ID": secret,
		"wrapped keys":         "EncryptedDataEncryptionKey", "a wrapped key": "WrappedKey", "an environment": harness.Canary}
	for _, path := range []string{"/v1/jobs", "/v1/job/holder", "/v1/job/holder/allocations", "/v1/job/holder/versions?diffs=true",
		"/v1/job/holder/evaluations", "/v1/job/holder/deployments",
		"/v1/job/holder/summary", "/v1/job/holder/submission?version=0", "/v1/jobs/statuses", "/v1/allocations",
		"/v1/allocations?resources=true&task_states=true", "/v1/allocation/" + h.Alloc.ID,
		"/v1/nodes?resources=true&os=true", "/v1/node/" + node, "/v1/node/" + node + "/allocations", "/v1/evaluations",
		"/v1/evaluation/" + eval, "/v1/evaluation/" + eval + "/allocations",
		"/v1/deployments", "/v1/agent/self", "/v1/agent/members", "/v1/agent/servers", "/v1/agent/health?type=client", "/v1/metrics",
		"/v1/operator/scheduler/configuration",
		"/v1/operator/keyring/keys", "/v1/operator/raft/configuration", "/v1/client/stats", "/v1/client/allocation/" + h.Alloc.ID + "/stats",
		"/v1/namespaces", "/v1/node/pools",
		"/v1/client/fs/ls/" + h.Alloc.ID + "?path=/t", "/v1/event/stream", "/.well-known/jwks.json",
		"/v1/allocations?filter=SignedIdentities+is+not+empty", "/v1/nodes?filter=SecretID+is+not+empty",
		"/v1/allocations?filter=ID+matches+%22(%22", "/v1/client/fs/cat/" + h.Alloc.ID + "?path=t/secrets/nomad_token",
		"/v1/job/" + h.Token, "/v1/allocation/" + h.Alloc.ID + "?namespace=nope"} {
		_, body, _ := harness.Fetch(t, http.DefaultClient, "GET", a.Address()+path, "")
		if path == "/v1/job/"+h.Token {
			continue // for the log only
		}
		for what, text := range hidden {
			if strings.Contains(body, text) {
				t.Errorf("%s shows %s", path, what)
			}
		}
	}
	for _, token := range []string{h.Token + "x", secret} { // rejected, and perhaps logged
		harness.Fetch(t, http.DefaultClient, "GET", a.Address()+"/v1/jobs", token)
	}
	log := harness.Content(t, filepath.Join(a.Dir, "agent.log"))
	record := harness.Content(t, filepath.Join(data, "audit", "audit.log"))
	for what, text := range hidden {
		if strings.Contains(record, text) {
			t.Errorf("the audit log shows %s", what)
		}
	}
	for _, asked := range []string{`"endpoint":"/v1/job/[token]"`, `"kind":"invalid"`, `"type":"IdentityEvent"`, h.Alloc.ID} {
		if !strings.Contains(record, asked) {
			t.Errorf("the audit log does not have %s", asked)
		}
	}
	delete(hidden, "a token") // the log contains the path of a request, which had one above
	hidden["a signature"] = hidden["a signature"][:40]
	for line := range strings.Lines(log) {
		for what, text := range hidden {
			if strings.Contains(line, text) && !strings.Contains(line, "/v1/job/eyJ") {
				t.Errorf("the agent's log shows %s: %.300s", what, line)
			}
		}
	}
	auditModes(t, data, h)
}

// auditModes checks who may read the files of an agent. Other users may enter the directories that
// tasks pass through, but not list them. Tasks own the files of their allocation.
func auditModes(t *testing.T, data string, h harness.Holder) {
	t.Helper()
	through := map[string]bool{".": true, "alloc": true}
	err := filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = e.Info()
		}
		if errors.Is(err, fs.ErrNotExist) && path != data {
			return nil // the agent continues in the meantime
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(data, path)
		if err != nil {
			return err
		}
		mode := info.Mode()
		switch inside := strings.HasPrefix(rel, "alloc/"); {
		case mode&fs.ModeSymlink != 0:
		case through[rel] && mode.Perm()&^0o711 != 0, !through[rel] && !inside && mode.Perm()&0o077 != 0:
			t.Errorf("%s has mode %v", rel, mode)
		case inside && mode.IsRegular() && mode.Perm()&0o007 != 0:
			if b, err := os.ReadFile(path); err == nil && (bytes.Contains(b, []byte("eyJhbGciOi")) || bytes.Contains(b, []byte(harness.Canary))) {
				t.Errorf("%s (mode %v) holds a secret", rel, mode)
			}
		case inside && strings.Contains(rel+"/", "/secrets/") || strings.Contains(rel+"/", "/private/"):
			if mode.Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", rel, mode)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
