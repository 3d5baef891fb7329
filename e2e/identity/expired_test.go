package identity_test

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
)

// A node that was offline until its identity expired returns by itself, even if introductions are
// enforced: it is registered and has its secret ID. Its task keeps running.
func TestExpiredNodeReturns(t *testing.T) {
	f := harness.NewFleet(t, "server {\n  client_introduction {\n    enforcement = \"strict\"\n  }\n}\n")
	intro, _, err := f.Server.Client.ACLIdentity().CreateClientIntroductionToken(&api.ACLIdentityClientIntroductionTokenRequest{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOMAD_CLIENT_INTRO_TOKEN", intro.JWT)
	n := f.Join("worker", "client {}\n")
	t.Setenv("NOMAD_CLIENT_INTRO_TOKEN", "")
	id := harness.NodeID(t, n)
	jobID, _ := harness.Run(t, f.Server, harness.Job("web", "", harness.Shell("echo $$; exec sleep 3600")))
	defer f.Purge()
	al := harness.Await(t, f.Server, jobID, "running", 1)[0]
	pid := harness.WaitLog(t, f.Server, al)
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}

	m, past := harness.StolenKeys(t, f.Server), time.Now().Add(-48*time.Hour)
	expired := m.Sign(map[string]any{"nomad_node_id": id, "nomad_node_pool": "default", "nomad_node_datacenter": "dc1",
		"aud": "nomadproject.io",
		"sub": "node:global:default:" + id + ":default", "jti": nomad.NewID(), "iat": past.Unix(), "nbf": past.Unix(),
		"exp": past.Add(24 * time.Hour).Unix()})
	db, err := state.Open(state.Config{Dir: filepath.Join(n.Dir, "data", "client"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.PutNodeIdentity(idtoken.New(expired, m.Kid)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	n = harness.Restart(t, n)
	got, err := f.Server.Client.Nodes().Identity().Get(&api.NodeIdentityGetRequest{NodeID: id}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if end, ok := got.Claims["exp"].(float64); !ok || time.Until(time.Unix(int64(end), 0)) < 23*time.Hour {
		t.Errorf("the node that came back has the identity %v", got.Claims)
	}
	if back := harness.OnlyAlloc(t, f.Server, jobID); back.ID != al.ID || harness.WaitLog(t, f.Server, al) != pid ||
		harness.NodeID(t, n) != id {
		t.Error("the end of the identity cost the task")
	}
	next, _ := harness.Run(t, f.Server, harness.Job("next", "", harness.Shell("exec sleep 3600")))
	harness.Await(t, f.Server, next, "running", 1)
}
